"""The facts known about a topic, which the checks use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.kafka.admin.topic_handlers import TopicDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """The expected result of creating a topic.

    `by_sink` is True if the driver creates the topic before any task (topic.create=true).
    `auto_create` is the brokers' auto.create.topics.enable, or None if this client is not allowed
    to read it. `code` and `message` are the response to a CreateTopics request with validate_only.
    """

    by_sink: bool = False
    auto_create: bool | None = None
    code: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The facts known about one topic.

    `description` is set if `code` is 0, `settings` if this client is allowed to read them, and
    `creation` if the topic does not exist and might be created. `of_dead_letters` is True for the
    dead letter topic. For a missing topic, `similar` contains existing topics with similar names.
    """

    name: str
    code: int = 0
    description: TopicDescription | None = None
    settings: Mapping[str, str | None] | None = None
    creation: Creation | None = None
    of_dead_letters: bool = False
    similar: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The topic's description for use within a sentence."""
        return f"dead letter topic {self.name}" if self.of_dead_letters else f"topic {self.name}"

    @property
    def exists(self) -> bool:
        """True if the topic exists and this client may describe it."""
        return not self.code and self.description is not None

    @property
    def is_missing(self) -> bool:
        """True if the topic does not exist."""
        return self.code == ErrorCode.unknown_topic_or_partition

    @property
    def replicas(self) -> int:
        """Smallest number of replicas of any partition; 0 if unknown."""
        partitions = self.description.partitions if self.description else ()
        return min((len(partition.replicas) for partition in partitions), default=0)

    @property
    def in_sync(self) -> int:
        """Smallest number of in-sync replicas of any partition; 0 if unknown."""
        partitions = self.description.partitions if self.description else ()
        return min((len(partition.in_sync) for partition in partitions), default=0)
