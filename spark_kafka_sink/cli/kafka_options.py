"""Options of commands that connect to Kafka, and functions that report errors."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_kafka_sink.common.errors import ConfigError, KafkaProdError
from spark_kafka_sink.common.logs import quiet_log, warn_once
from spark_kafka_sink.common.masking import describe_text, safe_name
from spark_kafka_sink.common.similar_names import MIN_TYPO_RATIO, nearest
from spark_kafka_sink.config.config_builder import BOOTSTRAP_OPTION
from spark_kafka_sink.config.known_options import (
    KNOWN_NAMES,
    SERIALIZERS,
    SINK_NAMES,
    is_kafka_option,
    registry_name,
    table_name,
    unknown_option_error,
)
from spark_kafka_sink.config.option_definition import PREFIX
from spark_kafka_sink.config.profiles import parse_properties
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.config.topic_creation import CONFIG_PREFIX
from spark_kafka_sink.diagnostics.broker_checks import connect
from spark_kafka_sink.diagnostics.doctor import STEP_TIMEOUT_S
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_LOG = logging.getLogger(__name__)
_NO_VALUE = (
    "A line with %s has no effect, because it has no value: end each line of a value except the "
    "last with a backslash"
)
OptionArguments = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="Write option, such as kafka.security.protocol=SASL_SSL; may be repeated.",
    ),
]
OptionsFile = Annotated[
    Path | None,
    typer.Option(help="Properties file with options, as for --command-config of Kafka's tools."),
]
TIMEOUT_S = STEP_TIMEOUT_S
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=0.1, metavar="SECONDS", help="Timeout for broker responses, in seconds."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionArguments:
    """The arguments of commands that connect to Kafka."""

    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Kafka brokers; may also be set in --option or --config.")
    ] = None
    option: OptionArguments = None
    config: OptionsFile = None
    timeout: Timeout = TIMEOUT_S


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print an error of this package on stderr, and exit with status 1."""
    try:
        yield
    except KafkaProdError as error:
        typer.echo(f"kafkaprod: {error}", err=True)
        raise typer.Exit(1) from error


def wait_for_broker(config: ProducerConfig, timeout: float) -> None:
    """Wait until a broker returns the cluster's metadata.

    Raises:
        KafkaProdError: no broker returned metadata within `timeout` seconds. The message contains
            the reason, and the hint explains what to check.
    """
    with quiet_log("spark_kafka_sink.kafka.client"), BlockingClient(config) as client:
        failure = connect(client, timeout)
    if failure is not None and failure.error is not None:
        raise failure.error


@contextmanager
def connected_client(arguments: ConnectionArguments) -> Iterator[BlockingClient]:
    """Yield a client whose brokers respond; print errors and exit with status 1."""
    with exit_on_error():
        producer = ProducerConfig.parse(connection_options(arguments, allow_sink_options=True))
        wait_for_broker(producer, arguments.timeout)
        with quiet_log("spark_kafka_sink.kafka.client"), BlockingClient(producer) as client:
            yield client


def parse_write_options(
    config: Path | None, option_texts: Iterable[str], *, allow_sink_options: bool = False
) -> dict[str, str]:
    """Return the options of a write.

    Options on the command line override those in the file. The prefix `kafka.` is optional.

    Args:
        config: a file of Java properties, as for --command-config of Kafka's tools; serializers of
            a producer are ignored, and options of other programs are ignored with a warning.
        option_texts: options as name=value.
        allow_sink_options: True to allow the sink's own options, such as `errors.tolerance`.

    Raises:
        ConfigError: the file cannot be read, or an option is unknown or malformed.
    """
    known = SINK_NAMES if allow_sink_options else {}
    from_file = _from_file(config, known) if config is not None else {}
    arguments = dict(_parse_option(text, known) for text in option_texts)
    overridden = {_table_name(name) for name in arguments}
    kept = {name: value for name, value in from_file.items() if _table_name(name) not in overridden}
    return _with_java_name(kept | arguments)


def connection_options(
    arguments: ConnectionArguments, *, allow_sink_options: bool = False
) -> dict[str, str]:
    """Return the result of `parse_write_options` with the brokers from --bootstrap-servers.

    Raises:
        ConfigError: see `parse_write_options`. Also raised if no bootstrap servers are set.
    """
    options = parse_write_options(
        arguments.config, arguments.option or (), allow_sink_options=allow_sink_options
    )
    if arguments.bootstrap_servers is not None:
        options[BOOTSTRAP_OPTION] = arguments.bootstrap_servers
    if BOOTSTRAP_OPTION not in options:
        raise ConfigError("no bootstrap servers are set", hint="Add --bootstrap-servers host:port.")
    return options


def _table_name(name: str) -> str:
    """Return the name in the tables of an option of any spelling."""
    lower = name.lower()
    return registry_name(lower) or table_name(lower.removeprefix(PREFIX))


def _with_java_name(options: dict[str, str]) -> dict[str, str]:
    """Return the options, in which the bootstrap servers have Java's name unless it is taken."""
    if BOOTSTRAP_OPTION in options:
        return options
    java_name = _table_name(BOOTSTRAP_OPTION)
    return {
        BOOTSTRAP_OPTION if _table_name(name) == java_name else name: value
        for name, value in options.items()
    }


def _from_file(config: Path, known: Mapping[str, str]) -> dict[str, str]:
    try:
        properties = parse_properties(config.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"--config {config} cannot be read: {reason}") from error
    options = {}
    for full_name, value in properties.items():
        name = full_name.removeprefix(PREFIX)
        reason = None if known else _no_effect(name)
        if not value.strip("=") and not _is_option(name):
            # This can be part of a value, such as a private key.
            warn_once(_LOG, _NO_VALUE, describe_text(name))
        elif reason is not None:
            warn_once(_LOG, "Option %s has no effect: %s", safe_name(name), reason)
        elif name not in SERIALIZERS:
            options[_prefixed_name(name, known)] = value
    return options


def _is_option(name: str) -> bool:
    lower = name.lower()
    is_sink_option = lower in SINK_NAMES or lower.startswith(CONFIG_PREFIX)
    return is_sink_option or is_kafka_option(name) or registry_name(lower) is not None


def _no_effect(name: str) -> str | None:
    """Return why an option in a file, which other programs may share, has no effect, or None."""
    if registry_name(name) is not None:
        return "this command uses no registry"
    is_option = is_kafka_option(name) or nearest(name, KNOWN_NAMES, MIN_TYPO_RATIO) is not None
    return None if is_option else "it is not an option of the connection"


def _prefixed_name(name: str, known: Mapping[str, str]) -> str:
    """Return the name with its prefix. If the sink's options are allowed, accept unknown names.

    Raises:
        ConfigError: the name has no prefix and is unknown. If unknown names are accepted, only
            likely typos raise.
    """
    lower = name.lower()
    if known and (lower.startswith(CONFIG_PREFIX) or registry_name(lower) is not None):
        return name
    if name.startswith(PREFIX) or is_kafka_option(name) or lower in known:
        return known.get(lower, f"{PREFIX}{name.removeprefix(PREFIX)}")
    candidates = KNOWN_NAMES.union(known.values())
    if known and nearest(name, candidates, MIN_TYPO_RATIO) is None:
        return name  # As in a write, parsing the options logs a warning about the name.
    raise unknown_option_error(name, "", candidates)


def _parse_option(text: str, known: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals and (name.lower() in SINK_NAMES or is_kafka_option(name.removeprefix(PREFIX))):
        raise ConfigError(f"--option {name} has no value", hint=f"Use --option {name}=value.")
    if not name or not equals or name.lower() in SINK_NAMES.keys() - known.keys():
        displayed_name = safe_name(name) if equals else "…"
        raise ConfigError(
            f"--option {displayed_name} is not a Kafka option",
            hint="Use --option kafka.name=value, for example kafka.security.protocol=SASL_SSL.",
        )
    return _prefixed_name(name, known), value
