"""The two Redis Streams of a partition, conversion to batches, and Redis replication.

The first stream contains one entry per record. The second stream contains one entry per batch with
the batch header (`BatchEntry`), which contains producer, sequence, leader epoch and transaction.
Both streams are written in one Redis transaction, so a batch is stored completely or not at all.
For consumers, `build_batches` restores record batches from the entries of both streams.

`RedisReplicas` uses WAIT to determine whether Redis's replicas have the data. It uses its own
thread and connection. WAIT returns the number of replicas that have all writes of the same
connection. Because a replica applies the commands of all connections in order, a replica that has a
write of this connection also has all earlier writes.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from spark_kafka_sink.broker.redis.entries import EntryIds, id_parts, read_columns
from spark_kafka_sink.broker.redis.redis_connection import WAITS_FIELD, RedisFailedError, last_id
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader
from spark_kafka_sink.kafka.records.record_encoder import encode_records, slice_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_kafka_sink.broker.redis.redis_connection import Command, RedisConnection, RedisValue
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition


_HEADER = b"header"
_BYTES = b"bytes"
_RECORDS = b"records"
_CODEC_BITS = 0x07
_LOG = logging.getLogger(__name__)
_GROUP = "kafkaprod::make"
_START = "kafkaprod::start"
"""A group of the batches' stream. Its last delivered id corresponds to the log start offset.

The start cannot be derived from the remaining entries, because there are gaps between batches. A
full Redis accepts a new id for a group, but no new entries or values.
"""
PAGE = 1_000
"""Maximum number of entries per reply in a paged read."""
WAIT_MS = 100
"""Timeout in milliseconds of each WAIT, which is repeated until the replicas have the data."""
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """An entry of the second stream, which represents a batch.

    Args:
        header: the batch header, with offsets and leader epoch set.
        size: uncompressed size of the batch in bytes.
        records: the records of a control batch, because they have no entries; None for data
            batches.
    """

    header: BatchHeader
    size: int
    records: bytes | None = None

    @classmethod
    def of(cls, header: BatchHeader, section: memoryview) -> Self:
        """Return the entry for a batch header. `section` contains the uncompressed records."""
        return cls(
            header=header,
            size=HEADER_SIZE + len(section),
            records=bytes(section) if header.is_control else None,
        )

    @classmethod
    def read(cls, fields: list[bytes]) -> Self:
        """Parse the fields of an entry.

        Raises:
            ValueError: the fields do not describe a batch.
        """
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        if len(values.get(_HEADER, b"")) != HEADER_SIZE:
            raise ValueError("the entry has no batch header")
        header = BatchHeader.parse(values[_HEADER])
        return cls(header=header, size=int(values[_BYTES]), records=values.get(_RECORDS))

    def fields(self, stamped: bytes | bytearray | memoryview) -> list[RedisValue]:
        """Return the fields of the entry. `stamped` starts with the bytes of the header."""
        fields: list[RedisValue] = [_HEADER, bytes(stamped[:HEADER_SIZE]), _BYTES, self.size]
        return fields if self.records is None else [*fields, _RECORDS, self.records]

    def batch(self, records: memoryview | bytes, count: int) -> memoryview:
        """Return the batch. Timestamps in `records` are relative to `base_timestamp`."""
        header = self.header._replace(
            attributes=self.header.attributes & ~_CODEC_BITS,
            base_timestamp=self.base_timestamp,
            record_count=count,
        )
        return memoryview(header.pack([records]) + bytes(records))

    @property
    def base_timestamp(self) -> int:
        """The timestamp in milliseconds to which record timestamps are relative."""
        header = self.header
        return header.max_timestamp if header.is_log_append_time else header.base_timestamp


def build_batches(
    batch_entries: Sequence[BatchEntry], entries: Sequence[Any], ids: EntryIds
) -> list[memoryview]:
    """Return one batch per batch entry. Records outside of all batches are ignored.

    Args:
        batch_entries: batch entries in offset order.
        entries: record entries as [id, fields], in offset order.
        ids: the mapping between offsets and entry ids.

    Raises:
        ValueError: an id or a timestamp is not in this broker's format.
    """
    sections = _sections(
        [batch_entry for batch_entry in batch_entries if batch_entry.records is None], entries, ids
    )
    return [
        batch_entry.batch(*next(sections))
        if batch_entry.records is None
        else batch_entry.batch(batch_entry.records, batch_entry.header.record_count)
        for batch_entry in batch_entries
    ]


def _sections(
    batch_entries: Sequence[BatchEntry], entries: Sequence[Any], ids: EntryIds
) -> Iterator[tuple[memoryview | bytes, int]]:
    """Yield the records and the record count of each batch. All batches are encoded together."""
    offsets = np.fromiter((ids.read(entry[0]) for entry in entries), np.int64, len(entries))
    bases = np.array([batch_entry.header.base_offset for batch_entry in batch_entries], np.int64)
    lasts = np.array([batch_entry.header.last_offset for batch_entry in batch_entries], np.int64)
    owners = np.searchsorted(bases, offsets, "right") - 1
    kept = np.flatnonzero((owners >= 0) & (offsets <= lasts.take(owners, mode="clip")))
    if not len(kept):
        yield from ((b"", 0) for _ in batch_entries)
        return
    owners = owners[kept]
    columns = read_columns([entries[number][1] for number in kept.tolist()])
    times = np.array([batch_entry.base_timestamp for batch_entry in batch_entries], np.int64)
    assert columns.timestamps is not None
    deltas = (offsets[kept] - bases[owners]).astype(np.int32)
    encoded = encode_records(columns, deltas, columns.timestamps - times[owners])
    start = 0
    for end in np.searchsorted(owners, np.arange(len(batch_entries)), "right").tolist():
        yield slice_records(encoded, start, end), end - start
        start = end


class StreamKeys(NamedTuple):
    """The keys of a partition's two streams, which contain records and batch headers."""

    records: str
    batches: str


class OffsetSpan(NamedTuple):
    """A range of offsets. Both ends are inclusive."""

    first: int
    last: int


class RedisStreams:
    """The two streams of a partition.

    Every method raises RedisFailedError, an OSError, if Redis fails.
    """

    def __init__(self, connection: RedisConnection, ids: EntryIds, keys: StreamKeys) -> None:
        self._connection = connection
        self._ids = ids
        self.keys = keys
        self.reserved = 0
        """The smallest offset with an id that Redis still accepts."""
        self._uncertain: tuple[list[Command], OffsetSpan] | None = None
        """The commands and the offsets of a batch whose reply was lost."""
        self._leftovers: list[Command] = []
        """Commands that delete the entries of a partially written batch."""

    def check_vacant(self) -> None:
        """Check that neither stream exists.

        Raises:
            RedisFailedError: a key exists.
        """
        for key, kind in self._types().items():
            if kind != "none":
                raise RedisFailedError(
                    f"the key {key} exists ({kind}), but the broker's journal does not list it. "
                    "Rename or delete it, or choose another topic name"
                )

    def _types(self) -> dict[str, str]:
        replies = _checked(self._connection.pipeline([("TYPE", key) for key in self.keys]))
        return {key: reply.decode() for key, reply in zip(self.keys, replies, strict=True)}

    def begin(self) -> None:
        """Create both streams without entries.

        Raises:
            RedisFailedError: a key exists.
        """
        self._connection.call("WATCH", *self.keys)
        try:
            self.check_vacant()
        except RedisFailedError:
            self._connection.call("UNWATCH")
            raise
        self._create_streams(self.keys, ("XGROUP", "CREATE", self.keys.batches, _START, "0"))

    def reopen(self) -> None:
        """Create missing streams.

        Raises:
            ConfigError: a key is not a stream.
        """
        missing = []
        for key, kind in self._types().items():
            if kind == "none":
                _LOG.warning("the stream %s is missing: its records are lost", key)
                missing.append(key)
            elif kind != "stream":
                raise ConfigError(
                    f"the key {key} is a {kind}, but the broker's journal lists it as a stream",
                    hint="Nothing was changed. Rename or delete the key, or set another prefix.",
                )
        if missing:
            self._create_streams(missing)

    def _create_streams(self, keys: Sequence[str], *commands_after: Command) -> None:
        commands: list[Command] = []
        for key in keys:
            # Creating a group creates its stream; no other command creates an empty stream.
            commands.append(("XGROUP", "CREATE", key, _GROUP, "0", "MKSTREAM"))
            commands.append(("XGROUP", "DESTROY", key, _GROUP))
        _checked(self._connection.transaction([*commands, *commands_after]))

    def drop(self, *, only_if_empty: bool) -> None:
        """Delete both streams. With `only_if_empty`, delete them only if both are empty."""
        self._connection.newest.pop(self.keys.batches, None)
        if only_if_empty:
            self._connection.call("WATCH", *self.keys)
        types = self._types()
        streams = [key for key, kind in types.items() if kind == "stream"]
        for key in types.keys() - set(streams):
            if types[key] != "none":
                _LOG.warning("not deleting %s: it is a %s, not a stream", key, types[key])
        if only_if_empty and any(self._connection.call("XLEN", key) for key in streams):
            streams = []
        # This also ends WATCH. If a stream has changed since WATCH, nothing is deleted.
        self._connection.transaction([("DEL", key) for key in streams])

    def batch_entries(self) -> Iterator[BatchEntry]:
        """Yield the entries of all batches in order."""
        after = 0
        while True:
            words = ("XRANGE", self.keys.batches, self._ids.text(after), "+", "COUNT", PAGE)
            page = _read_batches(self._connection.call(*words))
            yield from page
            if not page:
                return
            after = page[-1].header.last_offset + 1

    def find_reserved(self) -> bool:
        """Determine the smallest unused id. Return True if entries were ever dropped."""
        dropped = False
        for key in self.keys:
            info = self._connection.call("XINFO", "STREAM", key)
            values = dict(zip(info[::2], info[1::2], strict=True))
            milliseconds, sequence = id_parts(last_id(info))
            # Another writer's sequence can exceed sequence_bits. In that case, the addition
            # carries.
            newest = (milliseconds << self._ids.sequence_bits) + sequence
            self.reserved = max(self.reserved, newest + 1)
            # Redis before version 7 does not count added entries.
            dropped = dropped or values.get(b"entries-added") != values[b"length"]
        return dropped

    def restore_start(self) -> int:
        """Return the log start offset, and complete an interrupted `trim`."""
        is_trimmed = self.find_reserved()
        groups = self._groups()
        if _START in groups:
            start = self._ids.read(groups[_START])
            self.trim(start)
            return start
        start = self._first_offset() if is_trimmed else 0
        self._connection.call("XGROUP", "CREATE", self.keys.batches, _START, self._ids.text(start))
        return start

    def _groups(self) -> dict[str, bytes]:
        """Return the last delivered id of each group of the batches' stream, by name."""
        replies = self._connection.call("XINFO", "GROUPS", self.keys.batches)
        groups = (dict(zip(reply[::2], reply[1::2], strict=True)) for reply in replies)
        return {group[b"name"].decode(): group[b"last-delivered-id"] for group in groups}

    def _first_offset(self) -> int:
        first = next(self.batch_entries(), None)
        return self.reserved if first is None else first.header.base_offset

    def write(self, commands: list[Command], span: OffsetSpan) -> None:
        """Write a batch completely or not at all. Call `settle` first."""
        try:
            replies = self._connection.transaction(commands)
        except RedisFailedError:
            # Redis might have executed the commands before the reply was lost.
            self._uncertain = commands, span
            if not self._resolve():
                raise
            self.remember(span.first)
            return
        try:
            _check_added(self.keys.records, replies)
        except RedisFailedError:
            self.reserved = max(self.reserved, span.last + 1)
            # Do not delete the entries of other writers.
            self._leftovers = [
                ("XDEL", command[1], reply)
                for command, reply in zip(commands, replies, strict=True)
                if isinstance(reply, bytes)
            ]
            self._delete_leftovers()
            if None not in replies:
                self.find_reserved()
            raise
        self.remember(span.first)

    def verify(self) -> None:
        """Check that the data is still owned, and reconnect if necessary."""
        self._connection.call("PING")

    def remember(self, base_offset: int) -> None:
        """After each reconnect, check that Redis still has the batch at an offset."""
        self._connection.newest[self.keys.batches] = self._ids.text(base_offset)

    def mark_deletion(self) -> None:
        """After each reconnect, check that Redis has not restored the entries deleted until now.

        For this, the last id of the batches' stream is advanced, as by a new batch. A full Redis
        rejects this; in that case, an older state is not detected until the next batch is written.
        """
        batches, mark = self.keys.batches, self._ids.text(self.reserved)
        (reply,) = self._connection.pipeline([("XSETID", batches, mark)])
        if isinstance(reply, Exception):
            _LOG.debug("cannot advance the last id of %s: %s", batches, reply)
            return
        self.remember(self.reserved)
        self.reserved += 1

    def _delete_leftovers(self) -> None:
        if self._leftovers:
            _checked(self._connection.transaction(self._leftovers))
            self.mark_deletion()
        self._leftovers = []

    def _resolve(self) -> bool:
        """Return True if a batch is known to be written although the reply was lost.

        If only a part of it was written, delete this part.
        """
        try:
            is_written = self._fence()
            self._delete_leftovers()
        except RedisFailedError as error:
            _LOG.debug("cannot check whether %s has a batch: %s", self.keys.records, error)
            return False
        return is_written

    def _fence(self) -> bool:
        """Advance the streams' last ids, so that an uncertain batch cannot be applied later.

        Return True if the whole batch was applied. If only a part was applied, because other
        writers' entries precede it, this part becomes `_leftovers`.
        """
        assert self._uncertain is not None
        writes, span = self._uncertain
        ends = [self._ids.text(offset) for offset in span]
        commands: list[Command] = [("XRANGE", key, *ends) for key in self.keys]
        commands += [("XSETID", key, ends[1]) for key in self.keys]
        # XSETID fails if a stream has later entries; then it is not necessary.
        pages = _checked(self._connection.transaction(commands)[: len(self.keys)])
        self.reserved = max(self.reserved, span.last + 1)
        self._uncertain = None
        ours = _written(writes, dict(zip(self.keys, pages, strict=True)))
        if len(ours) == len(writes):
            return True
        self._leftovers = [("XDEL", key, entry_id) for key, entry_id in ours]
        return False

    def settle(self) -> None:
        """Ensure that the batch of a failed write does not exist."""
        if self._uncertain is not None:
            writes, _ = self._uncertain
            if self._fence():
                self._leftovers = [("XDEL", key, entry_id) for _, key, _, entry_id, *_ in writes]
        self._delete_leftovers()

    def delete(self, span: OffsetSpan) -> None:
        """Delete the entries in a span at the end, starting with the last entry.

        Batches are deleted before their records. Otherwise, if this process were killed in between,
        the next broker would find a batch without its records, and would treat the producer's retry
        as a duplicate.
        """
        self.reserved = max(self.reserved, span.last + 1)
        first, last = (self._ids.text(offset) for offset in span)
        for key in (self.keys.batches, self.keys.records):
            while entries := self._connection.call("XREVRANGE", key, last, first, "COUNT", PAGE):
                self._connection.call("XDEL", key, *(entry[0] for entry in entries))
        self.mark_deletion()

    def trim(self, offset: int) -> None:
        """Delete all entries before an offset, which becomes the log start offset.

        A full Redis rejects transactions, so these are single commands. The offset is stored first:
        if the process is killed in between, `restore_start` deletes the remaining entries.
        """
        first = self._ids.text(offset)
        keys = (self.keys.batches, self.keys.records)
        commands: list[Command] = [("XTRIM", key, "MINID", first) for key in keys]
        store = ("XGROUP", "SETID", self.keys.batches, _START, first)
        # Unlike XTRIM, XGROUP fails if the stream is missing, or if a Redis before 7 is full.
        _checked(self._connection.pipeline([store, *commands])[1:])

    def read(self, span: OffsetSpan) -> tuple[list[memoryview], bool]:
        """Return the batches in a span, and True if all their records exist."""
        ends = tuple(self._ids.text(offset) for offset in span)
        commands: list[Command] = [("XRANGE", key, *ends) for key in self.keys]
        entries, batch_entries = _checked(self._connection.pipeline(commands))
        try:
            stored = _read_batches(batch_entries)
            batches = build_batches(stored, entries, self._ids)
        except ValueError as error:
            raise RedisFailedError(f"{self.keys.records} cannot be read: {error}") from error
        counts = [BatchHeader.parse(data).record_count for data in batches]
        return batches, counts == [entry.header.record_count for entry in stored]


def add_command(key: str, entry_id: bytes, fields: Sequence[RedisValue]) -> Command:
    """Return the command that adds an entry to a stream, without creating the stream."""
    return ("XADD", key, "NOMKSTREAM", entry_id, *fields)


def _written(
    writes: Sequence[Command], pages: Mapping[str, list[Any]]
) -> list[tuple[RedisValue, RedisValue]]:
    """Return key and entry id of those writes whose entries are in the streams.

    An entry with the same id and other fields was added by another writer.

    Args:
        writes: results of `add_command`.
        pages: entries as [id, fields] by key.
    """
    stored = {(key, entry): fields for key, page in pages.items() for entry, fields in page}
    return [
        (key, entry_id)
        for _, key, _, entry_id, *fields in writes
        if stored.get((str(key), entry_id)) == [_encoded(value) for value in fields]
    ]


def _encoded(value: RedisValue) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _check_added(name: str, replies: list[Any]) -> None:
    """Raise RedisFailedError unless all entries of a batch were added to existing streams."""
    if any(reply is None for reply in _checked(replies)):
        raise RedisFailedError(
            f"the stream {name}, or the stream of its batches, was deleted. Restart the broker to "
            "recreate it"
        )


def _checked(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise RedisFailedError(f"Redis rejected a command: {reply}")
    return replies


def _read_batches(entries: list[Any]) -> list[BatchEntry]:
    try:
        return [BatchEntry.read(fields) for _, fields in entries]
    except (ValueError, KeyError) as error:
        raise RedisFailedError(f"batch headers cannot be read: {error}") from error


@dataclass(slots=True, eq=False)
class LogReplication:
    """The replication of one log. A recreated topic has new objects, because offsets can repeat."""

    topic_partition: TopicPartition
    requested: int = 0
    """The end offset of the records that the replicas must have."""
    reached: int = 0
    """The end offset of the records that the replicas have."""


@dataclass(slots=True, eq=False)
class RedisReplicas:
    """Tracks which records Redis's replicas have.

    Args:
        connection: a connection that only this object uses.
        primary: the connection on which records are written.
        journal: the key of the journal, in which a counter is written, because WAIT waits for
            writes.
        replicas: the number of replicas that must have a record.
        on_replicated: called on this object's thread when the replicas have more records of a
            partition.
    """

    _connection: RedisConnection
    _primary: RedisConnection
    _journal: str
    _replicas: int
    _on_replicated: Callable[[TopicPartition], None]
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    # Guarded by `_changed`, like the contents of `LogReplication`:
    _waiting: set[LogReplication] = field(default_factory=set, init=False)
    _stopping: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def request(self, log: LogReplication, offset: int) -> bool:
        """Return True if all records of a log before `offset` are replicated.

        Otherwise, request their replication, and call `on_replicated` later. The first request that
        must wait starts the thread.
        """
        with self._changed:
            if log.reached >= offset:
                return True
            log.requested = max(log.requested, offset)
            self._waiting.add(log)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="kafkaprod-redis-wait", daemon=True
                )
                self._thread.start()
            self._changed.notify()
            return False

    def close(self) -> None:
        """Stop the thread and close the connection."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
        self._connection.close()

    def _run(self) -> None:
        while (requested := self._next()) is not None:
            if not self._wait():
                continue
            with self._changed:
                for log, offset in requested.items():
                    log.reached = offset
                self._waiting = {log for log in self._waiting if log.requested > log.reached}
            for log in requested:
                self._on_replicated(log.topic_partition)

    def _next(self) -> dict[LogReplication, int] | None:
        """Wait for requests and return their offsets, or None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._waiting)
            return None if self._stopping else {log: log.requested for log in self._waiting}

    def _wait(self) -> bool:
        commands = [("HINCRBY", self._journal, WAITS_FIELD, 1), ("WAIT", self._replicas, WAIT_MS)]
        try:
            _, count = _checked(self._connection.pipeline(commands))
        except RedisFailedError as error:
            _LOG.debug("WAIT failed: %s", error)
        else:
            # The records can be on a server that this one has replaced.
            if self._connection.server == self._primary.server is not None:
                return int(count) >= self._replicas
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, WAIT_MS / 1000)
        return False
