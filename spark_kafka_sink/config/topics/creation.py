"""Topics that the driver creates before a write: the options, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option import Importance, Kind, Option

if TYPE_CHECKING:
    from collections.abc import Mapping

CREATE: Final = "topic.create"
PARTITIONS: Final = "topic.partitions"
REPLICATION: Final = "topic.replication.factor"
CONFIG_PREFIX: Final = "topic.config."
"""Before the names of the topic's own settings."""

TOPIC_CREATION_OPTIONS: tuple[Option, ...] = (
    Option(
        name=CREATE,
        kind=Kind.BOOLEAN,
        java=False,
        doc="Let the driver create the topic where it does not exist, before any task; settings "
        "of it, such as `retention.ms`, are given with `topic.config.` before their names.",
    ),
    Option(
        name=PARTITIONS,
        kind=Kind.INT,
        java=0,
        doc="Partitions of a topic that is created; 0: as many as the brokers give.",
        importance=Importance.LOW,
    ),
    Option(
        name=REPLICATION,
        kind=Kind.INT,
        java=0,
        high=32_767,
        doc="Replicas of a topic that is created; 0: as many as the brokers give.",
        importance=Importance.LOW,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """What to create; None stands for the brokers' defaults."""

    create: bool = False
    partitions: int | None = None
    replication_factor: int | None = None
    configs: tuple[tuple[str, str], ...] = ()
    """Settings of the topic, by Kafka's names, sorted."""

    @classmethod
    def from_options(cls, values: Mapping[str, Any], given: Mapping[str, str]) -> Self:
        """From the typed sink options and those given, which hold the topic's settings.

        Raises:
            ConfigError: something is said of a topic that is not to be created, or no topic is
                named.
        """
        configs = {
            name.removeprefix(CONFIG_PREFIX): value.strip()
            for name, value in given.items()
            if name.startswith(CONFIG_PREFIX)
        }
        about = [name for name in (PARTITIONS, REPLICATION) if values[name]]
        about += [f"{CONFIG_PREFIX}{name}" for name in configs]
        if not values[CREATE]:
            if about:
                raise ConfigError(
                    f"option {about[0]} is set, but {CREATE} is false",
                    hint=f'Add .option("{CREATE}", "true"), or leave it out.',
                )
            return cls()
        if values["topic"] is None:
            raise ConfigError(
                f"{CREATE}=true, and no topic is named: those of a column are not known before "
                "the tasks run",
                hint='Add .option("topic", ...), or create the topics beforehand.',
            )
        return cls(
            create=True,
            partitions=values[PARTITIONS] or None,
            replication_factor=values[REPLICATION] or None,
            configs=tuple(sorted(configs.items())),
        )
