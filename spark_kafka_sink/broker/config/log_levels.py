"""The levels of the broker's loggers, by Kafka's names (KIP-412)."""

from __future__ import annotations

import logging

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
"""Python's levels by Kafka's names of log levels."""
_LEVEL_NAMES = {level: name for name, level in reversed(LEVELS.items())} | {logging.DEBUG: "DEBUG"}
_ROOT = "spark_kafka_sink.broker"
"""The logger above all loggers of the broker."""


def effective_levels() -> dict[str, str]:
    """Return the effective level of every logger of the broker, by name."""
    known = logging.root.manager.loggerDict
    names = sorted({_ROOT, *(name for name in known if name.startswith(f"{_ROOT}."))})
    return {name: _level_name(logging.getLogger(name).getEffectiveLevel()) for name in names}


def _level_name(number: int) -> str:
    below = [known for known in _LEVEL_NAMES if known <= number]
    return _LEVEL_NAMES[max(below, default=logging.DEBUG)]
