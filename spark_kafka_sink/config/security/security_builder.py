"""Build the `SecurityConfig` of a client from its options."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.config.security.security_config import SecurityConfig, SecurityProtocol
from spark_kafka_sink.config.security.security_values import SecurityValues

if TYPE_CHECKING:
    from spark_kafka_sink.config.aliases import NamedOptions

_QUIETLY_UNUSED = frozenset({"ssl.endpoint.identification.algorithm", "ssl.protocol"})
"""Options that shared client settings often contain. They cause no warning if TLS is not used."""
_PROTOCOL = "security.protocol"
_LOG = logging.getLogger(__name__)


def build_security(options: NamedOptions) -> SecurityConfig:
    """Build the security settings of a client.

    As in Java, the values of options that the protocol does not use are not checked. A warning
    lists these options, because the user might expect protection that is not active.

    Raises:
        ConfigError: a value is wrong or missing, or contradicts a different option.
    """
    values = SecurityValues.parse(options, options.keys() & {_PROTOCOL})
    protocol = SecurityProtocol(values.text(_PROTOCOL))
    used = [option for option in options if _is_used(option, protocol)]
    values = SecurityValues.parse(options, used)
    for option in options.keys() - {*used, *_QUIETLY_UNUSED}:
        warn_once(
            _LOG,
            "Option %s has no effect because kafka.security.protocol is %s",
            values.name(option),
            protocol.value,
        )
    config = SecurityConfig(protocol=protocol)
    if protocol.uses_tls:
        from spark_kafka_sink.config.security.tls import tls_config

        config = replace(config, tls=tls_config(values))
    if protocol.uses_sasl:
        from spark_kafka_sink.config.security.sasl import sasl_config

        config = replace(config, sasl=sasl_config(values))
    return config


def _is_used(option: str, protocol: SecurityProtocol) -> bool:
    if option == _PROTOCOL:
        return True
    is_tls = option.startswith(("ssl.", "enable.ssl."))
    return protocol.uses_tls if is_tls else protocol.uses_sasl
