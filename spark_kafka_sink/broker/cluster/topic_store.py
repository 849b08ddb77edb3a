"""Topics and their logs across restarts: the journal names the topics, the backend has the logs."""

from __future__ import annotations

import contextlib
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.topic import Topic
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.storage.log_config import LogConfig
from spark_kafka_sink.broker.topic_config import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.broker.storage.journal import Journal
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend
    from spark_kafka_sink.broker.topic_config import Layer

LOG = logging.getLogger(__name__)
TOPIC = "topic"
LOG_START = "log start"
REMAINS = "remains"
"""Partitions, by topic, whose creation or deletion has begun: their data may be deleted, unless the
journal has them as partitions of a topic."""


def _lasting(partition: Partition) -> list[int]:
    """The replicas that are left when a reassignment ends: a restart ends it."""
    return [node for node in partition.replicas if node not in partition.removing]


class TopicStore:
    """Makes, finds and drops the logs of topics.

    Args:
        backend: where the logs lie.
        journal: where names, ids, configs and leaders are kept.
    """

    __slots__ = ("_backend", "_journal")

    def __init__(self, backend: StorageBackend, journal: Journal) -> None:
        self._backend = backend
        self._journal = journal

    @contextmanager
    def creating(
        self, topic: str, indexes: range, config: TopicConfig
    ) -> Iterator[list[UnifiedLog]]:
        """Begin the logs of new partitions; the block has to `save` them.

        Raises:
            OSError: they can't be created, or the block failed so; none of them is left.
        """
        self._clear_remains(topic)
        for index in indexes:
            self._backend.check_vacant(topic, index)
        self._note_remains(topic, indexes, is_new=True)
        logs: list[UnifiedLog] = []
        try:
            for index in indexes:
                storage = self._backend.create(topic, index, LogConfig.of(config))
                logs.append(UnifiedLog(storage))
            yield logs
        except OSError:
            _close(logs)
            self._try_to_clear(topic)
            raise
        self._try_to_clear(topic)

    def _note_remains(self, topic: str, indexes: range, *, is_new: bool) -> None:
        value = {"partitions": [indexes.start, indexes.stop], "is_new": is_new}
        self._journal.put(REMAINS, (topic,), value)

    def _clear_remains(self, topic: str) -> None:
        """Delete the data of partitions that were not created or deleted to the end.

        Raises:
            OSError: some is left; it stays noted.
        """
        found = self._journal.get(REMAINS, (topic,))
        if found is None:
            return
        saved = self._journal.get(TOPIC, (topic,))
        first, end = found["partitions"]
        for index in range(max(first, len(saved["partitions"]) if saved else 0), end):
            self._backend.remove(topic, index, only_if_empty=found["is_new"])
            if self._journal.get(LOG_START, (topic, index)) is not None:
                self._journal.put(LOG_START, (topic, index), None)
        self._journal.put(REMAINS, (topic,), None)

    def _try_to_clear(self, topic: str) -> None:
        try:
            self._clear_remains(topic)
        except OSError as error:
            LOG.warning("data of the topic %s is left, to be deleted later: %s", topic, error)

    def save(self, topic: Topic) -> None:
        """Keep what is said of a topic, as it is now."""
        partitions = [
            {"replicas": _lasting(one), "leader": one.leader, "leader_epoch": one.leader_epoch}
            for one in topic.partitions
        ]
        value = {"id": str(topic.id), "configs": dict(topic.config.own), "partitions": partitions}
        self._journal.put(TOPIC, (topic.name,), value)

    def save_start(self, partition: Partition) -> None:
        """Keep the first offset that may be read (DeleteRecords)."""
        key = (partition.topic, partition.index)
        self._journal.put(LOG_START, key, partition.log.start_offset)

    def remove(self, topic: Topic) -> None:
        """Delete a topic with its data.

        Raises:
            OSError: it can't be deleted; nothing has changed.
        """
        self._note_remains(topic.name, range(len(topic.partitions)), is_new=False)
        self._journal.put(TOPIC, (topic.name,), None)
        _close([partition.log for partition in topic.partitions])
        self._try_to_clear(topic.name)

    def load(self, nodes: Sequence[int], layers: tuple[Layer, ...]) -> Iterator[Topic]:
        """The topics that an earlier broker left, led in new leader epochs."""
        for (name,) in self._journal.all(REMAINS):
            self._try_to_clear(str(name))
        for (name,), value in self._journal.all(TOPIC).items():
            config = TopicConfig(own=value["configs"], broker=layers)
            topic = Topic(name=str(name), id=UUID(value["id"]), config=config, partitions=[])
            for index, known in enumerate(value["partitions"]):
                topic.partitions.append(self._partition(topic, index, known, nodes))
            self.save(topic)
            yield topic

    def _partition(
        self, topic: Topic, index: int, known: Mapping[str, Any], nodes: Sequence[int]
    ) -> Partition:
        replicas = [node for node in known["replicas"] if node in nodes] or [nodes[0]]
        partition = Partition(
            topic=topic.name,
            index=index,
            leader=replicas[0],
            replicas=replicas,
            in_sync=list(replicas),
        )
        config = LogConfig.of(topic.config)
        partition.recover(
            lambda on_batch: self._backend.load(topic.name, index, config, on_batch),
            self._journal.get(LOG_START, (topic.name, index)) or 0,
        )
        partition.leader_epoch = max(known["leader_epoch"], partition.log.epochs.latest) + 1
        partition.begin_leader_epoch()
        return partition

    def close(self, topics: Sequence[Topic]) -> None:
        """Flush everything and let go of it."""
        for topic in topics:
            for partition in topic.partitions:
                partition.log.storage.close()
        self._journal.close()
        self._backend.close()


def _close(logs: Sequence[UnifiedLog]) -> None:
    """Close logs that are deleted next: it does not matter if the disk is full."""
    for log in logs:
        with contextlib.suppress(OSError):
            log.storage.close()
