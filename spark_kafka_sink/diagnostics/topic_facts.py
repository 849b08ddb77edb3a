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
    """The expected result of creating a topic."""

    by_sink: bool = False
    """True if the driver creates the topic before any task (topic.create=true)."""
    auto_create: bool | None = None
    """The brokers' auto.create.topics.enable; None if this client is not allowed to read it."""
    code: int = 0
    """Error code of the response to a CreateTopics request with validate_only."""
    message: str | None = None
    """Error message of that response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The facts known about one topic."""

    name: str
    code: int = 0
    """Error code of the topic's description."""
    description: TopicDescription | None = None
    """Set if `code` is 0."""
    settings: Mapping[str, str | None] | None = None
    """The topic's configs; None if this client is not allowed to read them."""
    creation: Creation | None = None
    """Set if the topic does not exist and might be created."""
    of_dead_letters: bool = False
    """True for the dead letter topic."""
    similar: tuple[str, ...] = ()
    """Names of existing topics that are similar to a missing topic's."""

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
