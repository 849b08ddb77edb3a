"""A partition's log in Redis Streams: one entry per record, with the record's offset as its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.redis.entries import write_fields
from spark_kafka_sink.broker.redis.streams import BatchNote, OffsetSpan, add_command
from spark_kafka_sink.broker.storage.log_storage import (
    END,
    UNLIMITED,
    BatchFacts,
    BatchTable,
    LogConfig,
    LogStorage,
    StoredBatch,
)
from spark_kafka_sink.records.decoder import read_records, records_section
from spark_kafka_sink.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.broker.redis.connection import Command
    from spark_kafka_sink.broker.redis.entries import EntryIds
    from spark_kafka_sink.broker.redis.streams import PartitionReplicas, RedisStreams
    from spark_kafka_sink.broker.storage.log_storage import OnBatch
    from spark_kafka_sink.common.clock import Clock

READ_BYTES = 1 << 20
"""Bytes read at a time, unless the first batch is larger: the reading thread waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAllocator:
    """Allocates offsets from the clock, by the mapping of offsets to entry ids."""

    ids: EntryIds
    clock: Clock

    def next_offset(self, end: int) -> int:
        """Return the base offset of a batch that may not start before `end`."""
        return self.ids.next_offset(end, self.clock.wall_ms())


class RedisLogStorage(LogStorage):
    """A `LogStorage` in Redis Streams; this broker is the only one that writes to them.

    Each batch takes 24 bytes of memory: its last offset, its end position, and the largest
    timestamp up to it.

    Args:
        streams: the partition's streams.
        allocator: allocates offsets.
        config: what to keep.
        replicas: the state of Redis's replicas; None if acks=all does not wait for them.
    """

    def __init__(
        self,
        streams: RedisStreams,
        allocator: OffsetAllocator,
        config: LogConfig,
        replicas: PartitionReplicas | None = None,
    ) -> None:
        self.config = config
        self._streams = streams
        self._allocator = allocator
        self._replicas = replicas
        self._table = BatchTable()
        self._first = self._start = 0

    def load(self, on_batch: OnBatch) -> None:
        """Read the headers of all existing batches.

        Raises:
            OSError: Redis failed, or the streams are not in this broker's format.
        """
        first: int | None = None
        for note in self._streams.notes():
            first = note.header.base_offset if first is None else first
            on_batch(note.header, note.batch(note.records or b"", note.header.record_count))
            self._table.add(BatchFacts.of(note.header, note.size))
        if self._streams.learn():
            self._start = self._streams.reserved if first is None else first

    @property
    def start_offset(self) -> int:
        """See `LogStorage`; 0 until something is dropped, although offsets start much higher."""
        return self._start

    @property
    def end_offset(self) -> int:
        """See `LogStorage`."""
        last = self._table.last_offset
        return self._start if last is None else last + 1

    @property
    def size(self) -> int:
        """See `LogStorage`; the uncompressed size."""
        return self._table.size - self._table.position(self._first)

    def next_offset(self) -> int:
        """See `LogStorage`: the shifted wall-clock time, or the end offset if that is larger."""
        return self._allocator.next_offset(max(self.end_offset, self._streams.reserved))

    def request_replication(self, offset: int) -> bool:
        """See `LogStorage`."""
        return self._replicas is None or self._replicas.request(offset)

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """See `LogStorage`.

        Raises:
            OSError: Redis failed.
            ProtocolError: the records cannot be read.
        """
        stamped = b"".join(parts)
        header = BatchHeader.parse(stamped)
        section = records_section(stamped, header)
        note = BatchNote.of(header, section)
        commands = [] if header.is_control else self._entries(note, section)
        first = self._allocator.ids.text(facts.base_offset)
        commands.append(add_command(self._streams.keys.batches, first, note.fields(stamped)))
        self._streams.settle()
        self._streams.write(commands, OffsetSpan(facts.base_offset, facts.last_offset))
        self._table.add(BatchFacts.of(header, note.size))

    def _entries(self, note: BatchNote, section: memoryview) -> list[Command]:
        plain = note.batch(section, note.header.record_count)
        key, text = self._streams.keys.records, self._allocator.ids.text
        return [
            add_command(key, text(offset), write_fields(record))
            for offset, record in enumerate(read_records(plain), note.header.base_offset)
        ]

    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """See `LogStorage`."""
        first, behind = self._between(start, end)
        if max_bytes < 0:
            return self._build(first, min(first + 1, behind))
        found = self._build(first, min(behind, self._within(first, max_bytes)))
        while found and sum(map(len, found)) > max_bytes:
            found.pop()
        return found

    def _within(self, first: int, max_bytes: int) -> int:
        """Return the number after the last batch to read at once, from `first` on."""
        number = self._table.within(first, min(max_bytes, READ_BYTES))
        return max(number, min(first + 1, self._table.within(first, max_bytes)))

    def _between(self, start: int, end: int) -> tuple[int, int]:
        """Return the number of the first batch between two offsets, and the end number."""
        first = max(self._table.holding(start), self._first)
        return first, max(first, self._table.holding(end))

    def _begin(self, number: int) -> int:
        """Return the offset after the previous batch; no record lies between the two batches."""
        return self._table.facts(number - 1, 0).last_offset + 1 if number else 0

    def _build(self, first: int, end: int) -> list[memoryview]:
        if first >= end:
            return []
        return self._streams.read(OffsetSpan(self._begin(first), self._begin(end) - 1))

    def bytes_between(self, start: int, end: int) -> int:
        """See `LogStorage`."""
        first, behind = self._between(start, end)
        return self._table.position(behind) - self._table.position(first)

    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """See `LogStorage`."""
        while found := self.read(offset, END, READ_BYTES) or self.read(offset, END, -1):
            for data in found:
                batch = StoredBatch.of(data)
                offset = batch.last_offset + 1
                yield batch

    def first_at(self, timestamp: int) -> StoredBatch | None:
        """See `LogStorage`."""
        later = self.batches(self._begin(max(self._table.first_at(timestamp), self._first)))
        return next((batch for batch in later if batch.max_timestamp >= timestamp), None)

    def newest(self) -> StoredBatch | None:
        """See `LogStorage`."""
        number = self._table.newest()
        if number >= self._first:
            return next(self.batches(self._begin(number)), None)
        return max(self.batches(), key=lambda batch: batch.max_timestamp, default=None)

    def delete_before(self, offset: int) -> None:
        """See `LogStorage`: batches are dropped one by one."""
        number = self._table.holding(offset)
        if number > self._first:
            begin = self._begin(number)
            self._streams.trim(begin)
            self._first, self._start = number, begin

    def truncate(self, offset: int) -> None:
        """See `LogStorage`; ids are never used twice."""
        self._streams.settle()
        number = max(self._table.holding(offset), self._first)
        if number < len(self._table):
            self._streams.reserved = max(self._streams.reserved, self.end_offset)
            self._streams.delete(OffsetSpan(self._begin(number), self.end_offset - 1))
            self._table.keep(number)

    def expire(self, now_ms: int) -> None:
        """See `LogStorage`: drops single batches, whereas Kafka drops whole segments."""
        config, number = self.config, 0
        if not config.deletes:
            return
        if config.retention_ms != UNLIMITED:
            number = self._expired(now_ms - config.retention_ms)
        surplus = self.size - config.retention_bytes
        if config.retention_bytes != UNLIMITED and surplus > 0:
            number = max(number, self._table.within(self._first, surplus))
        self.delete_before(self._begin(number))

    def _expired(self, oldest_ms: int) -> int:
        """Return the number after the last expired batch; by its id if it has no timestamp."""
        number = self._table.first_at(oldest_ms)
        if number > self._table.first_at(0):
            return number
        return min(number, self._table.holding(self._allocator.ids.offset(max(oldest_ms, 0), 0)))

    def flush(self) -> None:
        """Do nothing: durability is determined by Redis's own configuration."""

    def flush_if_due(self, now_ms: int) -> None:
        """See `flush`."""

    def close(self) -> None:
        """Do nothing: the connection is shared."""
