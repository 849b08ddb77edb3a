"""The package's extras: libraries that some options and tools need."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

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
    "testing": _Extra(("chispa", "pandas")),
}


def require_extra(extra: str, option: str) -> None:
    """Make sure that an option's library is there, without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    if any(find_spec(module) is None for module in _EXTRAS[extra].modules):
        raise _missing(extra, f"option {option}")


def import_extra(extra: str, module: str, user: str) -> Any:
    """Import a module of an extra for `user`, which an error names.

    Raises:
        ConfigError: it is not installed.
    """
    if find_spec(module.partition(".")[0]) is None:
        raise _missing(extra, user)
    return import_module(module)


def _missing(extra: str, user: str) -> ConfigError:
    return ConfigError(
        f"{user} needs a library that is not installed",
        hint=f"Install it on {_EXTRAS[extra].place}: pip install 'spark-kafka-sink[{extra}]'.",
    )
