"""The security settings of a client: frozen, sent to every task, without a secret in any text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret


class SecurityProtocol(Enum):
    """Java's security.protocol."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether the client says who it is by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class StoreType(Enum):
    """Java's ssl.truststore.type and ssl.keystore.type."""

    PEM = "PEM"
    JKS = "JKS"
    PKCS12 = "PKCS12"


class TlsVersion(Enum):
    """Those of ssl.enabled.protocols that are still safe."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


class Mechanism(Enum):
    """Java's sasl.mechanism; AWS_MSK_IAM is the one of Amazon's client library."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    AWS_MSK_IAM = "AWS_MSK_IAM"
    GSSAPI = "GSSAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """Whom to believe: a file, or certificates in the option itself; one of the two is None."""

    type: StoreType
    location: str | None = None
    certificates: Secret | None = None
    """PEM text, or a reference to it."""
    password: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """The client's certificate and key: a file, or PEM in the options themselves."""

    type: StoreType
    location: str | None = None
    certificate_chain: Secret | None = None
    key: Secret | None = None
    password: Secret | None = None
    """Of the file."""
    key_password: Secret | None = None
    """Of the key, where it differs or the key is encrypted PKCS#8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """What a TLS connection needs."""

    truststore: TrustStore | None = None
    """None for the system's certificate authorities."""
    keystore: KeyStore | None = None
    protocols: tuple[TlsVersion, ...] = (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3)
    cipher_suites: tuple[str, ...] = ()
    """IANA's names, as Java has them, or OpenSSL's; empty for the library's own choice."""
    check_hostname: bool = True
    """ssl.endpoint.identification.algorithm is https."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLogin:
    """PLAIN and SCRAM."""

    username: Secret
    password: Secret
    token_auth: bool = False
    """The name and password are a delegation token's (KIP-48); SCRAM only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """OAUTHBEARER with a token that somebody else provides: the text itself or a file."""

    token: Secret
    """A `file:` reference is read anew at each login."""
    extensions: tuple[tuple[str, str], ...] = ()
    """SASL extensions (KIP-342), such as Confluent Cloud's logicalCluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentialsLogin:
    """OAUTHBEARER with a token from an OIDC issuer, by client id and secret (KIP-768)."""

    token_endpoint_url: str
    client_id: Secret
    client_secret: Secret
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    header_urlencode: bool = False
    """URL-encode id and secret before they become HTTP's basic authentication (RFC 6749, 2.3.1)."""
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    tls: TlsConfig | None = None
    """How to check the issuer's certificate; None for the system's authorities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredTokenLogin:
    """OAUTHBEARER with a token that the client makes and nobody signs (RFC 7515, alg none).

    Java's OAuthBearerUnsecuredLoginCallbackHandler, for development alone.
    """

    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...]
    """Of the JWT, without iat and exp."""
    lifetime_seconds: int = 3600
    extensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MskIamLogin:
    """AWS_MSK_IAM: signed with the credentials of AWS's default chain, a profile, or a role."""

    region: str | None = None
    """None to read it off the broker's host name, else the environment."""
    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str | None = None
    sts_region: str | None = None
    debug_credentials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """GSSAPI: a keytab, or the ticket cache where there is none."""

    service_name: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    """Path of the cache; None for the one that KRB5CCNAME or the system names."""


Login = (
    PasswordLogin
    | TokenLogin
    | ClientCredentialsLogin
    | UnsecuredTokenLogin
    | MskIamLogin
    | KerberosLogin
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JaasLogin:
    """A sasl.jaas.config that is a reference: read where and when the client logs in.

    `security.credentials` makes the `Login` of it.
    """

    jaas: Secret
    settings: tuple[tuple[str, Secret | str | int | bool], ...]
    """The other SASL options that were given, by their names."""
    folders: tuple[str, ...] = ()
    """Where files may be that the text names by relative paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshPolicy:
    """When a token that runs out is renewed (Java's sasl.login.refresh.*)."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_seconds: int = 60
    buffer_seconds: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    """How the client says who it is; the kind of `login` follows from the mechanism."""

    mechanism: Mechanism
    login: Login | JaasLogin
    refresh: RefreshPolicy = RefreshPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """`tls` and `sasl` are there exactly if the protocol uses them."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None
