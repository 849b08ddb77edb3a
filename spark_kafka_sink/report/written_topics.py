"""Which topics have acknowledged records: a topic that is recreated keeps its name, not its id.

A write that has acknowledgements of two topics of one name has lost those of the first. Brokers
before Kafka 2.8 have no topic ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable


@dataclass(slots=True)
class WrittenTopic:
    """Records that one topic has acknowledged; `last_ms` is the time of the last, since 1970."""

    topic: str
    topic_id: uuid.UUID
    records: int = 0
    last_ms: int = 0


class WrittenTopics:
    """By name and id; a session's are the sender thread's until it is flushed."""

    def __init__(self) -> None:
        self._written: dict[str, dict[uuid.UUID, WrittenTopic]] = {}

    def add(self, topic: str, topic_id: uuid.UUID, records: int, at_ms: int) -> None:
        """Count records that a topic has acknowledged."""
        topics = self._written.setdefault(topic, {})
        written = topics.get(topic_id)
        if written is None:
            written = topics[topic_id] = WrittenTopic(topic, topic_id)
        written.records += records
        written.last_ms = max(written.last_ms, at_ms)

    def deleted_records(self, topic: str, topic_id: uuid.UUID) -> int:
        """Records acknowledged by other topics of this name than the one with this id."""
        topics = self._written.get(topic, {})
        return sum(each.records for each in topics.values() if each.topic_id != topic_id)

    def all(self) -> tuple[WrittenTopic, ...]:
        """Each topic that has acknowledged a record."""
        return tuple(chain.from_iterable(topics.values() for topics in self._written.values()))


def check_recreated(written: Iterable[WrittenTopic]) -> None:
    """Check what all tasks of a write have written to.

    Raises:
        DeliveryError: a topic was recreated meanwhile.
    """
    topics = WrittenTopics()
    for each in written:
        topics.add(each.topic, each.topic_id, each.records, each.last_ms)
    for newest in sorted(topics.all(), key=lambda each: each.last_ms, reverse=True):
        if deleted := topics.deleted_records(newest.topic, newest.topic_id):
            raise recreated_topic_error(newest.topic, deleted)


def recreated_topic_error(topic: str, deleted: int) -> DeliveryError:
    """The deleted topic has acknowledged so many records, which are gone with it."""
    return DeliveryError(
        "the topic was deleted and recreated during the write: the deleted one had acknowledged "
        f"{plural(deleted, 'record')} of it, which {'is' if deleted == 1 else 'are'} gone",
        topic=topic,
        hint="run the write again, if the rows are meant for the new topic",
    )
