"""Renders the options as Markdown for the README.

Run `python -m spark_kafka_sink.config.options_markdown` to print them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_kafka_sink.config.aliases import ALIASES
from spark_kafka_sink.config.known_keys import IGNORED_LIBRDKAFKA_KEYS, IGNORED_PRODUCER_KEYS
from spark_kafka_sink.config.options import PRODUCER_OPTIONS, SINK_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.config.option import Option, Value

_HEAD = ("| option | default here | Java's default | allowed | meaning |", "|---|---|---|---|---|")


def render_options() -> str:
    """Two tables, the sink's own options and the producer's, and the list of ignored names."""
    return "\n".join(
        (
            *_table(SINK_OPTIONS, ""),
            "",
            *_table(PRODUCER_OPTIONS, "kafka."),
            "",
            f"librdkafka's other names for these are accepted: {_aliases()}.",
            "",
            _ignored(),
            "",
        )
    )


def _aliases() -> str:
    return ", ".join(
        f"`kafka.{name}` (`{alias.option}`{', in KiB' if alias.unit == 1024 else ''})"
        for name, alias in sorted(ALIASES.items())
    )


def _ignored() -> str:
    java, librdkafka = _listed(IGNORED_PRODUCER_KEYS), _listed(IGNORED_LIBRDKAFKA_KEYS)
    return f"Accepted with a warning and without effect: Java's {java}; librdkafka's {librdkafka}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`kafka.{name}`" for name in sorted(names))


def _table(options: Iterable[Option], prefix: str) -> list[str]:
    return [*_HEAD, *(_row(option, prefix) for option in options)]


def _row(option: Option, prefix: str) -> str:
    ours = _default(option.default)
    cells = (
        f"`{prefix}{option.name}`",
        ours if option.bulk is None else f"**{ours}**",
        _default(option.java) if prefix and option.of_java else "",
        _allowed(option),
        option.doc,
    )
    return f"| {' | '.join(cells)} |"


def _allowed(option: Option) -> str:
    open_ended = option.is_number and option.high is None
    return f"{option.low} or more" if open_ended else option.allowed


def _default(value: Value) -> str:
    if value is None:
        return "none"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "empty"


if __name__ == "__main__":
    sys.stdout.write(render_options())
