"""The interfaces that store the batches of a partition, the configs of a log, and `BatchTable`.

`UnifiedLog` uses a `LogStorage`. Implementations: segmented_storage.py (in memory and on disk) and
redis/storage.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from spark_kafka_sink.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.journal import Journal
    from spark_kafka_sink.broker.topic_config import TopicConfig


UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Limits of one log, named like Kafka's configs; bytes and milliseconds.

    A retention of -1 means no limit. A log with `deletes` False (cleanup.policy=compact) keeps all
    records.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = UNLIMITED
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    deletes: bool = True

    @classmethod
    def of(cls, config: TopicConfig) -> LogConfig:
        """Return the config of a topic's logs."""
        return cls(
            segment_bytes=config.batch_rules.segment_bytes,
            segment_ms=int(config["segment.ms"]),
            index_bytes=int(config["segment.index.bytes"]),
            index_interval_bytes=int(config["index.interval.bytes"]),
            retention_ms=int(config["retention.ms"]),
            retention_bytes=int(config["retention.bytes"]),
            flush_messages=int(config["flush.messages"]),
            flush_ms=int(config["flush.ms"]),
            deletes="delete" in config["cleanup.policy"].split(","),
        )


DEFAULT_LOG_CONFIG = LogConfig()
"""Kafka's defaults."""


OnBatch: TypeAlias = Callable[[BatchHeader, memoryview], None]
"""Called with every batch of a log that is opened; the bytes are only valid during the call."""

END = 2**63 - 1
"""An offset after the end of every log."""


class BatchFacts(NamedTuple):
    """The properties of a batch that a storage uses; `max_timestamp` in ms, `size` in bytes."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    size: int

    @classmethod
    def of(cls, header: BatchHeader, size: int) -> BatchFacts:
        """Return the facts of the batch with this header."""
        return cls(header.base_offset, header.last_offset, header.max_timestamp, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch in the log; `max_timestamp` in milliseconds."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: memoryview

    @classmethod
    def of(cls, data: memoryview) -> StoredBatch:
        """Return the batch in `data`."""
        header = BatchHeader.parse(data)
        return cls(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp,
            data=data,
        )


class BatchTable:
    """The batches of one segment by number, from 0; positions in bytes, timestamps in ms."""

    def __init__(self) -> None:
        self._last_offsets = array("q")
        self._ends = array("q")
        self._newest = array("q")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self._ends[-1] if self._ends else 0

    @property
    def last_offset(self) -> int | None:
        """The last offset of the last batch; None without batches."""
        return self._last_offsets[-1] if self._last_offsets else None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of all batches, -1 without timestamps."""
        return self._newest[-1] if self._newest else -1

    def add(self, facts: BatchFacts) -> None:
        """Add the next batch."""
        newest = max(self.max_timestamp, facts.max_timestamp)
        self._ends.append(self.size + facts.size)
        self._last_offsets.append(facts.last_offset)
        self._newest.append(newest)

    def keep(self, count: int) -> None:
        """Keep only the first `count` batches."""
        for column in (self._last_offsets, self._ends, self._newest):
            del column[count:]

    def facts(self, number: int, base_offset: int) -> BatchFacts:
        """Return the facts of a batch; `max_timestamp` is the maximum up to this batch."""
        before = self._last_offsets[number - 1] + 1 if number else base_offset
        return BatchFacts(
            base_offset=before,
            last_offset=self._last_offsets[number],
            max_timestamp=self._newest[number],
            size=self._ends[number] - self.position(number),
        )

    def position(self, number: int) -> int:
        """Return the byte position of a batch, or the segment's size for the end number."""
        return self._ends[number - 1] if number else 0

    def holding(self, offset: int) -> int:
        """Return the number of the first batch that ends at or after an offset.

        This is also the number of batches that end before the offset.
        """
        return bisect_left(self._last_offsets, offset)

    def within(self, first: int, max_bytes: int) -> int:
        """Return the number after the last batch, from `first`, that fits into `max_bytes`."""
        return bisect_right(self._ends, self.position(first) + max_bytes, first)

    def first_at(self, timestamp: int) -> int:
        """Return the number of the first batch whose timestamp is at least this one."""
        return bisect_left(self._newest, timestamp)

    def newest(self) -> int:
        """Return the number of the first batch with the largest timestamp."""
        return bisect_left(self._newest, self.max_timestamp)


class LogStorage(Protocol):
    """Whole batches in offset order; there may be gaps between the offsets of batches.

    System errors are raised as OSError; a failed append leaves the log unchanged.
    """

    config: LogConfig

    @property
    def start_offset(self) -> int:
        """Base offset of the oldest batch; for an empty log, the offset at which it continues."""

    @property
    def end_offset(self) -> int:
        """The offset after the last batch."""

    @property
    def size(self) -> int:
        """Bytes of all batches."""

    def next_offset(self) -> int:
        """Return the base offset of the next batch: the end offset or a later offset."""
        return self.end_offset

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append one stamped batch, given in parts; callers must not modify the parts later."""

    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """Return whole batches, starting with the one that contains `start`, that end before `end`.

        Returns at most `max_bytes` bytes, or one batch of any size if `max_bytes` is negative. One
        memoryview may contain several batches.
        """

    def request_replication(self, offset: int) -> bool:  # noqa: ARG002
        """Request replication of everything before an offset to the storage's own replicas.

        Returns True if the replicas have it; otherwise, the backend calls back for the partition
        later.
        """
        return True

    def bytes_between(self, start: int, end: int) -> int:
        """Return the total bytes that `read` could return."""

    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """Yield the batch that contains `offset` and all later batches."""

    def first_at(self, timestamp: int) -> StoredBatch | None:
        """Return the first batch with a record timestamp of at least `timestamp`."""

    def newest(self) -> StoredBatch | None:
        """Return the first batch with the largest timestamp of the log."""

    def delete_before(self, offset: int) -> None:
        """Drop data that lies completely before an offset, as far as it is cheap."""

    def restart_at(self, offset: int) -> None:
        """Drop all batches; the log continues at an offset after its end."""

    def truncate(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all later ones; the log continues there."""

    def expire(self, now_ms: int) -> None:
        """Drop data that exceeds retention.ms or retention.bytes."""

    def flush(self) -> None:
        """Make all data survive a machine crash, if the storage supports it."""

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if flush.ms has passed since the last flush."""

    def close(self) -> None:
        """Flush and close the files."""


class StorageBackend(Protocol):
    """Creates and opens the storages of a cluster's partitions."""

    def open_journal(self) -> Journal:
        """Return the cluster metadata; called once."""

    def check_vacant(self, topic: str, partition: int) -> None:
        """Check that nothing exists where a new log would be created.

        Raises:
            OSError: data exists; the message names it and the required action.
        """

    def create(self, topic: str, partition: int, config: LogConfig) -> LogStorage:
        """Create an empty log.

        Raises:
            OSError: data already exists; it is not changed.
        """

    def load(self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch) -> LogStorage:
        """Open a log that an earlier broker left, and call `on_batch` with every batch in it."""

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """Delete the data of a closed log, but nothing that the broker did not write.

        Args:
            topic: the topic's name.
            partition: the partition's index.
            only_if_empty: keep a log with data: its creation never finished, so the broker did not
                write the data.

        Raises:
            OSError: some of the data could not be deleted.
        """

    def close(self) -> None:
        """Close the backend, after all logs were closed."""

    def abandon(self) -> None:
        """Close the backend of a broker that failed to start; called instead of `close`."""
        self.close()
