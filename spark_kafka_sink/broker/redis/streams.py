"""The two Redis Streams of a partition: its records, and the headers of its batches.

Both are written in one Redis transaction, so a batch is there whole or not at all.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.broker.redis.batches import BatchNote, build_batches
from spark_kafka_sink.broker.redis.connection import RedisFailedError
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.broker.redis.connection import Command, RedisConnection
    from spark_kafka_sink.broker.redis.entry_ids import EntryIds

LOG = logging.getLogger(__name__)
_GROUP = "kafkaprod::make"
PAGE = 1_000
"""Entries read at a time where all are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamKeys:
    """The keys of a partition's records and of its batches' headers."""

    records: str
    batches: str

    @property
    def both(self) -> tuple[str, str]:
        """The two streams."""
        return self.records, self.batches


class OffsetSpan(NamedTuple):
    """Offsets from the first to the last, both included."""

    first: int
    last: int


class RedisStreams:
    """Writes and reads batches by their offsets.

    Every method raises RedisFailedError, an OSError, when Redis can't.
    """

    __slots__ = ("_connection", "_ids", "_unsure", "keys", "reserved")

    def __init__(self, connection: RedisConnection, ids: EntryIds, keys: StreamKeys) -> None:
        self._connection = connection
        self._ids = ids
        self.keys = keys
        self.reserved = 0
        """Redis takes no id below that of this offset."""
        self._unsure: OffsetSpan | None = None

    def check_vacant(self) -> None:
        """Check that neither stream is there; RedisFailedError if one is."""
        for key, kind in self._types().items():
            if kind != "none":
                raise RedisFailedError(
                    f"the key {key} exists ({kind}), but the broker's journal does not list it. "
                    "Rename or delete it, or give the topic another name"
                )

    def _types(self) -> dict[str, str]:
        replies = _checked(self._connection.pipeline([("TYPE", key) for key in self.keys.both]))
        return {key: reply.decode() for key, reply in zip(self.keys.both, replies, strict=True)}

    def begin(self) -> None:
        """Begin both streams, without an entry; RedisFailedError if one is there."""
        self._connection.call("WATCH", *self.keys.both)
        try:
            self.check_vacant()
        except RedisFailedError:
            self._connection.call("UNWATCH")
            raise
        self._make(self.keys.both)

    def reopen(self) -> None:
        """Begin the streams that are missing.

        Raises:
            ConfigError: a key is not a stream.
        """
        missing = []
        for key, kind in self._types().items():
            if kind == "none":
                LOG.warning("the stream %s is missing: its records are lost", key)
                missing.append(key)
            elif kind != "stream":
                raise ConfigError(
                    f"the key {key} is a {kind}, but the broker's journal lists it as a stream",
                    hint="Nothing was changed. Rename or delete the key, or give another prefix",
                )
        if missing:
            self._make(missing)

    def _make(self, keys: Sequence[str]) -> None:
        commands: list[Command] = []
        for key in keys:
            # Making a group makes its stream; no other command makes an empty one.
            commands.append(("XGROUP", "CREATE", key, _GROUP, "0", "MKSTREAM"))
            commands.append(("XGROUP", "DESTROY", key, _GROUP))
        _checked(self._connection.transaction(commands))

    def drop(self, *, only_if_empty: bool) -> None:
        """Delete both streams, or none if one of them must be empty and is not."""
        if only_if_empty:
            self._connection.call("WATCH", *self.keys.both)
        types = self._types()
        streams = [key for key, kind in types.items() if kind == "stream"]
        for key in types.keys() - set(streams):
            if types[key] != "none":
                LOG.warning("%s is kept: it is a %s, not a stream", key, types[key])
        if only_if_empty and any(self._connection.call("XLEN", key) for key in streams):
            streams = []
        # It also ends WATCH; if another client has changed a stream since, nothing is deleted.
        self._connection.transaction([("DEL", key) for key in streams])

    def notes(self) -> Iterator[BatchNote]:
        """Every batch's header, in order."""
        after = 0
        while True:
            words = ("XRANGE", self.keys.batches, self._ids.text(after), "+", "COUNT", PAGE)
            page = _read_notes(self._connection.call(*words))
            yield from page
            if not page:
                return
            after = page[-1].header.last_offset + 1

    def learn(self) -> bool:
        """Learn which ids are used up; whether anything was ever dropped."""
        dropped = False
        for key in self.keys.both:
            info = self._connection.call("XINFO", "STREAM", key)
            found = dict(zip(info[::2], info[1::2], strict=True))
            milliseconds, _, sequence = found[b"last-generated-id"].partition(b"-")
            # Another writer's sequence may need more bits than there are: then it carries.
            newest = (int(milliseconds) << self._ids.sequence_bits) + int(sequence)
            self.reserved = max(self.reserved, newest + 1)
            # Before version 7, Redis does not count what was added.
            dropped = dropped or found.get(b"entries-added") != found[b"length"]
        return dropped

    def write(self, commands: list[Command], span: OffsetSpan) -> None:
        """Add a batch, all of it or nothing; `settle` has to come before."""
        try:
            replies = self._connection.transaction(commands)
        except RedisFailedError:
            # Whether it was applied is not known when only the answer is lost.
            self._unsure = span
            if not self._resolve(span):
                raise
            self._unsure = None
            return
        try:
            _checked(replies)
        except RedisFailedError:
            self.delete(span)
            self.learn()
            raise

    def _resolve(self, span: OffsetSpan) -> bool:
        """Whether a batch was written although its reply was lost; False also if unknown."""
        try:
            kept = self._fence(span)
        except RedisFailedError as error:
            LOG.debug("whether %s has a batch is not known: %s", self.keys.records, error)
            return False
        if not kept:
            self._unsure = None
        return kept

    def _fence(self, span: OffsetSpan) -> bool:
        """Raise the last ids so that a lost write can't be applied late; whether it was applied."""
        base, last = (self._ids.text(offset) for offset in span)
        commands: list[Command] = [("XRANGE", self.keys.batches, base, base)]
        commands += [("XSETID", key, last) for key in self.keys.both]
        found = self._connection.transaction(commands)[:1]
        self.reserved = max(self.reserved, span.last + 1)
        return bool(_checked(found)[0])

    def settle(self) -> None:
        """If the outcome of the last write is unknown, make sure that its batch does not exist."""
        if self._unsure is not None:
            if self._fence(self._unsure):
                self.delete(self._unsure)
            self._unsure = None

    def delete(self, span: OffsetSpan) -> None:
        """Delete what lies in a span."""
        first, last = (self._ids.text(offset) for offset in span)
        for key in self.keys.both:
            while found := self._connection.call("XRANGE", key, first, last, "COUNT", PAGE):
                self._connection.call("XDEL", key, *(entry[0] for entry in found))

    def trim(self, offset: int) -> None:
        """Delete everything before an offset."""
        least = self._ids.text(offset)
        commands: list[Command] = [("XTRIM", key, "MINID", least) for key in self.keys.both]
        _checked(self._connection.transaction(commands))

    def read(self, span: OffsetSpan) -> list[memoryview]:
        """The batches in a span, one piece each."""
        ends = tuple(self._ids.text(offset) for offset in span)
        commands: list[Command] = [("XRANGE", key, *ends) for key in self.keys.both]
        entries, notes = _checked(self._connection.pipeline(commands))
        try:
            return build_batches(_read_notes(notes), entries, self._ids)
        except ValueError as error:
            raise RedisFailedError(f"{self.keys.records} can't be read: {error}") from error


def _checked(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise RedisFailedError(f"Redis refused: {reply}")
    return replies


def _read_notes(entries: list[Any]) -> list[BatchNote]:
    try:
        return [BatchNote.read(fields) for _, fields in entries]
    except (ValueError, KeyError) as error:
        raise RedisFailedError(f"the headers of batches can't be read: {error}") from error
