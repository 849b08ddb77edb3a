"""The two Redis Streams of a partition.

The first stream contains one entry per record. The second stream contains one entry per batch with
the batch header (`BatchEntry`), which contains producer, sequence, leader epoch and transaction.
Both streams are written in one Redis transaction, so a batch is stored completely or not at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.broker.redis.batch_entry import BatchEntry, build_batches
from spark_kafka_sink.broker.redis.connection import RedisFailedError, check_replies
from spark_kafka_sink.broker.redis.entries import EntryIds, last_id_parts
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.broker.redis.connection import Command, RedisValue
    from spark_kafka_sink.broker.redis.owned_connection import OwnedConnection


_LOG = logging.getLogger(__name__)
_TEMPORARY_GROUP = "kafkaprod::make"
"""A group that exists only while a stream is being created."""
_START = "kafkaprod::start"
"""A group of the batches' stream. Its last delivered id corresponds to the log start offset.

The start cannot be derived from the remaining entries, because there are gaps between batches. A
full Redis accepts a new id for a group, but no new entries or values.
"""
_PAGE = 1_000
"""Maximum number of entries per reply in a paged read."""


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

    def __init__(self, connection: OwnedConnection, ids: EntryIds, keys: StreamKeys) -> None:
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
        for key, kind in self._key_types().items():
            if kind != "none":
                raise RedisFailedError(
                    f"the key {key} exists ({kind}), but the broker's journal does not list it. "
                    "Rename or delete it, or choose another topic name"
                )

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
        for key, kind in self._key_types().items():
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

    def delete_streams(self, *, only_if_empty: bool) -> None:
        """Delete both streams. With `only_if_empty`, delete them only if both are empty."""
        self._connection.newest.pop(self.keys.batches, None)
        if only_if_empty:
            self._connection.call("WATCH", *self.keys)
        types = self._key_types()
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
            words = ("XRANGE", self.keys.batches, self._ids.text(after), "+", "COUNT", _PAGE)
            page = _read_batches(self._connection.call(*words))
            yield from page
            if not page:
                return
            after = page[-1].header.last_offset + 1

    def load_reserved(self) -> bool:
        """Set `reserved` to the smallest unused id. Return True if entries were ever dropped."""
        were_dropped = False
        for key in self.keys:
            stream_info = self._connection.call("XINFO", "STREAM", key)
            values = dict(zip(stream_info[::2], stream_info[1::2], strict=True))
            milliseconds, sequence = last_id_parts(stream_info)
            # Another writer's sequence can exceed sequence_bits. In that case, the addition
            # carries.
            newest = (milliseconds << self._ids.sequence_bits) + sequence
            self.reserved = max(self.reserved, newest + 1)
            # Redis before version 7 does not count added entries.
            were_dropped |= values.get(b"entries-added") != values[b"length"]
        return were_dropped

    def restore_start(self) -> int:
        """Return the log start offset, and complete an interrupted `trim`."""
        is_trimmed = self.load_reserved()
        groups = self._group_positions()
        if _START in groups:
            start = self._ids.read(groups[_START])
            self.trim(start)
            return start
        start = self._first_offset() if is_trimmed else 0
        self._connection.call("XGROUP", "CREATE", self.keys.batches, _START, self._ids.text(start))
        return start

    def write(self, commands: list[Command], span: OffsetSpan) -> None:
        """Write a batch completely or not at all. Call `remove_failed_append` first."""
        try:
            replies = self._connection.transaction(commands)
        except RedisFailedError:
            # Redis might have executed the commands before the reply was lost.
            self._uncertain = commands, span
            if not self._is_applied():
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
                self.load_reserved()
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
        batches = self.keys.batches
        mark = self._ids.text(self.reserved)
        (reply,) = self._connection.pipeline([("XSETID", batches, mark)])
        if isinstance(reply, Exception):
            _LOG.debug("cannot advance the last id of %s: %s", batches, reply)
            return
        self.remember(self.reserved)
        self.reserved += 1

    def remove_failed_append(self) -> None:
        """Ensure that the batch of a failed write does not exist."""
        if self._uncertain is not None:
            writes, _ = self._uncertain
            if self._invalidate_uncertain_write():
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
            while entries := self._connection.call("XREVRANGE", key, last, first, "COUNT", _PAGE):
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
        check_replies(self._connection.pipeline([store, *commands])[1:])

    def read(self, span: OffsetSpan) -> tuple[list[memoryview], bool]:
        """Return the batches in a span, and True if all their records exist."""
        ends = tuple(self._ids.text(offset) for offset in span)
        commands: list[Command] = [("XRANGE", key, *ends) for key in self.keys]
        entries, batch_entries = check_replies(self._connection.pipeline(commands))
        try:
            stored = _read_batches(batch_entries)
            batches = build_batches(stored, entries, self._ids)
        except ValueError as error:
            raise RedisFailedError(f"{self.keys.records} cannot be read: {error}") from error
        counts = [BatchHeader.parse(data).record_count for data in batches]
        return batches, counts == [entry.header.record_count for entry in stored]

    def _key_types(self) -> dict[str, str]:
        replies = check_replies(self._connection.pipeline([("TYPE", key) for key in self.keys]))
        return {key: reply.decode() for key, reply in zip(self.keys, replies, strict=True)}

    def _create_streams(self, keys: Sequence[str], *commands_after: Command) -> None:
        commands: list[Command] = []
        for key in keys:
            # Creating a group creates its stream; no other command creates an empty stream.
            commands.append(("XGROUP", "CREATE", key, _TEMPORARY_GROUP, "0", "MKSTREAM"))
            commands.append(("XGROUP", "DESTROY", key, _TEMPORARY_GROUP))
        check_replies(self._connection.transaction([*commands, *commands_after]))

    def _group_positions(self) -> dict[str, bytes]:
        """Return the last delivered id of each group of the batches' stream, by name."""
        replies = self._connection.call("XINFO", "GROUPS", self.keys.batches)
        groups = (dict(zip(reply[::2], reply[1::2], strict=True)) for reply in replies)
        return {group[b"name"].decode(): group[b"last-delivered-id"] for group in groups}

    def _first_offset(self) -> int:
        first = next(self.batch_entries(), None)
        return self.reserved if first is None else first.header.base_offset

    def _delete_leftovers(self) -> None:
        if self._leftovers:
            check_replies(self._connection.transaction(self._leftovers))
            self.mark_deletion()
        self._leftovers = []

    def _is_applied(self) -> bool:
        """Return True if a batch is known to be written although the reply was lost.

        If only a part of it was written, delete this part.
        """
        try:
            is_written = self._invalidate_uncertain_write()
            self._delete_leftovers()
        except RedisFailedError as error:
            _LOG.debug("cannot check whether %s has a batch: %s", self.keys.records, error)
            return False
        return is_written

    def _invalidate_uncertain_write(self) -> bool:
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
        pages = check_replies(self._connection.transaction(commands)[: len(self.keys)])
        self.reserved = max(self.reserved, span.last + 1)
        self._uncertain = None
        ours = _find_written(writes, dict(zip(self.keys, pages, strict=True)))
        if len(ours) == len(writes):
            return True
        self._leftovers = [("XDEL", key, entry_id) for key, entry_id in ours]
        return False


def add_command(key: str, entry_id: bytes, fields: Sequence[RedisValue]) -> Command:
    """Return the command that adds an entry to a stream, without creating the stream."""
    return ("XADD", key, "NOMKSTREAM", entry_id, *fields)


def _find_written(
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
        if stored.get((str(key), entry_id)) == [_redis_bytes(value) for value in fields]
    ]


def _redis_bytes(value: RedisValue) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _check_added(name: str, replies: list[Any]) -> None:
    """Raise RedisFailedError unless all entries of a batch were added to existing streams."""
    if any(reply is None for reply in check_replies(replies)):
        raise RedisFailedError(
            f"the stream {name}, or the stream of its batches, was deleted. Restart the broker to "
            "recreate it"
        )


def _read_batches(entries: list[Any]) -> list[BatchEntry]:
    try:
        return [BatchEntry.read(fields) for _, fields in entries]
    except (ValueError, KeyError) as error:
        raise RedisFailedError(f"batch headers cannot be read: {error}") from error
