"""The interfaces that store the batches of a partition, and the topic configs of a log.

`UnifiedLog` uses a `LogStorage`. Implementations: segmented_storage.py (in memory and on disk) and
redis/log_storage.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.broker.storage.journal import Journal
    from spark_kafka_sink.broker.topic_config import TopicConfig
    from spark_kafka_sink.records.record_batch import BatchHeader


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


OnBatch: TypeAlias = Callable[["BatchHeader", memoryview], None]
"""Called with every batch of a log that is opened; the bytes are only valid during the call."""

END = 2**63 - 1
"""An offset after the end of every log."""


class BatchFacts(NamedTuple):
    """What a storage needs to know about a batch; `max_timestamp` in ms, `size` in bytes."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch in the log; `max_timestamp` in milliseconds."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: memoryview


class LogStorage(Protocol):
    """Whole batches in offset order; there may be gaps between the offsets of batches.

    System errors are raised as OSError; a failed append leaves the log unchanged.
    """

    config: LogConfig

    @property
    def start_offset(self) -> int:
        """Base offset of the oldest batch; where the log continues if it is empty."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset after the last batch."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        ...

    def next_offset(self) -> int:
        """Return the base offset of the next batch: the end offset or a later one."""
        ...

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append one stamped batch, given in parts; callers must not modify the parts later."""
        ...

    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """Return whole batches from the one that contains `start` on, that end before `end`.

        Returns at most `max_bytes` bytes, or one batch of any size if `max_bytes` is negative. One
        memoryview may contain several batches.
        """
        ...

    def request_replication(self, offset: int) -> bool:
        """Ask the storage's own replicas, if it has any, for everything before an offset.

        Returns True if they have it; otherwise, the backend calls back for the partition later.
        """
        ...

    def bytes_between(self, start: int, end: int) -> int:
        """Return the total bytes that `read` could return."""
        ...

    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """Yield every batch from the one that contains `offset` on."""
        ...

    def first_at(self, timestamp: int) -> StoredBatch | None:
        """Return the first batch with a record timestamp of at least `timestamp`."""
        ...

    def newest(self) -> StoredBatch | None:
        """Return the first batch with the largest timestamp of the log."""
        ...

    def delete_before(self, offset: int) -> None:
        """Drop what lies completely before an offset, as far as that is cheap."""
        ...

    def truncate(self, offset: int) -> None:
        """Drop the batches from the one that contains `offset` on; the log continues there."""
        ...

    def expire(self, now_ms: int) -> None:
        """Drop what exceeds retention.ms or retention.bytes."""
        ...

    def flush(self) -> None:
        """Make everything survive a crash of the machine."""
        ...

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if flush.ms has passed since the last flush."""
        ...

    def close(self) -> None:
        """Flush and close the files."""
        ...


class StorageBackend(Protocol):
    """Creates and opens the storages of a cluster's partitions."""

    def open_journal(self) -> Journal:
        """Return the cluster metadata; called once."""
        ...

    def check_vacant(self, topic: str, partition: int) -> None:
        """Check that nothing exists where a new log would be created.

        Raises:
            OSError: something exists; the message names it and what to do.
        """
        ...

    def create(self, topic: str, partition: int, config: LogConfig) -> LogStorage:
        """Create an empty log.

        Raises:
            OSError: something exists already; it is not changed.
        """
        ...

    def load(self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch) -> LogStorage:
        """Open a log that an earlier broker left, and call `on_batch` with every batch in it."""
        ...

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """Delete the data of a closed log, and nothing that the broker did not write.

        Args:
            topic: the topic's name.
            partition: the partition's index.
            only_if_empty: keep a log with data: its creation never finished, so the broker did not
                write the data.

        Raises:
            OSError: data that should be deleted is left.
        """
        ...

    def close(self) -> None:
        """Close the backend, after all logs were closed."""
        ...

    def abandon(self) -> None:
        """Close the backend of a broker that failed to start; called instead of `close`."""
        ...
