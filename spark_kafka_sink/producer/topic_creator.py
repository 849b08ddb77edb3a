"""Create missing topics for a write with topic.create=true.

The driver creates the topic and the dead letter topic that are set in the options. Topics in a
topic column are unknown until a row contains them, so tasks create these topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import is_topic_name
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.topic_handlers import NewTopic
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
    from spark_kafka_sink.config.topic_creation import TopicCreation


def topics_to_create(config: SinkConfig) -> tuple[NewTopic, ...]:
    """Return the topics that the driver creates if they are missing."""
    creation, dead_letter_topic = config.topic_creation, config.dead_letters.dead_letter_topic
    if not creation.create:
        return ()
    topics = [] if config.topic is None else [_new_topic(config.topic, creation)]
    if dead_letter_topic not in {None, config.topic}:
        # Without the configs, because compaction could delete rows.
        replication = creation.replication_factor
        topics.append(NewTopic(name=dead_letter_topic, partitions=None, replication=replication))
    return tuple(topics)


def _new_topic(name: str, creation: TopicCreation) -> NewTopic:
    return NewTopic(
        name=name,
        partitions=creation.partitions,
        replication=creation.replication_factor,
        configs=dict(creation.configs),
    )


class TopicCreator:
    """Creates the missing topics of a topic column when they first occur in a task.

    Args:
        config: the connection settings.
        creation: the partition count, replication factor and configs of the topics.
    """

    def __init__(self, config: ProducerConfig, creation: TopicCreation) -> None:
        self._config = config
        self._creation = creation
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
            topics = [_new_topic(name, self._creation) for name in new]
            rejected = TopicAdmin(client).create_missing(topics, deadline)
        self._seen.update(new)
        return rejected
