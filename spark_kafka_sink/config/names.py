"""Checks the names of the options before their values: unknown, refused, ignored."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown_name
from spark_kafka_sink.common.similarity import CLOSE, nearest
from spark_kafka_sink.config import known_keys
from spark_kafka_sink.config.aliases import ALIASES, NamedOptions
from spark_kafka_sink.config.option import PREFIX
from spark_kafka_sink.config.options import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.security.misplaced import refuse_misplaced, refuse_secret_name
from spark_kafka_sink.config.security.names import (
    IGNORED_SECURITY_KEYS,
    REFUSED_SECURITY_KEYS,
    SECURITY_ALIASES,
    SECURITY_NAMES,
    SECURITY_PREFIXES,
)
from spark_kafka_sink.config.security.options import SECURITY_OPTIONS
from spark_kafka_sink.config.topics.creation import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

PRODUCER_NAMES = frozenset(option.name for option in PRODUCER_OPTIONS)
SINK_NAMES = {option.name.lower(): option.name for option in SINK_OPTIONS}
RECOGNISED = (
    PRODUCER_NAMES
    | ALIASES.keys()
    | SECURITY_NAMES
    | SECURITY_ALIASES.keys()
    | IGNORED_SECURITY_KEYS
    | known_keys.IGNORED_KEYS
    | known_keys.CALLBACKS
    | known_keys.COUNTERPARTS.keys()
)
"""What a mistyped name may have been."""

_KAFKA = PREFIX.removesuffix(".")
_LOOSELY = 0.7
"""How alike `saslmechanism` and `sasl.mechanism` are, and more."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """What was given, by the names of the tables; not for any text, as passwords are in it."""

    producer: NamedOptions = field(repr=False)
    security: NamedOptions = field(repr=False)
    sink: dict[str, str] = field(repr=False)


def is_kafka_option(name: str) -> bool:
    """Whether a name without its prefix is one that `split_options` has a word about."""
    return (
        name in RECOGNISED | REFUSED_SECURITY_KEYS.keys() | known_keys.UNSAFE_KEYS
        or name in known_keys.SERIALIZERS
        or name.startswith(known_keys.UNSAFE_PREFIXES)
    )


def split_options(options: Mapping[str, str]) -> GivenOptions:
    """Split options into the producer's, those of security and the sink's.

    An alias of librdkafka's counts as the option that it stands for.

    Only options of the tables are returned: the value of any other key is dropped unread, so that a
    secret among them goes nowhere.

    Raises:
        ConfigError: a name is unknown or refused, or two names for the same contradict.
    """
    given = GivenOptions(
        NamedOptions(PRODUCER_OPTIONS, ALIASES),
        NamedOptions(SECURITY_OPTIONS, SECURITY_ALIASES),
        {},
    )
    for key, value in options.items():
        refuse_secret_name(key)
        name = key.lower()
        if name.startswith(PREFIX):
            _add(given, name.removeprefix(PREFIX), value)
        elif name in SINK_NAMES:
            refuse_misplaced(SINK_NAMES[name], SINK_NAMES[name], value)
            given.sink[SINK_NAMES[name]] = value
        elif name.startswith(CONFIG_PREFIX):
            refuse_misplaced(name, name, value)
            given.sink[name] = value
        else:
            _check_foreign_name(name)
    return given


def _add(given: GivenOptions, name: str, value: str) -> None:
    """Take a `kafka.` option to where it belongs; one that is ignored is dropped with a warning.

    Raises:
        ConfigError: the name is unknown, or ignoring it would not be safe.
    """
    alias = ALIASES.get(name) or SECURITY_ALIASES.get(name)
    option = name if alias is None else alias.option
    if option in PRODUCER_NAMES | SECURITY_NAMES:
        refuse_misplaced(option, f"{PREFIX}{name}", value)
    if name in PRODUCER_NAMES or name in ALIASES:
        given.producer.add(name, value)
    elif name in SECURITY_NAMES or name in SECURITY_ALIASES:
        given.security.add(name, value)
    else:
        _refuse_unsafe(name)
        if name not in known_keys.IGNORED_KEYS | IGNORED_SECURITY_KEYS:
            raise ConfigError(f"unknown option {PREFIX}{shown_name(name)}", hint=_hint(name))
        warn_ignored(name)


@cache
def warn_ignored(name: str) -> None:
    """Say once per process, by name alone, that an option has no effect."""
    _logger.warning("Option %s%s is not supported and has no effect", PREFIX, name)


@cache
def warn_unknown(name: str) -> None:
    """Say once per process, by name alone, that nobody knows an option."""
    _logger.warning("Option %s is unknown and has no effect", name)


@cache
def warn_of_source_option(name: str) -> None:
    """Say once per process that an option is for reading."""
    instead = "; the topic to write to is option topic" if name in known_keys.SOURCE_TOPICS else ""
    _logger.warning("Option %s is for reading and has no effect%s", name, instead)


def _hint(name: str) -> str:
    known = nearest(name, RECOGNISED, CLOSE)
    if known is None:
        return "It is not a Kafka producer option."
    return _use(known) or f"Did you mean {PREFIX}{known}?"


def _use(name: str) -> str | None:
    """The hint for a name that other clients, or older ones, have for something that is here."""
    other = known_keys.COUNTERPARTS.get(name)
    return None if other is None else f"Use {other}."


def _refuse_unsafe(name: str) -> None:
    if name in known_keys.CALLBACKS:
        raise ConfigError(
            f"option {PREFIX}{name} is not supported: no option can hold what a program in C sets",
            hint=_use(name) or "Leave it out.",
        )
    if name in known_keys.SERIALIZERS:
        raise ConfigError(
            f"option {PREFIX}{name} is not allowed",
            hint="Keys and values are written as they are: cast the columns to string or binary.",
        )
    if name in REFUSED_SECURITY_KEYS:
        raise ConfigError(
            f"option {PREFIX}{name} is not supported", hint=f"{REFUSED_SECURITY_KEYS[name]}."
        )
    if name.startswith(known_keys.UNSAFE_PREFIXES) or name in known_keys.UNSAFE_KEYS:
        raise ConfigError(
            f"option {PREFIX}{shown_name(name)} is not supported by this version",
            hint=_use(name)
            or "It is refused because ignoring it would not be safe. Remove it to go without.",
        )


def _check_foreign_name(name: str) -> None:
    """Spark passes any option on, so only a likely typo of ours is an error.

    Any other name has no effect, as with Spark's own sink, and a warning says so.
    """
    if name in known_keys.SPARK_OPTIONS:
        return
    if name in known_keys.SOURCE_OPTIONS:
        warn_of_source_option(name)
        return
    unknown = f"unknown option {shown_name(name)}"
    if name in PRODUCER_NAMES or name in ALIASES or name.startswith(SECURITY_PREFIXES):
        raise ConfigError(unknown, hint=f"Did you mean {PREFIX}{shown_name(name)}?")
    match = nearest(name, SINK_NAMES, CLOSE)
    if match is not None:
        raise ConfigError(unknown, hint=f"Did you mean {SINK_NAMES[match]}?")
    if name.startswith(_KAFKA):
        raise ConfigError(unknown, hint=_like_kafka(name))
    warn_unknown(shown_name(name))


def _like_kafka(name: str) -> str:
    """The hint for a name that begins as the producer's options do, but without the dot."""
    known = nearest(name.removeprefix(_KAFKA).lstrip("_-"), RECOGNISED, _LOOSELY)
    example = f" Did you mean {PREFIX}{known}?" if known else ""
    return f"Kafka's options begin with {PREFIX!r}, and have dots as in Java.{example}"
