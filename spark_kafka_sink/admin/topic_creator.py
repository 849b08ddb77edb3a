"""Create the missing topics of a write if topic.create=true.

The driver creates the topic and the dead letter topic that are set in the options. Topics in a
topic column are unknown until a row contains them, so tasks create these topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.admin.blocking_client import borrowed_client
from spark_kafka_sink.admin.topic_admin import NewTopic, TopicAdmin
from spark_kafka_sink.common.text import is_topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
    from spark_kafka_sink.config.topic_creation import TopicCreation


def topics_to_create(config: SinkConfig) -> tuple[NewTopic, ...]:
    """Return the topics that the driver creates if they are missing."""
    wanted, letters = config.topic_creation, config.dead_letters.dead_letter_topic
    if not wanted.create:
        return ()
    topics = [] if config.topic is None else [_topic(config.topic, wanted)]
    if letters not in {None, config.topic}:
        topics.append(_dead_letter_topic(letters, wanted))
    return tuple(topics)


def _topic(name: str, wanted: TopicCreation) -> NewTopic:
    return NewTopic(
        name=name,
        partitions=wanted.partitions,
        replication=wanted.replication_factor,
        configs=dict(wanted.configs),
    )


def _dead_letter_topic(name: str, wanted: TopicCreation) -> NewTopic:
    """Return the dead letter topic with default configs, because compaction could delete rows."""
    return NewTopic(name=name, partitions=None, replication=wanted.replication_factor)


class TopicCreator:
    """Creates the missing topics of a topic column when they first occur in a task.

    Args:
        config: the connection settings.
        wanted: the partition count, replication factor and configs of the topics.
    """

    def __init__(self, config: ProducerConfig, wanted: TopicCreation) -> None:
        self._config = config
        self._wanted = wanted
        self._seen: set[str] = set()

    def create_missing(self, names: Iterable[str]) -> dict[str, KafkaProdError]:
        """Create all topics that do not exist; can block for max.block.ms.

        Topics of earlier calls and invalid names are skipped.

        Returns:
            The reason for each topic that cannot be created.

        Raises:
            BrokerUnavailableError: no broker has responded within max.block.ms.
            AuthenticationError: the brokers do not accept this client.
        """
        new = [name for name in names if name not in self._seen and is_topic_name(name)]
        if not new:
            return {}
        with borrowed_client(self._config) as client:
            deadline = client.deadline(self._config.max_block_ms / 1000)
            topics = [_topic(name, self._wanted) for name in new]
            refused = TopicAdmin(client).create_missing(topics, deadline)
        self._seen.update(new)
        return refused
