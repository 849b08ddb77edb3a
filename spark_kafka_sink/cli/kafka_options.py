"""Options for the commands that connect to a Kafka: --option and --config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown_name
from spark_kafka_sink.common.similarity import nearest
from spark_kafka_sink.config.known_keys import SERIALIZERS
from spark_kafka_sink.config.names import RECOGNISED, SINK_NAMES, is_kafka_option
from spark_kafka_sink.config.option import PREFIX
from spark_kafka_sink.config.properties import parse_properties
from spark_kafka_sink.config.topics.creation import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GivenOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="An option of the write, as kafka.security.protocol=SASL_SSL; may be given more than "
        "once.",
    ),
]
OptionsFile = Annotated[
    Path | None,
    typer.Option(help="A file of such options, as --command-config of Kafka's tools takes it."),
]


def kafka_options(
    config: Path | None, given: Iterable[str], *, of_sink: bool = False
) -> dict[str, str]:
    """The options of a write, those of the command line above those of the file.

    Args:
        config: a file of Java properties, as --command-config of Kafka's own tools takes it; a
            producer's serializers in it have no meaning here and are left out.
        given: name=value each. Names may have `kafka.` before them or not, in both.
        of_sink: the sink's own options, such as `errors.tolerance`, are allowed too.

    Raises:
        ConfigError: the file can't be read, or an option has another form.
    """
    known = SINK_NAMES if of_sink else {}
    from_file = _from_file(config, known) if config is not None else {}
    return from_file | dict(_option(text, known) for text in given)


def _from_file(config: Path, known: Mapping[str, str]) -> dict[str, str]:
    try:
        found = parse_properties(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"--config {config} can't be read: {reason}") from error
    plain = {name.removeprefix(PREFIX): value for name, value in found.items()}
    return {_named(name, known): value for name, value in plain.items() if name not in SERIALIZERS}


def _named(name: str, known: Mapping[str, str]) -> str:
    """The name with its prefix; among a sink's options also one that is like none.

    Raises:
        ConfigError: nobody knows the name, which had no prefix.
    """
    if known and name.lower().startswith(CONFIG_PREFIX):
        return name
    if not name.startswith(PREFIX) and not is_kafka_option(name) and name.lower() not in known:
        meant = nearest(name, [*RECOGNISED, *known.values()])
        if known and meant is None:
            return name  # as in a write, which warns of it
        raise ConfigError(
            f"unknown option {shown_name(name)}",
            hint=f"Did you mean {meant}?" if meant else "It is not a Kafka producer option.",
        )
    return known.get(name.lower(), f"{PREFIX}{name.removeprefix(PREFIX)}")


def _option(text: str, known: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals and (name.lower() in SINK_NAMES or is_kafka_option(name.removeprefix(PREFIX))):
        raise ConfigError(f"--option {name} has no value", hint=f"Write it as {name}=value")
    if not name or not equals or name.lower() in SINK_NAMES.keys() - known.keys():
        shown = shown_name(name) if equals else "…"
        raise ConfigError(
            f"--option {shown} is not an option of Kafka's",
            hint="Write it as kafka.name=value, for instance kafka.security.protocol=SASL_SSL",
        )
    return _named(name, known), value
