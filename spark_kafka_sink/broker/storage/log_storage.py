"""The base classes of storages of batches.

`UnifiedLog` uses a `LogStorage`. Implementations are in segmented_storage.py (in memory and on
disk) and redis/stream_storage.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from spark_kafka_sink.kafka.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from spark_kafka_sink.broker.config.topic_config import LogConfig
    from spark_kafka_sink.broker.storage.journal import Journal


UNLIMITED = -1
OnBatch: TypeAlias = Callable[[BatchHeader, memoryview], None]
"""Function that is called with every batch when a log is opened. The bytes are valid only during
the call.
"""

END = 2**63 - 1
"""An offset after the end of every log."""


class BatchFacts(NamedTuple):
    """Batch properties for a storage."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    """In milliseconds."""
    size: int
    """In bytes."""

    @classmethod
    def of(cls, header: BatchHeader, size: int) -> BatchFacts:
        """Return the properties of the batch with this header."""
        return cls(header.base_offset, header.last_offset, header.max_timestamp, size)


class StoredBatch(NamedTuple):
    """A batch in the log, and its parsed header."""

    header: BatchHeader
    data: memoryview

    @classmethod
    def of(cls, data: memoryview) -> StoredBatch:
        """Return the batch in `data`."""
        return cls(BatchHeader.parse(data), data)


class LogStorage(ABC):
    """Stores whole batches in offset order. There can be gaps between the offsets of batches.

    System errors are raised as OSError. A failed append does not change the log.
    """

    config: LogConfig

    @property
    @abstractmethod
    def start_offset(self) -> int:
        """Base offset of the oldest batch, or of the next batch if the log is empty."""

    @property
    @abstractmethod
    def end_offset(self) -> int:
        """The offset after the last batch."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of all batches."""

    @abstractmethod
    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append one batch, given in parts. Callers must not modify the parts later."""

    @abstractmethod
    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """Return whole batches from the batch that contains `start` up to the offset `end`.

        Return at most `max_bytes` bytes, or one batch of any size if `max_bytes` is negative. One
        memoryview can contain several batches.
        """

    @abstractmethod
    def bytes_between(self, start: int, end: int) -> int:
        """Return the total number of bytes that `read` could return."""

    @abstractmethod
    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """Yield the batch that contains `offset` and all later batches."""

    @abstractmethod
    def first_at_timestamp(self, timestamp: int) -> StoredBatch | None:
        """Return the first batch with a record timestamp of at least `timestamp`, or None."""

    @abstractmethod
    def first_at_max_timestamp(self) -> StoredBatch | None:
        """Return the first batch with the largest timestamp in the log, or None."""

    @abstractmethod
    def delete_before(self, offset: int) -> None:
        """Drop data that is completely before an offset, as far as this is cheap."""

    @abstractmethod
    def restart_at(self, offset: int) -> None:
        """Drop all batches, and continue the log at an offset after its end."""

    @abstractmethod
    def truncate(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all later batches."""

    @abstractmethod
    def expire(self, now_ms: int, high_watermark: int = END) -> None:
        """Drop data below the high watermark that exceeds retention.ms or retention.bytes."""

    # Optional methods, with defaults for storages without gaps, replicas and files:

    def next_offset(self) -> int:
        """Return the base offset for the next batch, which is at least the end offset."""
        return self.end_offset

    def end_before(self, offset: int) -> int:
        """Return the end offset of the last batch before `offset`, the base offset of a batch.

        This is `offset` itself in storages without gaps.
        """
        return offset

    def request_replication(self, offset: int) -> bool:  # noqa: ARG002
        """Return True if the storage's replicas have all records before an offset.

        Otherwise, request their replication. The backend reports the replication later.
        """
        return True

    def drop_surplus(self, high_watermark: int) -> None:  # noqa: ARG002
        """Drop data below the high watermark that exceeds retention.bytes, after an append.

        Only storages that fill up faster than `expire` is called do this.
        """
        return

    def remove_failed_append(self) -> None:
        """Ensure that a batch whose write failed is not in the log.

        Raises:
            OSError: the storage failed.
        """
        return

    def verify(self) -> None:
        """Check that the storage still has all data that was appended.

        Raises:
            OSError: the storage failed, or has lost data.
        """
        return

    def flush(self) -> None:
        """Make all data survive a machine crash, if the storage supports it."""
        return

    def flush_if_due(self, now_ms: int) -> None:  # noqa: ARG002
        """Flush if flush.ms has passed since the last flush."""
        return

    def close(self) -> None:
        """Flush and close the files, if any."""
        return


class StorageBackend(ABC):
    """Creates and opens the storages of a cluster's partitions."""

    journal: Journal
    """The journal of cluster metadata."""

    @abstractmethod
    def create(self, topic: str, partition: int, config: LogConfig) -> LogStorage:
        """Create an empty log.

        Raises:
            OSError: data already exists. It is not changed.
        """

    @abstractmethod
    def load(self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch) -> LogStorage:
        """Open an existing log, and call `on_batch` with every batch in it."""

    # Optional methods, with defaults for backends without durable data:

    def check_vacant(self, topic: str, partition: int) -> None:  # noqa: ARG002
        """Check that a new log can be created without overwriting existing data.

        Raises:
            OSError: data exists. The message describes the data and the solution.
        """
        return

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:  # noqa: ARG002
        """Delete the data of a closed log, except for data that the broker did not write.

        Args:
            topic: the topic's name.
            partition: the partition's index.
            only_if_empty: do not delete a log that contains data. If the creation of a log did not
                complete, the broker has not written the data.

        Raises:
            OSError: some of the data could not be deleted.
        """
        return

    def close(self, *, clean: bool = True) -> None:  # noqa: ARG002
        """Close the backend. All logs must be closed first.

        Args:
            clean: False if some data could not be flushed.
        """
        return

    def abandon(self) -> None:
        """Close the backend after the broker failed to start. Called instead of `close`."""
        self.close()
