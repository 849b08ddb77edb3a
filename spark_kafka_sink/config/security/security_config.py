"""The security settings of a client.

They are frozen, are sent to every task, and have a repr without secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret

TRUSTSTORE_LOCATION = "kafka.ssl.truststore.location"


class SecurityProtocol(Enum):
    """Values of Java's security.protocol."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """True if connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """True if the client authenticates with SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class StoreType(Enum):
    """Values of Java's ssl.truststore.type and ssl.keystore.type."""

    JKS = "JKS"
    PKCS12 = "PKCS12"
    PEM = "PEM"


class TlsVersion(Enum):
    """The values of ssl.enabled.protocols that are still secure."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


class Mechanism(Enum):
    """Values of Java's sasl.mechanism. AWS_MSK_IAM is defined by Amazon's client library."""

    GSSAPI = "GSSAPI"
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    AWS_MSK_IAM = "AWS_MSK_IAM"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """The trusted certificates, either as a file or as text. The field that is not used is None."""

    type: StoreType
    location: str | None = None
    certificates: Secret | None = None
    """PEM text, or a reference to PEM text."""
    password: Secret | None = None
    location_option: str = field(default=TRUSTSTORE_LOCATION, compare=False)
    """The name of the option with the location; shown in errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """The client's certificate and key, either as a file or as PEM text."""

    type: StoreType
    location: str | None = None
    certificate_chain: Secret | None = None
    key: Secret | None = None
    password: Secret | None = None
    """Password of the file."""
    key_password: Secret | None = None
    """Password of the private key, if it differs from `password` or if a PEM key is encrypted."""
    location_option: str = field(default="kafka.ssl.keystore.location", compare=False)
    """The name of the option with the location; shown in errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The settings of a TLS connection."""

    truststore: TrustStore | None = None
    """The trusted certificates, or None to trust the system's certificate authorities."""
    keystore: KeyStore | None = None
    protocols: tuple[TlsVersion, ...] = (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3)
    cipher_suites: tuple[str, ...] = ()
    """Names of cipher suites, in IANA (as in Java) or OpenSSL form. If empty, the library's default
    applies.
    """
    check_hostname: bool = True
    """True if ssl.endpoint.identification.algorithm is https."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLogin:
    """Login with name and password, for PLAIN and SCRAM."""

    username: Secret
    password: Secret
    token_auth: bool = False
    """True if name and password belong to a delegation token (KIP-48). SCRAM only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """Login for OAUTHBEARER with an existing token, given as text or as a file."""

    token: Secret
    """The token; a `file:` reference is read again at each login."""
    extensions: tuple[tuple[str, str], ...] = ()
    """SASL extensions (KIP-342), such as Confluent Cloud's logicalCluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentialsLogin:
    """Login for OAUTHBEARER with a token that is requested from an OIDC issuer (KIP-768)."""

    token_endpoint_url: str
    client_id: Secret
    client_secret: Secret
    scope: str | None = None
    audience: str | None = None
    """Audience of the requested token, which some issuers require; set by Strimzi's option."""
    extensions: tuple[tuple[str, str], ...] = ()
    header_urlencode: bool = False
    """True to URL-encode id and secret for HTTP basic authentication (RFC 6749, 2.3.1)."""
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    tls: TlsConfig | None = None
    """TLS settings for the issuer, or None to trust the system's certificate authorities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredTokenLogin:
    """Login for OAUTHBEARER with an unsigned token created by the client (RFC 7515, alg none).

    It corresponds to Java's OAuthBearerUnsecuredLoginCallbackHandler, and is for development only.
    """

    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...]
    """Claims of the JWT, without iat and exp."""
    lifetime_seconds: int = 3600
    extensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MskIamLogin:
    """Login for AWS_MSK_IAM with credentials from AWS's default chain, a profile, or a role."""

    region: str | None = None
    """The AWS region, or None to get it from the broker's host name or the environment."""
    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str | None = None
    sts_region: str | None = None
    debug_credentials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Login for GSSAPI with a keytab, or with the ticket cache if no keytab is set."""

    service_name: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    """Path of the ticket cache, or None to use KRB5CCNAME or the system's default."""


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
    """A sasl.jaas.config that is set as a reference, which is resolved where the client logs in.

    `kafka.security.credentials.resolve_login` turns it into a `Login` at each login.
    """

    jaas: Secret
    settings: tuple[tuple[str, Secret | str | float | bool], ...]
    """The other SASL options that are set, by name."""
    folders: tuple[str, ...] = ()
    """Folders that are searched for files with relative paths in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshPolicy:
    """When an expiring token is refreshed (Java's sasl.login.refresh.*)."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_seconds: int = 60
    buffer_seconds: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    """How the client authenticates."""

    mechanism: Mechanism
    login: Login | JaasLogin
    """The login, whose type depends on the mechanism."""
    refresh: RefreshPolicy = RefreshPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """The security settings of a client."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsConfig | None = None
    """Set if the protocol uses TLS."""
    sasl: SaslConfig | None = None
    """Set if the protocol uses SASL."""
