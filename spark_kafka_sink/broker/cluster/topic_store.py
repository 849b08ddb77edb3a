"""The storage of a cluster's topics across restarts."""

from __future__ import annotations

import contextlib
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from spark_kafka_sink.broker.config.topic_config import ConfigLayer, TopicConfig
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.topic import Topic
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.storage.journal import LOG_START, RECOVERY_POINT, TOPIC, Journal
from spark_kafka_sink.common.errors import KafkaProdError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.broker.storage.log_storage import StorageBackend

_LOG = logging.getLogger(__name__)
_LEADER_EPOCH = "leader epoch"
_UNFINISHED = "remains"
"""Journal kind of partitions (by topic) whose creation or deletion has started.

On startup, their data is deleted unless the journal lists them as partitions of a topic.
"""


def _final_replicas(partition: Partition) -> list[int]:
    """Return the replicas after a restart. A restart completes an ongoing reassignment."""
    return [node for node in partition.replicas if node not in partition.removing]


class TopicStore:
    """Creates, loads and deletes the logs of topics.

    Args:
        backend: stores the logs.
        journal: stores the names, ids, configs and leaders of topics.
    """

    def __init__(self, backend: StorageBackend, journal: Journal) -> None:
        self._backend = backend
        self._journal = journal

    @contextmanager
    def creating(
        self, topic: str, indexes: range, config: TopicConfig
    ) -> Iterator[list[UnifiedLog]]:
        """Create the logs of new partitions. The caller's `with` block must `save` the topic.

        Raises:
            OSError: the logs cannot be created, or the block raised OSError. New logs are deleted.
        """
        self._delete_unfinished(topic)
        for index in indexes:
            self._backend.check_vacant(topic, index)
        self._mark_unfinished(topic, indexes, is_new=True)
        logs: list[UnifiedLog] = []
        try:
            for index in indexes:
                storage = self._backend.create(topic, index, config.log)
                logs.append(UnifiedLog(storage))
            yield logs
        except OSError:
            _close_logs(logs)
            self._try_to_delete_unfinished(topic)
            raise
        self._try_to_delete_unfinished(topic)

    def save(self, topic: Topic) -> None:
        """Store the id, configs, replicas and leaders of a topic, also across a machine crash.

        Raises:
            OSError: nothing is stored.
        """
        partitions = [
            {
                "replicas": _final_replicas(partition),
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
            }
            for partition in topic.partitions
        ]
        configs = dict(topic.config.overrides)
        value = {"id": str(topic.id), "configs": configs, "partitions": partitions}
        before = self._journal.get(TOPIC, (topic.name,))
        self._journal.put(TOPIC, (topic.name,), value)
        try:
            self._journal.sync()
        except OSError:
            self._journal.put(TOPIC, (topic.name,), before)
            raise

    def save_leader_epoch(self, partition: Partition) -> None:
        """Store the leader epoch after an election.

        Without the stored epoch, a restart would reuse epochs in which no record was written.
        Clients would ignore metadata with these epochs, and send requests to the former leader.
        """
        key = partition.topic_partition
        self._journal.put(_LEADER_EPOCH, key, partition.leader_epoch)

    def delete_records(self, partition: Partition, offset: int) -> None:
        """Store the new log start offset of a partition, and advance the log to it.

        If the offset were stored later, deleted records could reappear after a failure.
        """
        self._journal.put(LOG_START, partition.topic_partition, offset)
        partition.log.delete_records(offset)

    def remove(self, topic: Topic) -> None:
        """Delete a topic and its data.

        Raises:
            OSError: the deletion cannot be stored. Nothing has changed.
        """
        self._mark_unfinished(topic.name, range(len(topic.partitions)), is_new=False)
        self._journal.put(TOPIC, (topic.name,), None)
        _close_logs([partition.log for partition in topic.partitions])
        self._try_to_delete_unfinished(topic.name)

    def load(self, nodes: Sequence[int], layers: tuple[ConfigLayer, ...]) -> Iterator[Topic]:
        """Yield the topics that were stored before the restart, with new leader epochs."""
        for (name,) in self._journal.all(_UNFINISHED):
            self._try_to_delete_unfinished(str(name))
        for (name,), value in self._journal.all(TOPIC).items():
            config = TopicConfig(overrides=value["configs"], broker=layers)
            topic = Topic(name=str(name), id=UUID(value["id"]), config=config, partitions=[])
            for index, known in enumerate(value["partitions"]):
                topic.partitions.append(self._load_partition(topic, index, known, nodes))
            topic.is_replicated = any(len(partition.replicas) > 1 for partition in topic.partitions)
            self.save(topic)
            yield topic

    def close(self, topics: Sequence[Topic]) -> None:
        """Flush and close all logs, the journal and the backend.

        Raises:
            KafkaProdError: some data could not be flushed. Everything is closed.
        """
        failures: list[OSError] = []
        logs = (partition.log for topic in topics for partition in topic.partitions)
        for close in (*(log.storage.close for log in logs), self._journal.close):
            try:
                close()
            except OSError as error:
                failures.append(error)
        try:
            self._backend.close(clean=not failures)
        except OSError as error:
            failures.append(error)
        if failures:
            raise KafkaProdError(
                f"not all data of the broker was flushed to the disk: {failures[0]}",
                hint="Free space on the disk, or repair it. Then start and stop the broker: before "
                "that, a crash of the machine can lose the last records.",
            ) from failures[0]

    def _mark_unfinished(self, topic: str, indexes: range, *, is_new: bool) -> None:
        value = {"partitions": [indexes.start, indexes.stop], "is_new": is_new}
        self._journal.put(_UNFINISHED, (topic,), value)

    def _delete_unfinished(self, topic: str) -> None:
        """Delete the data of partitions whose creation or deletion did not complete.

        Raises:
            OSError: some data remains. It stays listed in the journal, so that it is deleted later.
        """
        unfinished = self._journal.get(_UNFINISHED, (topic,))
        if unfinished is None:
            return
        saved = self._journal.get(TOPIC, (topic,))
        first, end = unfinished["partitions"]
        for index in range(max(first, len(saved["partitions"]) if saved else 0), end):
            self._backend.remove(topic, index, only_if_empty=unfinished["is_new"])
            for kind in (LOG_START, RECOVERY_POINT, _LEADER_EPOCH):
                if self._journal.get(kind, (topic, index)) is not None:
                    self._journal.put(kind, (topic, index), None)
        self._journal.put(_UNFINISHED, (topic,), None)

    def _try_to_delete_unfinished(self, topic: str) -> None:
        try:
            self._delete_unfinished(topic)
        except OSError as error:
            _LOG.warning("cannot delete all data of the topic %s, retrying later: %s", topic, error)

    def _load_partition(
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
        partition.recover(
            lambda on_batch: self._backend.load(topic.name, index, topic.config.log, on_batch),
            self._journal.get(LOG_START, (topic.name, index)) or 0,
        )
        elected = self._journal.get(_LEADER_EPOCH, (topic.name, index)) or 0
        latest = max(known["leader_epoch"], elected, partition.log.epochs.latest)
        partition.leader_epoch = latest + 1
        partition.begin_leader_epoch()
        return partition


def _close_logs(logs: Sequence[UnifiedLog]) -> None:
    """Close logs that are about to be deleted, and ignore errors such as a full disk."""
    for log in logs:
        with contextlib.suppress(OSError):
            log.storage.close()
