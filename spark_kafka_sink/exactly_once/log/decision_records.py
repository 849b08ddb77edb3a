"""What the decision log's topic holds: a record for each scope, in chunks where it is large.

====================  ===========================================================================
key                   value
====================  ===========================================================================
``orders/stream``     a record, see `decision_format`; or null: the scope is forgotten
``orders/stream#2``   ``{"version": 1, "set": "1f…", "chunk": 2, "chunks": 3, "text": "…"}``;
                      or null: a later record has replaced that of the chunk
====================  ===========================================================================

All chunks of a record are appended in one transaction and have a random id in common. The latest
complete record of a scope is the one that holds; an earlier version's of the batch counts for the
first of its writes that finds it. A record that replaces it is appended with a null
for each chunk's key that it does not use itself, so that compaction removes the chunks. Compaction
leaves the latest value of each key: chunks without their first or last ones are of a record that a
later one has replaced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.log.decision_format import from_text, to_text
from spark_kafka_sink.exactly_once.log.json_object import VERSION, malformed, parse_object
from spark_kafka_sink.exactly_once.log_state import Decided, Nothing
from spark_kafka_sink.exactly_once.transactional_id import driver_id, parse_driver_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from spark_kafka_sink.exactly_once.log.decision import Record
    from spark_kafka_sink.exactly_once.scope import Scope

MAX_VALUE: Final = 500_000
"""Bytes of a value: below what any topic takes, message.max.bytes being 1 MiB by default."""
_ENVELOPE: Final = 200
"""Bytes of a chunk around its text, at most."""
_MAX_CHUNKS: Final = 10_000

Message = tuple[bytes, bytes | None]
"""Key and value, as they are appended."""


def messages_of(scope: Scope, record: Record, limit: int = MAX_VALUE) -> list[Message]:
    """What has to be appended, in one transaction, for the scope to have this record.

    Args:
        scope: whose record it is.
        record: what to say of the scope.
        limit: bytes of a value.
    """
    key, text = driver_id(scope), to_text(record)
    if len(text) <= limit:
        return [(key.encode(), text.encode())]
    step = (limit - _ENVELOPE) // 2  # a quotation mark in the text takes two bytes of a chunk
    parts = [text[start : start + step] for start in range(0, len(text), step)]
    common = {"version": VERSION, "set": token_hex(8), "chunks": len(parts)}
    return [
        (f"{key}#{chunk}".encode(), json.dumps({**common, "chunk": chunk, "text": part}).encode())
        for chunk, part in enumerate(parts)
    ]


def replacing(scope: Scope, record: Record | None, chunks: Collection[int]) -> list[Message]:
    """What has to be appended, in one transaction, for the scope to have this record alone.

    Args:
        scope: whose record it is.
        record: as `messages_of` has it; None for the scope to have no record any more.
        chunks: the chunks that the log may have under the scope's keys. Each key that the record
            does not use is set to null, or the log would keep the chunk forever.
    """
    key = driver_id(scope)
    messages = [(key.encode(), None)] if record is None else messages_of(scope, record)
    used = {name for name, _ in messages}
    unused = (f"{key}#{chunk}".encode() for chunk in sorted(chunks))
    return [*messages, *((name, None) for name in unused if name not in used)]


def chunks_of(messages: Iterable[Message]) -> frozenset[int]:
    """The chunks that are in the log once these messages are, if no other message follows."""
    keys = (_parse_key(key) for key, value in messages if value is not None)
    return frozenset(found[1] for found in keys if found is not None and found[1] is not None)


@dataclass(slots=True)
class _Chunks:
    """The chunks of one record, as far as they have come, without a gap."""

    set_id: str
    expected: int
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Latest:
    """The latest complete record of a scope, not parsed yet, or why it can't be read."""

    offset: int
    text: str
    problem: TransactionError | None = None


class DecisionRecords:
    """The latest record of each scope, from the messages of the decision log, in their order.

    Bytes of strangers under keys of their own are passed over; under a scope's key they are an
    error for that scope, until a readable record follows.
    """

    __slots__ = ("_chunk_keys", "_chunks", "_latest", "_topic")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._latest: dict[Scope, _Latest] = {}
        self._chunks: dict[Scope, _Chunks] = {}
        self._chunk_keys: dict[Scope, set[int]] = {}

    def add(self, messages: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Take the messages that follow those taken before: offset, key, value."""
        for offset, key, value in messages:
            found = _parse_key(key)
            if found is None:
                continue
            scope, chunk = found
            try:
                self._add(scope, chunk, offset, value)
            except TransactionError as problem:
                self._latest[scope] = _Latest(offset, "", problem)

    def latest(self, scope: Scope) -> Record | None:
        """The record that holds for a scope; None where nothing was ever decided.

        Raises:
            TransactionError: it is of a newer version, or nothing that this package writes.
        """
        earlier = self.undistinguished(scope)
        return self._record(scope) if earlier is None else self._record(earlier)

    def undistinguished(self, scope: Scope) -> Scope | None:
        """The scope of an earlier version whose record holds for this one, if there is one.

        Those versions had one record for all writes with a batchId. It belongs to the scope that
        finds it first and replaces it; a decision that names other topics never does.
        """
        earlier = scope.undistinguished
        if earlier is None or scope in self._latest:
            return None
        record = self._record(earlier)
        return earlier if record is not None and _may_be_of(record, scope) else None

    def _record(self, scope: Scope) -> Record | None:
        found = self._latest.get(scope)
        if found is None:
            return None
        try:
            if found.problem is not None:
                raise found.problem
            return from_text(found.text)
        except TransactionError as error:
            raise TransactionError(
                f"{error.message}, at offset {found.offset}",
                topic=self._topic,
                partition=0,
                hint=error.hint,
            ) from error

    def chunk_keys(self, scope: Scope) -> frozenset[int]:
        """The chunks whose keys have a value in the log."""
        return frozenset(self._chunk_keys.get(scope, ()))

    def scopes(self, prefix: str) -> Iterator[Scope]:
        """The scopes under a prefix that have a record."""
        return (scope for scope in self._latest if scope.prefix == prefix)

    def _add(self, scope: Scope, chunk: int | None, offset: int, value: bytes | None) -> None:
        if chunk is not None:
            self._note_chunk_key(scope, chunk, exists=value is not None)
        if value is None:
            self._chunks.pop(scope, None)
            if chunk is None:
                self._latest.pop(scope, None)
            return
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise malformed("no UTF-8") from error
        if chunk is None:
            self._chunks.pop(scope, None)
            self._latest[scope] = _Latest(offset, text)
        elif (whole := self._add_chunk(scope, chunk, text)) is not None:
            self._latest[scope] = _Latest(offset, whole)

    def _note_chunk_key(self, scope: Scope, chunk: int, *, exists: bool) -> None:
        if exists:
            self._chunk_keys.setdefault(scope, set()).add(chunk)
        elif scope in self._chunk_keys:
            self._chunk_keys[scope].discard(chunk)
            if not self._chunk_keys[scope]:
                del self._chunk_keys[scope]

    def _add_chunk(self, scope: Scope, chunk: int, text: str) -> str | None:
        """The text of the record that this chunk completes."""
        fields = parse_object(text)
        set_id, expected = fields.text("set"), fields.number("chunks", _MAX_CHUNKS)
        if fields.number("chunk") != chunk or chunk >= expected:
            raise malformed("a chunk under another chunk's key")
        if chunk == 0:
            self._chunks[scope] = _Chunks(set_id, expected)
        chunks = self._chunks.get(scope)
        if chunks is None or (chunks.set_id, chunks.expected) != (set_id, expected):
            return None
        if len(chunks.texts) != chunk:
            del self._chunks[scope]
            return None
        chunks.texts.append(fields.text("text"))
        if len(chunks.texts) < expected:
            return None
        del self._chunks[scope]
        return "".join(chunks.texts)


def _may_be_of(record: Record, scope: Scope) -> bool:
    """Whether an earlier version may have decided this write with the record."""
    state, topic = record.state, None if scope.target is None else scope.target.topic
    if not isinstance(state, Decided) or topic is None:
        return not isinstance(state, Nothing)
    if any(each.unnamed_partitions for each in state.transactions):
        return True
    return any(topic == each.topic for task in state.transactions for each in task.partitions)


def scope_of(key: bytes | None) -> Scope | None:
    """The scope that a message of the log is about; None for a message of somebody else."""
    found = _parse_key(key)
    return None if found is None else found[0]


def _parse_key(key: bytes | None) -> tuple[Scope, int | None] | None:
    """The scope, and the chunk if it is one's key; None for a key of somebody else."""
    if key is None:
        return None
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    base, mark, chunk = text.partition("#")
    scope = parse_driver_id(base)
    if scope is None or not mark:
        return None if scope is None else (scope, None)
    if not (chunk.isascii() and chunk.isdigit() and len(chunk) <= len(str(_MAX_CHUNKS))):
        return None
    return scope, int(chunk)
