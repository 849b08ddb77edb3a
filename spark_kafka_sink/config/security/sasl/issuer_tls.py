"""Whom to believe when a token is fetched: by Java's, Strimzi's or librdkafka's names.

Java looks for these ssl.* options inside sasl.jaas.config, not among the client's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import StoreType, TlsConfig, TrustStore
from spark_kafka_sink.config.security.names import SECURITY_NAMES
from spark_kafka_sink.config.security.tls import ca_file, tls_config
from spark_kafka_sink.config.security.values import SecurityValues, read

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.sasl.jaas import JaasOptions

_STRIMZI = "oauth."


def issuer_tls(values: SecurityValues, options: JaasOptions) -> TlsConfig | None:
    """How to check the issuer's certificate; None for the system's authorities.

    Raises:
        ConfigError: see `tls_config`; or both places say something.
    """
    shown = {
        name.removeprefix(_STRIMZI): options.name(name)
        for name in options.options
        if name.removeprefix(_STRIMZI) in SECURITY_NAMES
        and name.removeprefix(_STRIMZI).startswith("ssl.")
    }
    given = values.first_given(("https.ca.location", "https.ca.pem"))
    if (shown and given) or (values.given("https.ca.pem") and given == "https.ca.location"):
        raise ConfigError(
            "the issuer's certificate authorities are given in two places",
            hint="Leave one out: kafka.https.ca.location, kafka.https.ca.pem, or ssl.* options in "
            f"{options.place}.",
        )
    if shown:
        own = options.beginning("") | options.beginning(_STRIMZI)
        return tls_config(
            SecurityValues({name: read(name, own[name], shown[name]) for name in shown}, shown)
        )
    certificates = values.secret("https.ca.pem") or ca_file(values, "https.ca.location")
    if certificates is None:
        return None
    return TlsConfig(truststore=TrustStore(type=StoreType.PEM, certificates=certificates))
