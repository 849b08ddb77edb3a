"""Checks the names of the options before their values: unknown, refused, ignored."""

from __future__ import annotations

import logging
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.base import known_keys
from spark_kafka_sink.base.errors import ConfigError
from spark_kafka_sink.base.options import PRODUCER_OPTIONS, SINK_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX = "kafka."
PRODUCER_NAMES = frozenset(option.name for option in PRODUCER_OPTIONS)
SINK_NAMES = {option.name.lower(): option.name for option in SINK_OPTIONS}
CLOSE = 0.8

_logger = logging.getLogger(__name__)


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name most like `name`, None when nothing is."""
    return next(iter(get_close_matches(name, sorted(names), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, names: Iterable[str], prefix: str = "") -> str | None:
    """A hint that names the nearest of `names`, None when nothing is near."""
    match = nearest(name, names)
    return None if match is None else f"Did you mean {prefix}{match}?"


def supported(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into the producer's and the sink's, both by their table names.

    Only options of the table are returned: the value of any other key is dropped unread, so that a
    secret among them goes nowhere.

    Raises:
        ConfigError: a name is unknown or refused.
    """
    producer: dict[str, str] = {}
    sink: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name.startswith(PREFIX):
            if check_producer_name(name.removeprefix(PREFIX), value):
                producer[name.removeprefix(PREFIX)] = value
        elif name in SINK_NAMES:
            sink[SINK_NAMES[name]] = value
        else:
            _check_foreign_name(name)
    return producer, sink


def check_producer_name(name: str, value: str) -> bool:
    """Whether a `kafka.` option is ours; False for one that is ignored, with a warning.

    Raises:
        ConfigError: nobody knows the name, or ignoring it would not be safe.
    """
    if name in PRODUCER_NAMES:
        return True
    if name == "security.protocol":
        return _check_security(value)
    _refuse_unsafe(name)
    if name not in known_keys.IGNORED_KEYS:
        known = PRODUCER_NAMES | known_keys.IGNORED_PRODUCER_KEYS
        raise ConfigError(
            f"unknown option {PREFIX}{name}",
            hint=did_you_mean(name, known, PREFIX) or "It is not a Kafka producer option.",
        )
    warn_ignored(name)
    return False


@cache
def warn_ignored(name: str) -> None:
    """Say once per process, by name alone, that an option has no effect."""
    _logger.warning("Option %s%s is not supported and has no effect", PREFIX, name)


def _refuse_unsafe(name: str) -> None:
    if name in known_keys.SERIALIZERS:
        raise ConfigError(
            f"option {PREFIX}{name} is not allowed",
            hint="Keys and values are written as they are: cast the columns to string or binary.",
        )
    if name.startswith(known_keys.UNSAFE_PREFIXES) or name in known_keys.UNSAFE_KEYS:
        raise ConfigError(
            f"option {PREFIX}{name} is not supported by this version",
            hint="It is refused because ignoring it would not be safe. Remove it to go without.",
        )


def _check_security(value: str) -> bool:
    protocol = value.strip().upper()
    if protocol == "PLAINTEXT":
        return False
    shown = protocol if protocol in known_keys.SECURITY_PROTOCOLS else "an unknown protocol"
    raise ConfigError(
        f"option {PREFIX}security.protocol is {shown}, which is not supported by this version",
        hint="Allowed: PLAINTEXT.",
    )


def _check_foreign_name(name: str) -> None:
    """Spark passes any option on, so only a likely typo of ours is an error."""
    if name in known_keys.SPARK_OPTIONS:
        return
    if name in PRODUCER_NAMES:
        raise ConfigError(f"unknown option {name}", hint=f"Did you mean {PREFIX}{name}?")
    match = nearest(name, SINK_NAMES, CLOSE)
    if match is not None:
        raise ConfigError(f"unknown option {name}", hint=f"Did you mean {SINK_NAMES[match]}?")
