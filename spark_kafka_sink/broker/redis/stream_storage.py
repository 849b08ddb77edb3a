"""The log of a partition in Redis Streams.

Each record is a stream entry, and the entry id is derived from the record's offset.
"""

from __future__ import annotations

import logging
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.broker.redis.batch_entry import BatchEntry
from spark_kafka_sink.broker.redis.entries import EntryIds, write_fields
from spark_kafka_sink.broker.redis.streams import OffsetSpan, RedisStreams, add_command
from spark_kafka_sink.broker.storage.batch_table import BatchTable
from spark_kafka_sink.broker.storage.log_storage import (
    END,
    UNLIMITED,
    BatchFacts,
    LogStorage,
    StoredBatch,
)
from spark_kafka_sink.kafka.records.record_batch import NO_TIMESTAMP, BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import decode_batch, records_section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from spark_kafka_sink.broker.config.topic_config import LogConfig
    from spark_kafka_sink.broker.redis.connection import Command
    from spark_kafka_sink.broker.storage.log_storage import OnBatch
    from spark_kafka_sink.common.clock import Clock

_LOG = logging.getLogger(__name__)
_READ_BYTES = 1 << 20
"""Maximum bytes per read, unless the first batch is larger. A read blocks the calling thread."""


class _RedisBatchTable(BatchTable):
    """A `BatchTable` from whose start batches can be dropped. It uses 32 bytes per batch."""

    def __init__(self) -> None:
        super().__init__()
        self._timestamps = array("q")

    def add(self, facts: BatchFacts) -> None:
        """Add the next batch."""
        super().add(facts)
        self._timestamps.append(facts.max_timestamp)

    def truncate(self, count: int) -> None:
        """Drop all batches except the first `count`."""
        super().truncate(count)
        del self._timestamps[count:]

    def drop(self, count: int) -> None:
        """Drop the first `count` batches. The largest timestamps no longer include them."""
        dropped_bytes = self.position(count)
        for column in (self._last_offsets, self._ends, self._timestamps):
            del column[:count]
        self._ends = _int64_array(np.array(self._ends) - dropped_bytes)
        self._max_timestamps = _int64_array(
            np.maximum.accumulate(np.maximum(self._timestamps, NO_TIMESTAMP))
        )


def _int64_array(values: NDArray[np.int64]) -> array[int]:
    return array("q", values.tobytes())


@dataclass(slots=True, eq=False)
class RedisLogStorage(LogStorage):
    """A `LogStorage` in Redis Streams, to which only this broker may write."""

    _streams: RedisStreams
    """The partition's streams."""
    _ids: EntryIds
    """The mapping between offsets and entry ids."""
    _clock: Clock
    """The clock from which offsets are derived."""
    config: LogConfig
    """Retention limits."""
    _request_replication: Callable[[int], bool] | None = None
    """Returns True if Redis's replicas have all records before an offset; None if acks=all does not
    wait for the replicas.
    """
    _table: _RedisBatchTable = field(default_factory=_RedisBatchTable, init=False)
    _start: int = field(default=0, init=False)
    _has_lost: bool = field(default=False, init=False)

    def load(self, on_batch: OnBatch) -> None:
        """Read the headers of all existing batches.

        Raises:
            OSError: Redis failed, or the streams are not in this broker's format.
        """
        self._start = self._streams.restore_start()
        for entry in self._streams.batch_entries():
            on_batch(entry.header, entry.batch(entry.records or b"", entry.header.record_count))
            self._table.add(BatchFacts.of(entry.header, entry.size))
            self._streams.remember(entry.header.base_offset)

    @property
    def start_offset(self) -> int:
        """0 until batches are dropped, although offsets start much higher; see `LogStorage`."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The offset after the last batch."""
        last = self._table.last_offset
        return self._start if last is None else last + 1

    @property
    def size(self) -> int:
        """Bytes of all batches, uncompressed."""
        return self._table.size

    def next_offset(self) -> int:
        """Return the base offset for the next batch, from the time; offsets never decrease."""
        end = max(self.end_offset, self._streams.reserved)
        return self._ids.next_offset(end, self._clock.wall_ms())

    def end_before(self, offset: int) -> int:
        """Return the end offset of the last batch before `offset`, the base offset of a batch."""
        return self._start_of(self._table.number_at_offset(offset))

    def request_replication(self, offset: int) -> bool:
        """Return True if Redis's replicas have all records before an offset."""
        return self._request_replication is None or self._request_replication(offset)

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append one batch, and its records as entries of a second stream.

        Raises:
            OSError: Redis failed.
            ProtocolError: the records cannot be read.
        """
        stamped = b"".join(parts)
        header = BatchHeader.parse(stamped)
        section = records_section(stamped, header)
        entry = BatchEntry.of(header, section)
        commands = [] if header.is_control else self._record_commands(entry, section)
        first = self._ids.text(facts.base_offset)
        commands.append(add_command(self._streams.keys.batches, first, entry.fields(stamped)))
        self._streams.remove_failed_append()
        self._streams.write(commands, OffsetSpan(facts.base_offset, facts.last_offset))
        self._table.add(BatchFacts.of(header, entry.size))

    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """Return whole batches, up to `max_bytes`, from the one that contains `start`."""
        first, after = self._batch_numbers(start, end)
        while first < after:
            end_number = (
                first + 1 if max_bytes < 0 else min(after, self._end_of_read(first, max_bytes))
            )
            if end_number == first:
                break
            batches, has_all_records = self._read_batches(first, end_number)
            if len(batches) < end_number - first or not has_all_records:
                self._warn_of_loss()
            if batches:
                while max_bytes >= 0 and sum(map(len, batches)) > max_bytes:
                    batches.pop()
                return batches
            first = end_number
        return []

    def bytes_between(self, start: int, end: int) -> int:
        """Return the total number of bytes that `read` could return."""
        first, after = self._batch_numbers(start, end)
        return self._table.position(after) - self._table.position(first)

    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """Yield the batch that contains `offset` and all later batches."""
        while batches := self.read(offset, END, _READ_BYTES) or self.read(offset, END, -1):
            for data in batches:
                batch = StoredBatch.of(data)
                offset = batch.header.last_offset + 1
                yield batch

    def first_at_timestamp(self, timestamp: int) -> StoredBatch | None:
        """Return the first batch with a record timestamp of at least `timestamp`, or None."""
        later = self.batches(self._start_of(self._table.number_at_timestamp(timestamp)))
        return next((batch for batch in later if batch.header.max_timestamp >= timestamp), None)

    def first_at_max_timestamp(self) -> StoredBatch | None:
        """Return the first batch with the largest timestamp in the log, or None."""
        return next(self.batches(self._start_of(self._table.number_at_max_timestamp())), None)

    def delete_before(self, offset: int) -> None:
        """Drop each batch that is completely before an offset."""
        number = self._table.number_at_offset(offset)
        if number:
            begin = self._start_of(number)
            self._streams.trim(begin)
            self._table.drop(number)
            self._start = begin

    def restart_at(self, offset: int) -> None:
        """Drop all batches, and continue the log at an offset after its end."""
        self._streams.reserved = max(self._streams.reserved, offset)
        self._streams.trim(offset)
        self._streams.mark_deletion()
        self._table.truncate(0)
        self._start = offset

    def truncate(self, offset: int) -> None:
        """Drop the batch at `offset` and all later ones, whose ids are not reused."""
        self._streams.remove_failed_append()
        number = self._table.number_at_offset(offset)
        if number < len(self._table):
            self._streams.delete(OffsetSpan(self._start_of(number), self.end_offset - 1))
            self._table.truncate(number)

    def expire(self, now_ms: int, high_watermark: int = END) -> None:
        """Drop single batches that exceed the retention; Kafka drops whole segments."""
        config, number = self.config, 0
        if not config.deletes_records:
            return
        if config.retention_ms != UNLIMITED:
            number = self._end_of_expired(now_ms - config.retention_ms)
        surplus = self.size - config.retention_bytes
        if config.retention_bytes != UNLIMITED and surplus > 0:
            number = max(number, self._table.end_within(0, surplus))
        number = min(number, self._table.number_at_offset(high_watermark))
        self.delete_before(self._start_of(number))

    def remove_failed_append(self) -> None:
        """Ensure that a batch whose write failed is not in the log."""
        self._streams.remove_failed_append()

    def verify(self) -> None:
        """Check that Redis still has all data that was appended."""
        self._streams.verify()

    def _record_commands(self, entry: BatchEntry, section: memoryview) -> list[Command]:
        plain = entry.batch(section, entry.header.record_count)
        key, text = self._streams.keys.records, self._ids.text
        return [
            add_command(key, text(offset), write_fields(record))
            for offset, record in enumerate(decode_batch(plain), entry.header.base_offset)
        ]

    def _warn_of_loss(self) -> None:
        if not self._has_lost:
            records = self._streams.keys.records
            _LOG.warning(
                "Redis has lost batches of %s or their records; consumers skip them", records
            )
        self._has_lost = True

    def _end_of_read(self, first: int, max_bytes: int) -> int:
        """Return the end (exclusive) of the batch numbers from `first` that are read at once."""
        number = self._table.end_within(first, min(max_bytes, _READ_BYTES))
        return max(number, min(first + 1, self._table.end_within(first, max_bytes)))

    def _batch_numbers(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the end (exclusive) of the batch numbers between two offsets."""
        first = self._table.number_at_offset(start)
        return first, max(first, self._table.number_at_offset(end))

    def _start_of(self, number: int) -> int:
        """Return the end offset of the previous batch. There are no records between batches."""
        return self._table.facts(number - 1, 0).last_offset + 1 if number else self._start

    def _read_batches(self, first: int, end: int) -> tuple[list[memoryview], bool]:
        if first >= end:
            return [], True
        return self._streams.read(OffsetSpan(self._start_of(first), self._start_of(end) - 1))

    def _end_of_expired(self, oldest_ms: int) -> int:
        """Return the end of the expired batch numbers. Without timestamps, the ids are used."""
        number = self._table.number_at_timestamp(oldest_ms)
        if number > self._table.number_at_timestamp(0):
            return number
        return min(number, self._table.number_at_offset(self._ids.offset(max(oldest_ms, 0), 0)))
