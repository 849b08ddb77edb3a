"""Puts the security options together: protocol, then TLS and SASL as far as it uses them."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.config.security.model import SecurityConfig, SecurityProtocol
from spark_kafka_sink.config.security.sasl.sasl_config import sasl_config
from spark_kafka_sink.config.security.tls import tls_config
from spark_kafka_sink.config.security.values import SecurityValues

if TYPE_CHECKING:
    from spark_kafka_sink.config.aliases import NamedOptions

_HARMLESS = frozenset({"ssl.endpoint.identification.algorithm", "ssl.protocol"})
"""Commonly set for all clients alike; without TLS they are missed by nobody."""
_logger = logging.getLogger(__name__)


def build_security(given: NamedOptions) -> SecurityConfig:
    """The security settings of a client.

    As in Java, options that the protocol does not use are read, and have no effect; a warning
    names them, as data may go where the user did not mean it to.

    Raises:
        ConfigError: a value is wrong, missing or at odds with another.
    """
    values = SecurityValues.parse(given)
    protocol = SecurityProtocol(values.text("security.protocol"))
    for option in given:
        if (option.startswith("ssl.") and not protocol.uses_tls and option not in _HARMLESS) or (
            option.startswith("sasl.") and not protocol.uses_sasl
        ):
            warn_unused(values.name(option), protocol.value)
    return SecurityConfig(
        protocol=protocol,
        tls=tls_config(values) if protocol.uses_tls else None,
        sasl=sasl_config(values) if protocol.uses_sasl else None,
    )


@cache
def warn_unused(option: str, protocol: str) -> None:
    """Say once per process, by name alone, that an option has no effect with a protocol."""
    _logger.warning("Option %s has no effect as kafka.security.protocol is %s", option, protocol)
