"""Records of the decision log: their content and JSON form.

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
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.exactly_once.json_fields import (
    VERSION,
    JsonObject,
    list_of,
    malformed,
    number_of,
    parse_object,
    text_of,
    text_or_none,
)
from spark_kafka_sink.exactly_once.scope_state import (
    Decided,
    Done,
    NoDecision,
    Planning,
    ScopeStateOf,
)
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskTransaction
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion

if TYPE_CHECKING:
    from collections.abc import Iterator


DecidedBatch = Decided[TaskTransaction]
"""The decision that a batch consists of exactly these transactions."""
ScopeState = ScopeStateOf[TaskTransaction]
"""State of a scope according to the log."""


class Fate(StrEnum):
    """Whether a transaction of a decided batch was committed or lost."""

    COMMITTED = "committed"
    LOST = "lost"
    """Aborted by the broker, usually because the transaction timed out before the driver ended it.
    """
    UNKNOWN = "unknown"
    """The fate could not be determined: the coordinator does not report it, and no marker was
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
    transactions: int = 0
    """Number of transactions in the batch."""
    records: int = 0
    """Number of records in these transactions."""
    fates: tuple[Fate, ...] = ()
    """If the batch is torn, the fate of each transaction in the order of the decision."""

    def __post_init__(self) -> None:
        decided = self.state.transactions if isinstance(self.state, Decided) else ()
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
        return replace(cls.of(decided, at_ms), state=decided.to_done())

    @property
    def is_torn(self) -> bool:
        """True if only some of the batch's transactions were committed, and the others are lost."""
        return bool(self.fates)


def state_of(record: DecisionRecord | None) -> ScopeState:
    """Return the state of a scope, given its latest record."""
    return NoDecision() if record is None else record.state


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
    if isinstance(state, NoDecision):
        return {"type": "nothing", "at": record.at_ms, "given_up": state.given_up_nonces}
    plannings = [[planning.run_id, planning.nonce] for planning in state.plannings]
    common = {
        "query": state.query_id,
        "batch": state.batch,
        "retired": state.retired_query_ids,
        "at": record.at_ms,
        **({} if state.rows is None else {"rows": state.rows}),
        **({} if state.topics is None else {"topics": state.topics}),
        **({"plannings": plannings} if plannings else {}),
    }
    if isinstance(state, Done):
        counts = {"transactions": record.transactions, "records": record.records}
        marks = {"given_up": state.given_up_nonces} if state.given_up_nonces else {}
        return {"type": "done", **common, **counts, **marks}
    fates = {"fates": [fate.value for fate in record.fates]} if record.fates else {}
    transactions = [_transaction_to_json(transaction) for transaction in state.transactions]
    return {"type": "decided", **common, **fates, "transactions": transactions}


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
    unnamed = [task.unlisted_partitions, task.unlisted_records]
    return {
        "id": task.transaction.transactional_id,
        "producer": task.transaction.producer_id,
        "epoch": task.transaction.epoch,
        "protocol": task.transaction.version.value,
        "started": task.started_ms,
        "timeout": task.timeout_ms,
        "partitions": partitions,
        **({"unnamed": unnamed} if task.unlisted_partitions else {}),
    }


def _from_json(fields: JsonObject) -> DecisionRecord:
    record_type = fields.text("type")
    given_up_nonces = _parse_texts(fields.optional_array("given_up"), "a nonce")
    if record_type == "nothing":
        return DecisionRecord(state=NoDecision(given_up_nonces), at_ms=fields.number("at"))
    retired = fields.array("retired")
    batch: dict[str, Any] = {
        "query_id": text_or_none(fields.value("query"), "query"),
        "batch": fields.text("batch"),
        "retired_query_ids": tuple(text_or_none(value, "a query") for value in retired),
        "rows": fields.number("rows") if fields.has("rows") else None,
        "plannings": _parse_plannings(fields.optional_array("plannings")),
        "topics": _parse_texts(fields.array("topics"), "a topic") if fields.has("topics") else None,
    }
    at_ms = fields.number("at")
    if record_type == "done":
        return DecisionRecord(
            state=Done(**batch, given_up_nonces=given_up_nonces),
            at_ms=at_ms,
            transactions=fields.number("transactions"),
            records=fields.number("records"),
        )
    if record_type != "decided":
        raise malformed(f"unknown record type {record_type[:40]!r}")
    transactions = tuple(
        _parse_transaction(JsonObject(value)) for value in fields.array("transactions")
    )
    fates = tuple(_parse_fate(value) for value in fields.optional_array("fates"))
    if fates and len(fates) != len(transactions):
        raise malformed("the numbers of fates and transactions differ")
    return DecisionRecord.of(Decided(**batch, transactions=transactions), at_ms, fates)


def _parse_texts(values: list[object], name: str) -> tuple[str, ...]:
    return tuple(text_of(value, name) for value in values)


def _parse_plannings(values: list[object]) -> tuple[Planning, ...]:
    pairs = [list_of(value, "a planning") for value in values]
    if any(len(pair) != 2 for pair in pairs):
        raise malformed("a planning does not consist of a run and a nonce")
    return tuple(Planning(text_of(run, "a run"), text_of(nonce, "a nonce")) for run, nonce in pairs)


def _parse_transaction(fields: JsonObject) -> TaskTransaction:
    transaction = TransactionalProducer(
        transactional_id=fields.text("id"),
        producer_id=fields.number("producer"),
        epoch=fields.number("epoch", highest=2**15 - 1),
        version=_parse_protocol(fields.number("protocol")),
    )
    unnamed = fields.array("unnamed") if fields.has("unnamed") else (0, 0)
    if len(unnamed) != 2:
        raise malformed("the field `unnamed` must contain two numbers")
    return TaskTransaction(
        transaction=transaction,
        started_ms=fields.number("started"),
        timeout_ms=fields.number("timeout"),
        partitions=tuple(_parse_partitions(fields.nested("partitions"))),
        unlisted_partitions=number_of(unnamed[0], "unnamed partitions"),
        unlisted_records=number_of(unnamed[1], "their records"),
    )


def _parse_partitions(topics: JsonObject) -> Iterator[PartitionRange]:
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


def _parse_protocol(number: int) -> TransactionVersion:
    try:
        return TransactionVersion(number)
    except ValueError as error:
        raise malformed("a transaction uses an unknown protocol") from error


def _parse_fate(value: object) -> Fate:
    try:
        return Fate(text_of(value, "a fate"))
    except ValueError as error:
        raise malformed("an unknown fate") from error
