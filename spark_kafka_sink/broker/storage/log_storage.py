"""The storage interface behind `UnifiedLog`, and the topic configs that shape a log.

Where a partition's batches lie: the seam behind `UnifiedLog`, and what it works with.

Implementations: segmented_storage.py in memory and on disk, and redis/log_storage.py.
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
    """Limits of one log, named as Kafka's configs; bytes and milliseconds.

    -1 stands for no limit of retention. A log that is not `deletes` keeps all (compaction alone).
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
        """Read them from a topic's configs."""
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
"""Told of every batch in a log that is opened; the bytes are there during the call only."""

END = 2**63 - 1
"""An offset behind every log."""


class BatchFacts(NamedTuple):
    """What a storage has to know of a batch; `max_timestamp` in ms, `size` in bytes."""

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
    """Whole batches in offset order; offsets may have gaps between batches.

    Errors of the system come as OSError; a failed append leaves the log as it was.
    """

    config: LogConfig

    @property
    def start_offset(self) -> int:
        """First offset of the oldest batch that is kept, or where the log goes on if empty."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        ...

    def next_offset(self) -> int:
        """Where the next batch begins: at the end, or behind it."""
        ...

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append one stamped batch, given in parts; callers must not modify the parts later."""
        ...

    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """Whole batches from the one that holds offset `start` on, that end before `end`.

        At most `max_bytes`, but at least one batch if `max_bytes` is negative: then one of any
        size. A piece may hold several batches.
        """
        ...

    def request_replication(self, offset: int) -> bool:
        """Ask the storage's own replicas, if it has any, for all before an offset.

        Returns whether they have it; if not, there will be news of the partition.
        """
        ...

    def bytes_between(self, start: int, end: int) -> int:
        """Bytes that `read` could return in all."""
        ...

    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """Every batch from the one that holds `offset` on."""
        ...

    def first_at(self, timestamp: int) -> StoredBatch | None:
        """Find the first batch that holds a record as new as `timestamp`."""
        ...

    def newest(self) -> StoredBatch | None:
        """Find the first batch with the largest timestamp of all."""
        ...

    def delete_before(self, offset: int) -> None:
        """Drop what lies wholly before an offset, as far as that is cheap."""
        ...

    def truncate(self, offset: int) -> None:
        """Drop the batches from the one that holds `offset` on; the log goes on there."""
        ...

    def expire(self, now_ms: int) -> None:
        """Drop what retention.ms and retention.bytes no longer keep."""
        ...

    def flush(self) -> None:
        """Make sure that everything outlives the machine."""
        ...

    def flush_if_due(self, now_ms: int) -> None:
        """Flush when flush.ms has passed since the last time."""
        ...

    def close(self) -> None:
        """Flush and let go of files."""
        ...


class StorageBackend(Protocol):
    """Makes the storages of a cluster's partitions."""

    def open_journal(self) -> Journal:
        """What the cluster knows besides its logs; called once."""
        ...

    def check_vacant(self, topic: str, partition: int) -> None:
        """Check that there is nothing where a new log would be.

        Raises:
            OSError: there is something; the message names it and what to do.
        """
        ...

    def create(self, topic: str, partition: int, config: LogConfig) -> LogStorage:
        """Begin an empty log; OSError if there is something already, which is not changed."""
        ...

    def load(self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch) -> LogStorage:
        """Open a log that an earlier broker left; `on_batch` is told of every batch in it."""
        ...

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """Delete the data of a closed log, and nothing that the broker did not write.

        Args:
            topic: the topic's name.
            partition: the partition's index.
            only_if_empty: keep a log with data: its creation was never finished, so the data is
                not the broker's.

        Raises:
            OSError: data is left that should be deleted.
        """
        ...

    def close(self) -> None:
        """Called last, when all logs are closed."""
        ...

    def abandon(self) -> None:
        """Called instead of `close` if the broker does not start."""
        ...
