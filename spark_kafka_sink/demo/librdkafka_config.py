"""The security settings of a write, for the librdkafka that checks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import (
    ClientCredentialsLogin,
    PasswordLogin,
    StoreType,
)
from spark_kafka_sink.config.security.sasl.login import resolve

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.model import (
        KeyStore,
        SaslConfig,
        SecurityConfig,
        TlsConfig,
        TrustStore,
    )

_HINT = (
    "Give certificates as PEM, which keytool -exportcert -rfc writes; or write with Spark alone, "
    "and check with a client of your own."
)


def librdkafka_config(security: SecurityConfig) -> dict[str, str]:
    """The same settings under librdkafka's names, secrets revealed.

    Raises:
        ConfigError: librdkafka has nothing for a setting, or a secret can't be found here.
    """
    found = {"security.protocol": security.protocol.value}
    if security.tls is not None:
        found |= _tls(security.tls)
    if security.sasl is not None:
        found |= _sasl(security.sasl)
    return found


def _tls(tls: TlsConfig) -> dict[str, str]:
    return {
        **_truststore(tls.truststore),
        **(_keystore(tls.keystore) if tls.keystore is not None else {}),
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
    }


def _truststore(store: TrustStore | None) -> dict[str, str]:
    if store is None:
        return {"ssl.ca.location": "probe"}
    if store.type is not StoreType.PEM:
        raise _nothing_for(f"a truststore of type {store.type.value}")
    if store.location is not None:
        return {"ssl.ca.location": store.location}
    return _revealed({"ssl.ca.pem": store.certificates})


def _keystore(store: KeyStore) -> dict[str, str]:
    if store.type is StoreType.JKS:
        raise _nothing_for("a key store of type JKS")
    if store.type is StoreType.PKCS12:
        return {
            "ssl.keystore.location": store.location or "",
            **_revealed({"ssl.keystore.password": store.password}),
        }
    file = store.location
    places = {} if file is None else {"ssl.certificate.location": file, "ssl.key.location": file}
    inline = {"ssl.certificate.pem": store.certificate_chain, "ssl.key.pem": store.key}
    return places | _revealed(inline | {"ssl.key.password": store.key_password})


def _sasl(sasl: SaslConfig) -> dict[str, str]:
    login = resolve(sasl)
    found = {"sasl.mechanisms": sasl.mechanism.value}
    if isinstance(login, PasswordLogin) and not login.token_auth:
        return found | _revealed({"sasl.username": login.username, "sasl.password": login.password})
    if isinstance(login, ClientCredentialsLogin) and login.tls is None:
        pairs = ",".join(f"{name}={value}" for name, value in login.extensions)
        given = {"sasl.oauthbearer.scope": login.scope, "sasl.oauthbearer.extensions": pairs}
        return (
            found
            | {"sasl.oauthbearer.method": "oidc"}
            | {"sasl.oauthbearer.token.endpoint.url": login.token_endpoint_url}
            | {name: value for name, value in given.items() if value}
            | _revealed(
                {
                    "sasl.oauthbearer.client.id": login.client_id,
                    "sasl.oauthbearer.client.secret": login.client_secret,
                }
            )
        )
    raise _nothing_for(f"this login of {sasl.mechanism.value}")


def _revealed(secrets: dict[str, Secret | None]) -> dict[str, str]:
    return {name: secret.reveal() for name, secret in secrets.items() if secret is not None}


def _nothing_for(what: str) -> ConfigError:
    return ConfigError(
        f"the demo reads back with librdkafka, which has nothing for {what}", hint=_HINT
    )
