"""Records of the decision log: their content, JSON form and chunks.

Each record is one JSON object without line breaks, and its fields are checked when it is read.
Version 1 has three types of record::

    {"version": 1, "type": "decided", "query": "6b0c…", "batch": "17", "retired": [], "at": 1763…,
     "rows": 5210,
     "transactions": [{"id": "orders/stream/6b0c…/17/…", "producer": 4000, "epoch": 0,
                       "protocol": 2, "started": 1763…, "timeout": 900000,
                       "partitions": {"events": [[0, 5210, 17, 9120]]}}]}
    {"version": 1, "type": "done", "query": "6b0c…", "batch": "17", "retired": [], "at": 1763…,
     "rows": 41880, "plannings": [["0e4a…", "3fa9…"]],
     "transactions": 8, "records": 41877}

    {"version": 1, "type": "nothing", "at": 1763…, "given_up": ["9f2c…"]}

- "rows": number of rows that Spark passed to the tasks; missing if not every task counted its rows
- "topics": topics that the rows of a write with a batchId specify
- "plannings": run id and nonce of each planning in which foreachBatch wrote the batch or found it
  written
- "partitions": for each topic, a list of [partition, record count, first offset, last offset];
  unknown offsets are null
- "unnamed": counts of the partitions that are not listed because there are too many, and of their
  records
- "fates": for a torn batch, the fate of each transaction, in the same order
- "given_up": nonces of the plannings that abort() has given up since the last decision

Records of a newer version are rejected, because misreading a decision could lose or duplicate a
batch.

The topic stores one record per scope, split into chunks if it is large:

====================  ===========================================================================
key                   value
====================  ===========================================================================
``orders/stream``     a record as above, or null if the record was removed
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
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NoReturn, cast

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.config.option import MAX_LONG
from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    ScopeKind,
    driver_id,
    parse_driver_id,
)
from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction, TransactionVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


VERSION: Final = 1
"""Version of the log's records; records with a higher version are rejected."""
_UPGRADE: Final = (
    "Run the query with a version of this package that supports it: an older version could misread "
    "the decision"
)
DecidedBatch = decision_rules.Decided[TaskTransaction]
"""The decision that a batch consists of exactly these transactions."""
ScopeState = decision_rules.LogState[TaskTransaction]
"""State of a scope according to the log."""
MAX_VALUE: Final = 500_000
"""Maximum size of a value in bytes, well below the default message.max.bytes of 1 MiB."""
_ENVELOPE: Final = 200
"""Maximum size in bytes of the JSON that surrounds a chunk's part of the text."""
_MAX_CHUNKS: Final = 10_000
Message = tuple[bytes, bytes | None]
"""Key and value to append."""
_BATCH_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
"""A batch number of Spark, which is a long."""


class JsonObject:
    """A JSON object whose fields are checked when they are read.

    All methods raise a `TransactionError` if the field is missing or has a different type.
    """

    __slots__ = ("_fields",)

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise malformed("not an object")
        self._fields = cast("dict[str, object]", value)

    def has(self, name: str) -> bool:
        """Return True if the field exists."""
        return name in self._fields

    def value(self, name: str) -> object:
        """Return a field of any type."""
        if name not in self._fields:
            raise malformed(f"field {name} is missing")
        return self._fields[name]

    def text(self, name: str) -> str:
        """Return a text field."""
        return text_of(self.value(name), name)

    def text_or_none(self, name: str) -> str | None:
        """Return a field that is text or null."""
        value = self.value(name)
        return None if value is None else text_of(value, name)

    def number(self, name: str, highest: int = MAX_LONG) -> int:
        """Return an integer field with a value from 0 to `highest`."""
        return number_of(self.value(name), name, highest)

    def array(self, name: str) -> list[object]:
        """Return a list field."""
        return list_of(self.value(name), name)

    def nested(self, name: str) -> JsonObject:
        """Return a field that is an object."""
        return JsonObject(self.value(name))

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield all fields as (name, value)."""
        for name, value in self._fields.items():
            yield text_of(name, "a name"), value


def parse_object(text: str) -> JsonObject:
    """Parse a JSON object of a supported version.

    Raises:
        TransactionError: the text is not a JSON object, or its version is not supported.
    """
    try:
        fields = JsonObject(json.loads(text, parse_constant=_reject_constant))
    except (ValueError, RecursionError) as error:
        raise malformed("invalid JSON") from error
    version = fields.number("version")
    if version > VERSION:
        raise TransactionError(
            f"the decision log contains a record of version {version}, but this package supports "
            f"only versions up to {VERSION}",
            hint=_UPGRADE,
        )
    if version < 1:
        raise malformed(f"invalid version {version}")
    return fields


def text_of(value: object, name: str) -> str:
    """Return the value; raise an error unless it is a string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise malformed(f"{name} is not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise malformed(f"{name} is not UTF-8") from error
    return value


def number_of(value: object, name: str, highest: int = MAX_LONG) -> int:
    """Return the value; raise an error unless it is an integer from 0 to `highest`."""
    if type(value) is not int or not 0 <= value <= highest:
        raise malformed(f"{name} is not an integer in the allowed range")
    return value


def list_of(value: object, name: str) -> list[object]:
    """Return the value; raise an error unless it is a list."""
    if not isinstance(value, list):
        raise malformed(f"{name} is not a list")
    return cast("list[object]", value)


def _reject_constant(name: str) -> NoReturn:
    raise malformed(f"{name} is not a valid JSON number")


def malformed(what: str) -> TransactionError:
    """Return the error for a record that this package cannot have written."""
    return TransactionError(
        f"the decision log contains a record that this package did not write: {what}",
        hint="Find the other application that writes to the topic; no batch can be written until "
        "the log is repaired.",
    )


class Fate(StrEnum):
    """The outcome of a transaction whose batch was decided."""

    COMMITTED = "committed"
    LOST = "lost"
    """Aborted by the broker, usually because the transaction timed out before the driver ended it.
    """
    UNKNOWN = "unknown"
    """The outcome could not be determined: the coordinator does not report it, and no marker was
    found in the topics.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """State of a scope as stored in the log, with details for operators.

    Raises:
        ValueError: there are fates, but not exactly one for each decided transaction.
    """

    state: ScopeState
    at_ms: int
    """When the driver wrote the record, by its clock, in milliseconds since 1970."""
    transactions: int
    """Number of transactions in the batch."""
    records: int
    """Number of records in these transactions."""
    fates: tuple[Fate, ...] = ()
    """If the batch is torn, the fate of each transaction in the order of the decision."""

    def __post_init__(self) -> None:
        decided = self.state.transactions if isinstance(self.state, decision_rules.Decided) else ()
        if self.fates and len(self.fates) != len(decided):
            raise ValueError("each transaction of a torn batch must have one fate")

    @classmethod
    def of(cls, decided: DecidedBatch, at_ms: int, fates: tuple[Fate, ...] = ()) -> DecisionRecord:
        """Return the record of a decision; the batch is torn if there are fates."""
        return cls(
            state=decided,
            at_ms=at_ms,
            transactions=len(decided.transactions),
            records=sum(transaction.records for transaction in decided.transactions),
            fates=fates,
        )

    @classmethod
    def done(cls, decided: DecidedBatch, at_ms: int) -> DecisionRecord:
        """Return the record that marks all transactions in a decision as committed."""
        return cls(
            state=decision_rules.finished(decided),
            at_ms=at_ms,
            transactions=len(decided.transactions),
            records=sum(transaction.records for transaction in decided.transactions),
        )

    @property
    def is_torn(self) -> bool:
        """True if only some of the batch's transactions were committed, and the others are lost."""
        return bool(self.fates)


def to_text(record: DecisionRecord) -> str:
    """Return the record as JSON in ASCII, so that the text can be split at any position."""
    return json.dumps({"version": VERSION, **_to_json(record)}, separators=(",", ":"))


def from_text(text: str) -> DecisionRecord:
    """Parse a record.

    Raises:
        TransactionError: the text is not a valid record, or its version is not supported.
    """
    return _from_json(parse_object(text))


def _to_json(record: DecisionRecord) -> dict[str, object]:
    state = record.state
    if isinstance(state, decision_rules.Nothing):
        return {"type": "nothing", "at": record.at_ms, "given_up": state.given_up}
    common = {
        "query": state.query,
        "batch": state.batch,
        "retired": state.retired,
        "at": record.at_ms,
        **({} if state.rows is None else {"rows": state.rows}),
        **({} if state.topics is None else {"topics": state.topics}),
        **({"plannings": _plannings_to_json(state.plannings)} if state.plannings else {}),
    }
    if isinstance(state, decision_rules.Done):
        counts = {"transactions": record.transactions, "records": record.records}
        marks = {"given_up": state.given_up} if state.given_up else {}
        return {"type": "done", **common, **counts, **marks}
    fates = {"fates": [fate.value for fate in record.fates]} if record.fates else {}
    transactions = [_transaction_to_json(transaction) for transaction in state.transactions]
    return {"type": "decided", **common, **fates, "transactions": transactions}


def _plannings_to_json(plannings: tuple[decision_rules.Planning, ...]) -> list[list[str]]:
    return [[planning.run, planning.nonce] for planning in plannings]


def _transaction_to_json(task: TaskTransaction) -> dict[str, object]:
    partitions: defaultdict[str, list[list[int | None]]] = defaultdict(list)
    for partition in task.partitions:
        line = [
            partition.partition,
            partition.records,
            partition.first_offset,
            partition.last_offset,
        ]
        partitions[partition.topic].append(line)
    unnamed = [task.unnamed_partitions, task.unnamed_records]
    return {
        "id": task.transaction.transactional_id,
        "producer": task.transaction.producer_id,
        "epoch": task.transaction.epoch,
        "protocol": task.transaction.version.value,
        "started": task.started_ms,
        "timeout": task.timeout_ms,
        "partitions": partitions,
        **({"unnamed": unnamed} if task.unnamed_partitions else {}),
    }


def _from_json(fields: JsonObject) -> DecisionRecord:
    kind = fields.text("type")
    given_up = _texts(fields.array("given_up"), "a nonce") if fields.has("given_up") else ()
    if kind == "nothing":
        at_ms = fields.number("at")
        return DecisionRecord(
            state=decision_rules.Nothing(given_up), at_ms=at_ms, transactions=0, records=0
        )
    query, batch, at_ms = fields.text_or_none("query"), fields.text("batch"), fields.number("at")
    retired = tuple(_text_or_none(value) for value in fields.array("retired"))
    rows = fields.number("rows") if fields.has("rows") else None
    plannings = _plannings(fields.array("plannings")) if fields.has("plannings") else ()
    topics = _texts(fields.array("topics"), "a topic") if fields.has("topics") else None
    if kind == "done":
        return DecisionRecord(
            state=decision_rules.Done(query, batch, retired, given_up, rows, plannings, topics),
            at_ms=at_ms,
            transactions=fields.number("transactions"),
            records=fields.number("records"),
        )
    if kind != "decided":
        raise malformed(f"unknown record type {kind[:40]!r}")
    transactions = tuple(_transaction(JsonObject(value)) for value in fields.array("transactions"))
    fates = tuple(_fate(value) for value in fields.array("fates")) if fields.has("fates") else ()
    if fates and len(fates) != len(transactions):
        raise malformed("the numbers of fates and transactions differ")
    decided = decision_rules.Decided(query, batch, transactions, retired, rows, plannings, topics)
    return DecisionRecord.of(decided, at_ms, fates)


def _texts(values: list[object], name: str) -> tuple[str, ...]:
    return tuple(text_of(value, name) for value in values)


def _plannings(values: list[object]) -> tuple[decision_rules.Planning, ...]:
    pairs = [list_of(value, "a planning") for value in values]
    if any(len(pair) != 2 for pair in pairs):
        raise malformed("a planning does not consist of a run and a nonce")
    return tuple(
        decision_rules.Planning(text_of(run, "a run"), text_of(nonce, "a nonce"))
        for run, nonce in pairs
    )


def _transaction(fields: JsonObject) -> TaskTransaction:
    transaction = OpenTransaction(
        transactional_id=fields.text("id"),
        producer_id=fields.number("producer"),
        epoch=fields.number("epoch", highest=2**15 - 1),
        version=_protocol(fields.number("protocol")),
    )
    unnamed = fields.array("unnamed") if fields.has("unnamed") else (0, 0)
    if len(unnamed) != 2:
        raise malformed("the field `unnamed` must contain two numbers")
    return TaskTransaction(
        transaction=transaction,
        started_ms=fields.number("started"),
        timeout_ms=fields.number("timeout"),
        partitions=tuple(_partitions(fields.nested("partitions"))),
        unnamed_partitions=number_of(unnamed[0], "unnamed partitions"),
        unnamed_records=number_of(unnamed[1], "their records"),
    )


def _partitions(topics: JsonObject) -> Iterator[PartitionRange]:
    for topic, lines in topics.items():
        for line in list_of(lines, "partitions"):
            values = list_of(line, "a partition")
            if len(values) != 4:
                raise malformed("a partition must contain four numbers")
            partition, records, first, last = values
            yield PartitionRange(
                topic=topic,
                partition=number_of(partition, "a partition", 2**31 - 1),
                records=number_of(records, "records"),
                first_offset=None if first is None else number_of(first, "an offset"),
                last_offset=None if last is None else number_of(last, "an offset"),
            )


def _text_or_none(value: object) -> str | None:
    return None if value is None else text_of(value, "a query")


def _protocol(number: int) -> TransactionVersion:
    try:
        return TransactionVersion(number)
    except ValueError as error:
        raise malformed("a transaction uses an unknown protocol") from error


def _fate(value: object) -> Fate:
    try:
        return Fate(text_of(value, "a fate"))
    except ValueError as error:
        raise malformed("an unknown fate") from error


def messages_of(scope: Scope, record: DecisionRecord, limit: int = MAX_VALUE) -> list[Message]:
    """Return the messages that store this record for the scope, to be appended in one transaction.

    Args:
        scope: scope of the record.
        record: the new record of the scope.
        limit: maximum size of a value in bytes.
    """
    key, text = driver_id(scope), to_text(record)
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
    key = driver_id(scope)
    messages = [(key.encode(), None)] if record is None else messages_of(scope, record)
    used = {name for name, _ in messages}
    unused = (f"{key}#{chunk}".encode() for chunk in sorted(chunks))
    return [*messages, *((name, None) for name in unused if name not in used)]


def chunks_of(messages: Iterable[Message]) -> frozenset[int]:
    """Return the numbers of the scope's chunks that the log contains after these messages."""
    keys = (_parse_key(key) for key, value in messages if value is not None)
    return frozenset(
        parsed_key[1] for parsed_key in keys if parsed_key is not None and parsed_key[1] is not None
    )


@dataclass(slots=True)
class _Chunks:
    """The chunks of one record that have been read so far."""

    set_id: str
    expected: int
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Latest:
    """The latest complete record of a scope as unparsed text, or the error that occurred."""

    offset: int
    text: str
    problem: TransactionError | None = None


def _number_of(scope: Scope) -> int | None:
    """Return the batchId as a number, or None if it is not a decimal number."""
    is_number = scope.kind is ScopeKind.BATCH and _BATCH_NUMBER.fullmatch(scope.name)
    return int(scope.name) if is_number else None


def _is_of_foreach_batch(record: DecisionRecord | None) -> bool:
    """Return True if foreachBatch has written the batch, and its run is known."""
    if record is None or isinstance(record.state, decision_rules.Nothing):
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
                self._add(scope, chunk, offset, value)
            except TransactionError as problem:
                self._latest[scope] = _Latest(offset, "", problem)

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

    def is_followed(self, scope: Scope) -> bool:
        """Return True if foreachBatch has written a later batch with the same prefix and target.

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
            and other.target == scope.target
            and (_number_of(other) or 0) > number
        )
        return any(_is_of_foreach_batch(self.latest(other)) for other in later)

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
