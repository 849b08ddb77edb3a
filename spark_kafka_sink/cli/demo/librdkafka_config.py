"""The security settings of the demo's consumer, as options of librdkafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security import security_config
from spark_kafka_sink.config.security.sasl import resolve_references

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret

_HINT = (
    "Give certificates as PEM, which keytool -exportcert -rfc writes; or write without the demo "
    "and check with your own client."
)


def librdkafka_config(security: security_config.SecurityConfig) -> dict[str, str]:
    """Return the security settings as options of librdkafka, with secrets in clear text.

    Raises:
        ConfigError: librdkafka does not support a setting, or a secret cannot be found.
    """
    settings = {"security.protocol": security.protocol.value}
    if security.tls is not None:
        settings |= _tls_config(security.tls)
    if security.sasl is not None:
        settings |= _sasl_config(security.sasl)
    return settings


def _tls_config(tls: security_config.TlsConfig) -> dict[str, str]:
    return {
        **_truststore_config(tls.truststore),
        **(_keystore_config(tls.keystore) if tls.keystore is not None else {}),
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
    }


def _truststore_config(store: security_config.TrustStore | None) -> dict[str, str]:
    if store is None:
        return {"ssl.ca.location": "probe"}
    if store.type is not security_config.StoreType.PEM:
        raise _unsupported_error(f"a truststore of type {store.type.value}")
    if store.location is not None:
        return {"ssl.ca.location": store.location}
    return _reveal_secrets({"ssl.ca.pem": store.certificates})


def _keystore_config(store: security_config.KeyStore) -> dict[str, str]:
    if store.type is security_config.StoreType.JKS:
        raise _unsupported_error("a keystore of type JKS")
    if store.type is security_config.StoreType.PKCS12:
        return {
            "ssl.keystore.location": store.location or "",
            **_reveal_secrets({"ssl.keystore.password": store.password}),
        }
    file = store.location
    files = {} if file is None else {"ssl.certificate.location": file, "ssl.key.location": file}
    inline = {"ssl.certificate.pem": store.certificate_chain, "ssl.key.pem": store.key}
    return files | _reveal_secrets(inline | {"ssl.key.password": store.key_password})


def _sasl_config(sasl: security_config.SaslConfig) -> dict[str, str]:
    login = resolve_references(sasl)
    settings = {"sasl.mechanisms": sasl.mechanism.value}
    if isinstance(login, security_config.PasswordLogin) and not login.token_auth:
        return settings | _reveal_secrets(
            {"sasl.username": login.username, "sasl.password": login.password}
        )
    if isinstance(login, security_config.ClientCredentialsLogin) and login.tls is None:
        pairs = ",".join(f"{name}={value}" for name, value in login.extensions)
        optional = {"sasl.oauthbearer.scope": login.scope, "sasl.oauthbearer.extensions": pairs}
        return (
            settings
            | {"sasl.oauthbearer.method": "oidc"}
            | {"sasl.oauthbearer.token.endpoint.url": login.token_endpoint_url}
            | {name: value for name, value in optional.items() if value}
            | _reveal_secrets(
                {
                    "sasl.oauthbearer.client.id": login.client_id,
                    "sasl.oauthbearer.client.secret": login.client_secret,
                }
            )
        )
    raise _unsupported_error(f"this {sasl.mechanism.value} login")


def _reveal_secrets(secrets: dict[str, Secret | None]) -> dict[str, str]:
    return {name: secret.reveal() for name, secret in secrets.items() if secret is not None}


def _unsupported_error(feature: str) -> ConfigError:
    return ConfigError(
        f"the demo reads the records with librdkafka, which does not support {feature}", hint=_HINT
    )
