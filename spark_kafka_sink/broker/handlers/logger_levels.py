"""The levels of this broker's loggers under Kafka's names (KIP-412)."""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "spark_kafka_sink.broker"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
_NAMES = {number: name for name, number in reversed(LEVELS.items())} | {logging.DEBUG: "DEBUG"}


def levels() -> dict[str, str]:
    """The level in force of every logger, by its name."""
    known = logging.root.manager.loggerDict
    own = {ROOT, *(name for name in known if name.startswith(f"{ROOT}."))}
    return {name: _name(logging.getLogger(name).getEffectiveLevel()) for name in sorted(own)}


def set_level(name: str, level: str | None) -> None:
    """Give a logger a level; None is that of its parent."""
    logging.getLogger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _name(number: int) -> str:
    below = [known for known in _NAMES if known <= number]
    return _NAMES[max(below, default=logging.DEBUG)]
