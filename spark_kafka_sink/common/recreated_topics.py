"""Topics with acknowledged records, by name and id.

A recreated topic has the same name, but a new id. If a write gets acknowledgements from two topics
with the same name, the records in the first topic are lost. Brokers before Kafka 2.8 have no topic
ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Mapping


@dataclass(slots=True)
class WrittenTopic:
    """Number of acknowledged records of a topic."""

    topic: str
    topic_id: uuid.UUID
    records: int = 0
    last_ms: int = 0
    """Time of the latest acknowledgement."""


class WrittenTopics:
    """Topics by name and id. Used only by the sender thread until the session is flushed."""

    def __init__(self) -> None:
        self._written: dict[str, dict[uuid.UUID, WrittenTopic]] = {}

    def add(self, topic: str, topic_id: uuid.UUID, records: int, at_ms: int) -> None:
        """Count acknowledged records of a topic."""
        topics = self._written.setdefault(topic, {})
        written = topics.get(topic_id)
        if written is None:
            written = topics[topic_id] = WrittenTopic(topic, topic_id)
        written.records += records
        written.last_ms = max(written.last_ms, at_ms)

    def deleted_records(self, topic: str, topic_id: uuid.UUID) -> int:
        """Return the number of records acknowledged for other topics of this name."""
        topics = self._written.get(topic, {})
        return sum(topic.records for topic in topics.values() if topic.topic_id != topic_id)

    def all(self) -> tuple[WrittenTopic, ...]:
        """Return each topic with acknowledged records."""
        return tuple(chain.from_iterable(topics.values() for topics in self._written.values()))


def check_recreated(written: Iterable[WrittenTopic]) -> None:
    """Check the topics to which the tasks of a write have written.

    Raises:
        DeliveryError: a topic was recreated during the write.
    """
    topics = WrittenTopics()
    for topic in written:
        topics.add(topic.topic, topic.topic_id, topic.records, topic.last_ms)
    for newest in sorted(topics.all(), key=lambda topic: topic.last_ms, reverse=True):
        if deleted := topics.deleted_records(newest.topic, newest.topic_id):
            raise recreated_topic_error(newest.topic, deleted)


def check_topic_ids(
    written: Iterable[WrittenTopic], current: Mapping[str, uuid.UUID | None]
) -> None:
    """Check that the topics still have the ids that tasks have written to.

    Args:
        written: the topics that all tasks of a write have written to.
        current: ids by name, None for missing topics; a topic that is not listed is not checked.

    Raises:
        DeliveryError: a topic was deleted or recreated after a task had written to it.
    """
    for topic in written:
        topic_id = current.get(topic.topic, topic.topic_id)
        if topic_id != topic.topic_id:
            raise recreated_topic_error(topic.topic, topic.records, exists=topic_id is not None)


def recreated_topic_error(topic: str, deleted: int, *, exists: bool = True) -> DeliveryError:
    """Return the error for a topic with `deleted` acknowledged records, which are lost.

    `exists` is True if the topic was created again.
    """
    return DeliveryError(
        f"the topic was deleted{' and recreated' if exists else ''} during the write: the deleted "
        f"topic had acknowledged {plural(deleted, 'record')} of the write, which "
        f"{'is' if deleted == 1 else 'are'} lost",
        topic=topic,
        hint="Run the write again if its rows belong in the new topic.",
    )
