"""Topics and their logs across restarts: the journal names the topics, the backend has the logs."""

from __future__ import annotations

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

TOPIC = "topic"
LOG_START = "log start"


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

    def new_log(self, topic: str, partition: int, config: TopicConfig) -> UnifiedLog:
        """Begin the log of a new partition."""
        return UnifiedLog(self._backend.create(topic, partition, LogConfig.of(config)))

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
        """Delete a topic with its data."""
        self._journal.put(TOPIC, (topic.name,), None)
        for partition in topic.partitions:
            self._journal.put(LOG_START, (topic.name, partition.index), None)
            partition.log.storage.close()
            self._backend.remove(topic.name, partition.index)

    def load(self, nodes: Sequence[int], layers: tuple[Layer, ...]) -> Iterator[Topic]:
        """The topics that an earlier broker left, led in new leader epochs."""
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
            self._journal.all(LOG_START).get((topic.name, index), 0),
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
