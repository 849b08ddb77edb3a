"""The messages of the decision log: keys, chunks, and the latest record of each scope.

The topic stores one record per scope, split into chunks if it is large:

====================  ===========================================================================
key                   value
====================  ===========================================================================
``orders/stream``     a record (`decision_record`), or null if it was removed
``orders/stream#2``   ``{"version": 1, "set": "1f…", "chunk": 2, "chunks": 3, "text": "…"}``, or
                      null if a later record does not use this chunk
====================  ===========================================================================

All chunks of a record are appended in one transaction and share a random id. The latest complete
record of a scope is the valid one. A record that replaces another record is appended together with
a null for each chunk key that the new record does not use, so that compaction removes those chunks.
Compaction keeps the latest value of each key: an incomplete set of chunks belongs to a record that
was replaced later.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, from_text, to_text
from spark_kafka_sink.exactly_once.json_fields import VERSION, malformed, parse_object
from spark_kafka_sink.exactly_once.scope_state import NoDecision
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    ScopeKind,
    driver_transactional_id,
    parse_driver_id,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

MAX_VALUE = 500_000
"""Maximum size of a value in bytes, well below the default message.max.bytes of 1 MiB."""
_ENVELOPE = 200
"""Maximum size in bytes of the JSON that surrounds a chunk's part of the text."""
_MAX_CHUNKS = 10_000
Message = tuple[bytes, bytes | None]
"""Key and value to append."""
_BATCH_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
"""A batch number of Spark, which is a long."""


def messages_of(scope: Scope, record: DecisionRecord, limit: int = MAX_VALUE) -> list[Message]:
    """Return the messages that store this record for the scope, to be appended in one transaction.

    Args:
        scope: scope of the record.
        record: the new record of the scope.
        limit: maximum size of a value in bytes.
    """
    key, text = driver_transactional_id(scope), to_text(record)
    if len(text) <= limit:
        return [(key.encode(), text.encode())]
    step = (limit - _ENVELOPE) // 2  # JSON escapes a quotation mark as two bytes.
    parts = [text[start : start + step] for start in range(0, len(text), step)]
    common = {"version": VERSION, "set": token_hex(8), "chunks": len(parts)}
    return [
        (f"{key}#{chunk}".encode(), json.dumps({**common, "chunk": chunk, "text": part}).encode())
        for chunk, part in enumerate(parts)
    ]


def replacing(
    scope: Scope, record: DecisionRecord | None, chunks: Collection[int]
) -> list[Message]:
    """Return the messages that replace all records of the scope, to be appended in one transaction.

    Args:
        scope: scope of the record.
        record: the new record of the scope; None to remove the scope's record.
        chunks: numbers of the scope's chunks that the log might contain. The key of each chunk
            that the new record does not use is set to null; otherwise compaction would never remove
            the chunk.
    """
    key = driver_transactional_id(scope)
    messages = [(key.encode(), None)] if record is None else messages_of(scope, record)
    used = {name for name, _ in messages}
    unused = (f"{key}#{chunk}".encode() for chunk in sorted(chunks))
    return [*messages, *((name, None) for name in unused if name not in used)]


def chunks_of(messages: Iterable[Message]) -> frozenset[int]:
    """Return the numbers of the scope's chunks that the log contains after these messages."""
    keys = (_parse_key(name) for name, value in messages if value is not None)
    return frozenset(key[1] for key in keys if key is not None and key[1] is not None)


@dataclass(slots=True)
class _Chunks:
    """The chunks of one record that have been read so far."""

    set_id: str
    expected: int
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Latest:
    """The latest complete record of a scope as unparsed text, or why it is unreadable."""

    offset: int
    text: str
    problem: TransactionError | None = None


def _number_of(scope: Scope) -> int | None:
    """Return the batchId as a number, or None if it is not a decimal number."""
    is_number = scope.kind is ScopeKind.BATCH and _BATCH_NUMBER.fullmatch(scope.name)
    return int(scope.name) if is_number else None


def _is_of_foreach_batch(record: DecisionRecord | None) -> bool:
    """Return True if foreachBatch has written the batch, and its run is known."""
    if record is None or isinstance(record.state, NoDecision):
        return False
    return bool(record.state.plannings)


class DecisionRecords:
    """The latest record of each scope, collected from the log's messages in offset order.

    Messages whose key does not belong to a scope are ignored. An unreadable message with a scope's
    key is an error for that scope until a readable record follows.
    """

    __slots__ = ("_chunk_keys", "_chunks", "_latest", "_topic")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._latest: dict[Scope, _Latest] = {}
        self._chunks: dict[Scope, _Chunks] = {}
        self._chunk_keys: dict[Scope, set[int]] = {}

    def add(self, messages: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Add the messages that follow (offset, key, value), in offset order."""
        for offset, key, value in messages:
            parsed_key = _parse_key(key)
            if parsed_key is None:
                continue
            scope, chunk = parsed_key
            try:
                self._add_message(scope, chunk, offset, value)
            except TransactionError as problem:
                self._latest[scope] = _Latest(offset, "", problem)

    def snapshot(self) -> DecisionRecords:
        """Return the records read so far; messages that are added later do not change it."""
        snapshot = DecisionRecords(self._topic)
        snapshot._latest = dict(self._latest)
        snapshot._chunk_keys = {scope: set(keys) for scope, keys in self._chunk_keys.items()}
        return snapshot

    def latest(self, scope: Scope) -> DecisionRecord | None:
        """Return the valid record of a scope, or None if the log has none.

        Raises:
            TransactionError: the record's version is not supported, or this package did not write
                the record.
        """
        latest = self._latest.get(scope)
        if latest is None:
            return None
        try:
            if latest.problem is not None:
                raise latest.problem
            return from_text(latest.text)
        except TransactionError as error:
            raise TransactionError(
                f"{error.message}, at offset {latest.offset}",
                topic=self._topic,
                partition=0,
                hint=error.hint,
            ) from error

    def chunk_keys(self, scope: Scope) -> frozenset[int]:
        """Return the numbers of the chunks that have a value in the log."""
        return frozenset(self._chunk_keys.get(scope, ()))

    def scopes(self, prefix: str) -> Iterator[Scope]:
        """Return the scopes with this prefix that have a record."""
        return (scope for scope in self._latest if scope.prefix == prefix)

    def has_later_batch(self, scope: Scope) -> bool:
        """Return True if foreachBatch has written a later batch with this prefix and destination.

        A batch is later if its batchId is a higher number. BatchIds that are not decimal numbers
        are not compared. Batch jobs do not count, because they may run in any order.

        Raises:
            TransactionError: the record of a later batch cannot be parsed.
        """
        number = _number_of(scope)
        if number is None:
            return False
        later = (
            other
            for other in self.scopes(scope.prefix)
            if other.kind is scope.kind
            and other.destination == scope.destination
            and (_number_of(other) or 0) > number
        )
        return any(_is_of_foreach_batch(self.latest(other)) for other in later)

    def _add_message(
        self, scope: Scope, chunk: int | None, offset: int, value: bytes | None
    ) -> None:
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
            raise malformed("invalid UTF-8") from error
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
        """Add a chunk; return the record's text if this was the last chunk, otherwise None."""
        fields = parse_object(text)
        set_id, expected = fields.text("set"), fields.number("chunks", _MAX_CHUNKS)
        if fields.number("chunk") != chunk or chunk >= expected:
            raise malformed("a chunk is stored under another chunk's key")
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


def scope_of(key: bytes | None) -> Scope | None:
    """Return the scope of a message's key, or None if the key does not belong to a scope."""
    parsed_key = _parse_key(key)
    return None if parsed_key is None else parsed_key[0]


def _parse_key(key: bytes | None) -> tuple[Scope, int | None] | None:
    """Return the scope and the chunk number (None for a whole record); None for any other key."""
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
