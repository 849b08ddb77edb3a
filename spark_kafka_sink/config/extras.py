"""The package's extras: libraries that some options need."""

from __future__ import annotations

from importlib.util import find_spec

from spark_kafka_sink.common.errors import ConfigError

_EXTRAS = {"prometheus": "prometheus_client", "opentelemetry": "opentelemetry"}


def require_extra(extra: str, option: str) -> None:
    """Make sure that an option's library is there, without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    if find_spec(_EXTRAS[extra]) is None:
        raise ConfigError(
            f"option {option} needs a library that is not installed",
            hint=f"Install it on the driver: pip install 'spark-kafka-sink[{extra}]'.",
        )
