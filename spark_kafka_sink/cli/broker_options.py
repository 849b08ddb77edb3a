"""The options of `kafkaprod broker`, one field each; to typer they are parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from spark_kafka_sink.base.errors import ConfigError
from spark_kafka_sink.broker.config import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.broker.config import BrokerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerArguments:
    """What the command line says."""

    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic as name:partitions[:replicas]; may be given more than once."),
    ] = None
    port: Annotated[int, typer.Option(help="Port of the first node; 0 takes a free one.")] = 9092
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    nodes: Annotated[int, typer.Option(help="Nodes of the cluster, on ports in a row.")] = 1
    auto_create: Annotated[bool, typer.Option(help="Create a topic when a client asks for it.")] = (
        True
    )
    follower_lag_ms: Annotated[
        int, typer.Option(help="How much later than the leader its followers have a record.")
    ] = 0
    data_dir: Annotated[
        str | None,
        typer.Option(help="Folder for logs and offsets that the next start finds again."),
    ] = None
    storage: Annotated[
        str,
        typer.Option(
            help="Where logs lie: log (--data-dir or memory), or redis://host:port/db?prefix=name."
        ),
    ] = LOG
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="What is to go wrong, as produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5; "
            "may be given more than once."
        ),
    ] = None

    def options(self) -> BrokerOptions:
        """The same for `EmbeddedBroker`.

        Raises:
            ConfigError: a topic can't be read.
        """
        topics = [TopicArgument.parse(text) for text in self.topic or ()]
        return {
            "topics": {one.name: one.partitions for one in topics},
            "replication_factors": {one.name: one.replicas for one in topics if one.replicas},
            "port": self.port,
            "host": self.host,
            "nodes": self.nodes,
            "auto_create_topics": self.auto_create,
            "follower_lag_ms": self.follower_lag_ms,
            "data_dir": self.data_dir,
            "storage": self.storage,
            "faults": tuple(self.fault or ()),
        }


@dataclass(frozen=True, slots=True)
class TopicArgument:
    """A topic to begin with; 0 replicas stand for the broker's default."""

    name: str
    partitions: int = 1
    replicas: int = 0

    @classmethod
    def parse(cls, text: str) -> TopicArgument:
        """Read name, name:partitions or name:partitions:replicas.

        Raises:
            ConfigError: it is none of them.
        """
        name, *numbers = text.split(":")
        good = name and len(numbers) <= 2 and all(n.isdecimal() and int(n) for n in numbers)
        if not good:
            raise ConfigError(
                f"--topic {text} is not a topic",
                hint="Write it as name:partitions or name:partitions:replicas",
            )
        return cls(name, *map(int, numbers))


def command(function: Callable[[BrokerArguments], None]) -> Callable[..., None]:
    """A function of `BrokerArguments` as typer wants it: with a parameter for each field."""
    hints = get_type_hints(BrokerArguments, include_extras=True)

    def called(**given: Any) -> None:
        function(BrokerArguments(**given))

    called.__doc__ = function.__doc__
    called.__signature__ = Signature(list(_parameters(hints)))  # type: ignore[attr-defined]
    return called


def _parameters(hints: dict[str, Any]) -> Iterable[Parameter]:
    for field in fields(BrokerArguments):
        yield Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
