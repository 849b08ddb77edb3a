"""The storage backend in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.log_storage import StorageBackend
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage

if TYPE_CHECKING:
    from spark_kafka_sink.broker.config.topic_config import LogConfig


class MemoryBackend(StorageBackend):
    """The `StorageBackend` in memory, whose data is lost when the process exits.

    Memory fills up faster than a disk, so retention.bytes is also enforced whenever a segment is
    full. The maximum segment size of such a log is a quarter of retention.bytes, but at least 1
    MiB. As in Kafka, time-based retention is enforced only every log.retention.check.interval.ms.
    Until then, tests and demos can read records with old timestamps.
    """

    def __init__(self) -> None:
        self.journal = Journal()

    def create(self, topic: str, partition: int, config: LogConfig) -> SegmentedStorage:  # noqa: ARG002
        """Create an empty log."""
        return SegmentedStorage(config, is_bounded=True)

    def load(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        on_batch: object,  # noqa: ARG002
    ) -> SegmentedStorage:
        """See `StorageBackend`. There is nothing to load."""
        return self.create(topic, partition, config)
