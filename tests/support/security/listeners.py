"""The listeners of the secured broker, and the server properties of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.support.security.issuer import AUDIENCE, Issuer
from tests.support.security.kerberos import SERVICE, Kdc
from tests.support.security.stores import STORE_PASSWORD, Stores
from tests.support.security.users import User, password
from tools.support.kafka_node import KafkaNode

HOST = "localhost"
REAUTH_MS = 3_000
_SECURITY = "org.apache.kafka.common.security"
_OAUTH = f"{_SECURITY}.oauthbearer"
_SCRAM_ALONE = ("SCRAM-SHA-512",)
_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*_PASSWORDS, "OAUTHBEARER", "GSSAPI")


class Listener(Enum):
    """Protocol, certificate (from `Stores`), SASL mechanisms and extra properties."""

    PLAINTEXT = ("PLAINTEXT",)
    """For administration by tests; its clients are superusers."""
    SSL = ("SSL", "good")
    MTLS = ("SSL", "good", (), {"ssl.client.auth": "required"})
    TLS12 = ("SSL", "good", (), {"ssl.enabled.protocols": "TLSv1.2"})
    RENEWING = ("SSL", "renewing")
    """Tests replace its certificate while the broker runs."""
    EXPIRED = ("SSL", "expired")
    WRONG_HOST = ("SSL", "wrong_host")
    UNKNOWN_CA = ("SSL", "unknown_ca")
    SASL_PLAINTEXT = ("SASL_PLAINTEXT", None, MECHANISMS)
    SASL_SSL = ("SASL_SSL", "good", MECHANISMS)
    SCRAM_ONLY = ("SASL_SSL", "good", _SCRAM_ALONE)
    REAUTH = ("SASL_SSL", "good", MECHANISMS, {"connections.max.reauth.ms": str(REAUTH_MS)})
    """Sessions expire after three seconds."""

    def __init__(
        self,
        protocol: str,
        certificate: str | None = None,
        mechanisms: tuple[str, ...] = (),
        extra: dict[str, str] | None = None,
    ) -> None:
        self.protocol = protocol
        self.certificate = certificate
        self.mechanisms = mechanisms
        self.extra = extra or {}

    @property
    def prefix(self) -> str:
        """Return the prefix of the server properties of this listener."""
        return f"listener.name.{self.name.lower()}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerResources:
    """Resources that the listeners need; `issuer` for OAUTHBEARER, `kdc` for GSSAPI."""

    stores: Stores
    issuer: Issuer | None = None
    kdc: Kdc | None = None

    def supports(self, mechanism: str) -> bool:
        """Return True if the resource for a mechanism exists."""
        needed: dict[str, object | None] = {"OAUTHBEARER": self.issuer, "GSSAPI": self.kdc}
        return needed.get(mechanism, self.stores) is not None


def broker_settings(ports: Mapping[Listener, int], resources: ListenerResources) -> dict[str, str]:
    """Return the server properties for all listeners except the controller's."""
    addresses = ",".join(f"{listener.name}://{HOST}:{port}" for listener, port in ports.items())
    settings = {
        "listeners": addresses,
        "advertised.listeners": addresses,
        "listener.security.protocol.map": ",".join(
            f"{listener.name}:{listener.protocol}" for listener in ports
        ),
        "inter.broker.listener.name": Listener.PLAINTEXT.name,
        # Each listener has its own network threads.
        "num.network.threads": "1",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "super.users": "User:ANONYMOUS",
    }
    for listener in ports:
        settings |= {
            f"{listener.prefix}{name}": value
            for name, value in _listener_settings(listener, resources)
        }
    return settings


def with_controller(settings: Mapping[str, str], node: KafkaNode) -> dict[str, str]:
    """Add the controller listener of a combined node."""
    protocols = settings["listener.security.protocol.map"]
    return {
        **settings,
        "listeners": f"{settings['listeners']},CONTROLLER://127.0.0.1:{node.controller_port}",
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
    }


def keystore_settings(path: Path) -> dict[str, str]:
    """Return the properties that set the certificate of a listener, also at runtime.

    It is a PKCS12 file: releases before 3.0 do not accept a PEM file without a password.
    """
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
    }


def _listener_settings(
    listener: Listener, resources: ListenerResources
) -> Iterator[tuple[str, str]]:
    yield from listener.extra.items()
    if listener.certificate is not None:
        path = resources.stores.path(f"{listener.certificate}.p12")
        yield from keystore_settings(path).items()
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.location", str(resources.stores.path("trust.pem"))
    mechanisms = [mechanism for mechanism in listener.mechanisms if resources.supports(mechanism)]
    if mechanisms:
        yield "sasl.enabled.mechanisms", ",".join(mechanisms)
    if "GSSAPI" in mechanisms:
        # Set for the listener: with GSSAPI enabled, Kafka uses KerberosLogin for all mechanisms.
        yield "sasl.kerberos.service.name", SERVICE
    for mechanism in mechanisms:
        for name, value in _mechanism(mechanism, resources).items():
            yield f"{mechanism.lower()}.{name}", value


def _mechanism(mechanism: str, resources: ListenerResources) -> dict[str, str]:
    match mechanism:
        case "PLAIN":
            return {"sasl.jaas.config": _plain_users(User)}
        case "OAUTHBEARER":
            return _oauth(resources.issuer)
        case "GSSAPI":
            return _gssapi(resources.kdc)
    return {"sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;"}


def _plain_users(users: Iterable[User]) -> str:
    known = " ".join(f'user_{user}="{password(user)}"' for user in users)
    return f"{_SECURITY}.plain.PlainLoginModule required {known};"


def _oauth(issuer: Issuer | None) -> dict[str, str]:
    assert issuer is not None
    return {
        "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        "sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": issuer.url,
    }


def _gssapi(kdc: Kdc | None) -> dict[str, str]:
    assert kdc is not None
    options = f'keyTab="{kdc.service_keytab}" principal="{kdc.service_principal}"'
    module = "com.sun.security.auth.module.Krb5LoginModule"
    return {"sasl.jaas.config": f"{module} required useKeyTab=true storeKey=true {options};"}
