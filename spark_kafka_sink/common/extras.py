"""The package's extras: libraries that some options need."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from spark_kafka_sink.common.errors import ConfigError


@dataclass(frozen=True, slots=True)
class _Extra:
    """What an extra brings."""

    modules: tuple[str, ...]
    place: str = "the driver"
    """Where it has to be installed."""


_EVERYWHERE = "the driver and every executor"
_EXTRAS = {
    "prometheus": _Extra(("prometheus_client",)),
    "opentelemetry": _Extra(("opentelemetry",)),
    "oauth": _Extra(("authlib", "requests"), _EVERYWHERE),
    "msk-iam": _Extra(("aws_msk_iam_sasl_signer", "boto3"), _EVERYWHERE),
    "gssapi": _Extra(("gssapi",), _EVERYWHERE),
}


def require_extra(extra: str, option: str) -> None:
    """Make sure that an option's library is there, without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    wanted = _EXTRAS[extra]
    if any(find_spec(module) is None for module in wanted.modules):
        raise ConfigError(
            f"option {option} needs a library that is not installed",
            hint=f"Install it on {wanted.place}: pip install 'spark-kafka-sink[{extra}]'.",
        )
