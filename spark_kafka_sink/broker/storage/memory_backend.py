"""Logs in memory: the `StorageBackend` of a broker without a data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.log_config import LogConfig


class MemoryBackend:
    """Storages in memory: nothing is left when the process ends.

    Memory fills faster than a disk, so retention.bytes does not wait for
    log.retention.check.interval.ms: it is looked at whenever a segment is full, and a log that is
    limited by it has segments of a quarter of it at most. Retention by time waits as in Kafka:
    rows of the past, as tests and demos have them, stay for a while.
    """

    __slots__ = ()

    def open_journal(self) -> Journal:
        """See `StorageBackend`."""
        return Journal()

    def check_vacant(self, topic: str, partition: int) -> None:
        """See `StorageBackend`."""

    def create(self, topic: str, partition: int, config: LogConfig) -> SegmentedStorage:  # noqa: ARG002
        """See `StorageBackend`."""
        return SegmentedStorage(config, bounded=True)

    def load(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        on_batch: object,  # noqa: ARG002
    ) -> SegmentedStorage:
        """See `StorageBackend`: there is nothing to find."""
        return self.create(topic, partition, config)

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """See `StorageBackend`."""

    def close(self) -> None:
        """See `StorageBackend`."""

    def abandon(self) -> None:
        """See `StorageBackend`."""
