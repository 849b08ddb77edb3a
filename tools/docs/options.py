"""Tables of the options, the profiles and the extras."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from spark_kafka_sink.common.extras import EXTRAS
from spark_kafka_sink.config.aliases import ALIASES
from spark_kafka_sink.config.enums import Profile
from spark_kafka_sink.config.names import IGNORED_LIBRDKAFKA_KEYS, IGNORED_PRODUCER_KEYS
from spark_kafka_sink.config.options import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.profiles import load_profile
from spark_kafka_sink.config.security.names import (
    IGNORED_JAVA_SECURITY_KEYS,
    IGNORED_LIBRDKAFKA_SECURITY_KEYS,
    REFUSED_SECURITY_KEYS,
    SECURITY_ALIASES,
)
from spark_kafka_sink.config.security.options import SECURITY_OPTIONS
from tools.docs.pages import ROOT, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.config.option import Option, Value


_PREFIX = "kafka."
_COLUMNS = ("option", "default here", "Java's default", "allowed", "meaning")
_SECURITY_COLUMNS = ("option", "default", "allowed", "meaning")
MAIN = (
    "kafka.bootstrap.servers",
    "topic",
    "kafka.acks",
    "kafka.compression.type",
    "kafka.linger.ms",
    "kafka.batch.size",
    "kafka.delivery.timeout.ms",
    "kafka.security.protocol",
    "profile",
    "reportPath",
    "useTimestampColumn",
    "errors.tolerance",
    "errors.deadletterqueue.topic.name",
)
"""Options in the README's table."""


def render_main_options() -> str:
    """Return a table of the most common options."""
    known = {option.name: option for option in SINK_OPTIONS}
    known |= {_PREFIX + option.name: option for option in (*PRODUCER_OPTIONS, *SECURITY_OPTIONS)}
    rows = ((f"`{name}`", _ours(known[name]), known[name].doc) for name in MAIN)
    return table(("option", "default", "meaning"), rows)


def render_sink_options() -> str:
    """Return a table of the sink's own options."""
    rows = (
        (f"`{option.name}`", _ours(option), _allowed(option), option.doc) for option in SINK_OPTIONS
    )
    return table(("option", "default", "allowed", "meaning"), rows)


def render_options() -> str:
    """Return a table of the producer's options."""
    return table(_COLUMNS, (_row(option) for option in PRODUCER_OPTIONS))


def render_security_options() -> str:
    """Return a table of the TLS and SASL options; their defaults are Java's."""
    rows = (
        (f"`{_PREFIX}{option.name}`", _default(option.default), _allowed(option), option.doc)
        for option in SECURITY_OPTIONS
    )
    return table(_SECURITY_COLUMNS, rows)


def render_other_names() -> str:
    """Return tables of librdkafka's option aliases, ignored options, and rejected options."""
    aliases = (
        (f"`{_PREFIX}{name}`", f"`{_PREFIX}{alias.option}`{', in KiB' * (alias.unit == 1024)}")
        for name, alias in sorted({**ALIASES, **SECURITY_ALIASES}.items())
    )
    ignored = IGNORED_PRODUCER_KEYS | IGNORED_JAVA_SECURITY_KEYS
    of_librdkafka = IGNORED_LIBRDKAFKA_KEYS | IGNORED_LIBRDKAFKA_SECURITY_KEYS
    reasons = sorted(set(REFUSED_SECURITY_KEYS.values()))
    refused = (
        f"- {_listed(name for name, why in REFUSED_SECURITY_KEYS.items() if why == reason)}: "
        f"{reason}"
        for reason in reasons
    )
    return "\n".join(
        (
            table(("librdkafka's name", "is the same as"), aliases),
            "Accepted with a warning and without effect:",
            "",
            f"- of Java's producer: {_listed(ignored)}",
            f"- of librdkafka: {_listed(of_librdkafka)}",
            "",
            "Refused:",
            "",
            *refused,
            "",
        )
    )


def render_profiles() -> str:
    """Return a table of the profiles' settings; a cell is empty if the default applies."""
    profiles = [profile for profile in Profile if profile is not Profile.NONE]
    values = {profile: load_profile(profile) for profile in profiles}
    options = [row for row in PRODUCER_OPTIONS if any(row.name in each for each in values.values())]
    rows = (
        (
            f"`{_PREFIX}{option.name}`",
            _defaults(option),
            *(_set(values[profile].get(option.name)) for profile in profiles),
        )
        for option in options
    )
    return table(("option", "default", *(f"`{profile}`" for profile in profiles)), rows)


def _row(option: Option) -> tuple[str, ...]:
    java = _default(option.java) if option.of_java else ""
    return f"`{_PREFIX}{option.name}`", _ours(option), java, _allowed(option), option.doc


def _ours(option: Option) -> str:
    text = _defaults(option)
    return text if option.bulk is None else f"**{text}**"


def _defaults(option: Option) -> str:
    text = _default(option.default)
    if option.batch_write is None:
        return text
    return f"{text}, in batch writes {_default(option.batch_write)}"


def _allowed(option: Option) -> str:
    open_ended = option.is_number and option.high is None
    return f"{option.low} or more" if open_ended else option.allowed


def _default(value: Value) -> str:
    if value is None:
        return "none"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "empty"


def _set(value: str | None) -> str:
    return "" if value is None else f"`{value}`"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{_PREFIX}{name}`" for name in sorted(names))


def render_extras() -> str:
    """Return one line for each extra of `pyproject.toml`, except the development extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [("none", "writing, and the embedded broker", project["dependencies"], _EVERYWHERE)]
    rows += [
        (f"`{name}`", extra.purpose, project["optional-dependencies"][name], extra.place)
        for name, extra in EXTRAS.items()
    ]
    return table(
        ("extra", "for", "brings", "where"),
        ((name, purpose, _brought(needs), place) for name, purpose, needs, place in rows),
    )


_EVERYWHERE = EXTRAS["spark"].place
_NAME = re.compile(r"(spark-kafka-sink)?\[?([\w,-]+)")


def _brought(requirements: list[str]) -> str:
    """Return the names of the distributions; extras of this package are formatted as code."""
    names: list[str] = []
    for each in requirements:
        found = _NAME.match(each)
        if found is None:
            raise ValueError(f"no requirement: {each}")
        own, name = found.groups()
        names += [f"`{extra}`" for extra in name.split(",")] if own else [name]
    return ", ".join(names)
