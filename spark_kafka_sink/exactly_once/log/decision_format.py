"""Records of the decision log as JSON text, and back; whatever a reader gets is checked.

Version 1, one object per record, without line breaks::

    {"version": 1, "type": "decided", "query": "6b0c…", "batch": "17", "retired": [], "at": 1763…,
     "rows": 5210,
     "transactions": [{"id": "orders/stream/6b0c…/17/…", "producer": 4000, "epoch": 0,
                       "protocol": 2, "started": 1763…, "timeout": 900000,
                       "partitions": {"events": [[0, 5210, 17, 9120]]}}]}
    {"version": 1, "type": "done", "query": "6b0c…", "batch": "17", "retired": [], "at": 1763…,
     "rows": 41880, "plannings": [["0e4a…", "3fa9…"]],
     "transactions": 8, "records": 41877}

    {"version": 1, "type": "nothing", "at": 1763…, "given_up": ["9f2c…"]}

"rows" is what Spark handed the tasks, and missing where they did not count; "topics" are those
that the rows of a write with a batchId name; "plannings" has run
and nonce of those in which foreachBatch wrote or found the batch. A partition is its
number, its records, and its first and last offset or null; a transaction with very many has
"unnamed", how many more, and their records. A torn decision has "fates", one for
each transaction. "given_up" has the nonces of plannings that abort() has given up since the last
decision. A newer version is refused: to take a decision for something else could lose or double a
batch.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.log.decision import Fate, Record
from spark_kafka_sink.exactly_once.log.json_object import (
    VERSION,
    JsonObject,
    list_of,
    malformed,
    number_of,
    parse_object,
    text_of,
)
from spark_kafka_sink.exactly_once.log_state import Decided, Done, Nothing, Planning
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskTransaction
from spark_kafka_sink.protocol.open_transaction import OpenTransaction
from spark_kafka_sink.protocol.transaction_version import TransactionVersion

if TYPE_CHECKING:
    from collections.abc import Iterator


def to_text(record: Record) -> str:
    """The record as JSON, ASCII only, so that it can be cut anywhere."""
    return json.dumps({"version": VERSION, **_to_json(record)}, separators=(",", ":"))


def from_text(text: str) -> Record:
    """The record that a text is.

    Raises:
        TransactionError: it is none, or one of a newer version.
    """
    return _from_json(parse_object(text))


def _to_json(record: Record) -> dict[str, object]:
    state = record.state
    if isinstance(state, Nothing):
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
    if isinstance(state, Done):
        counts = {"transactions": record.transactions, "records": record.records}
        marks = {"given_up": state.given_up} if state.given_up else {}
        return {"type": "done", **common, **counts, **marks}
    fates = {"fates": [fate.value for fate in record.fates]} if record.fates else {}
    transactions = [_transaction_to_json(each) for each in state.transactions]
    return {"type": "decided", **common, **fates, "transactions": transactions}


def _plannings_to_json(plannings: tuple[Planning, ...]) -> list[list[str]]:
    return [[each.run, each.nonce] for each in plannings]


def _transaction_to_json(task: TaskTransaction) -> dict[str, object]:
    partitions: defaultdict[str, list[list[int | None]]] = defaultdict(list)
    for each in task.partitions:
        line = [each.partition, each.records, each.first_offset, each.last_offset]
        partitions[each.topic].append(line)
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


def _from_json(fields: JsonObject) -> Record:
    kind = fields.text("type")
    given_up = _texts(fields.array("given_up"), "a nonce") if fields.has("given_up") else ()
    if kind == "nothing":
        at_ms = fields.number("at")
        return Record(state=Nothing(given_up), at_ms=at_ms, transactions=0, records=0)
    query, batch, at_ms = fields.text_or_none("query"), fields.text("batch"), fields.number("at")
    retired = tuple(_text_or_none(each) for each in fields.array("retired"))
    rows = fields.number("rows") if fields.has("rows") else None
    plannings = _plannings(fields.array("plannings")) if fields.has("plannings") else ()
    topics = _texts(fields.array("topics"), "a topic") if fields.has("topics") else None
    if kind == "done":
        return Record(
            state=Done(query, batch, retired, given_up, rows, plannings, topics),
            at_ms=at_ms,
            transactions=fields.number("transactions"),
            records=fields.number("records"),
        )
    if kind != "decided":
        raise malformed(f"a record of type {kind[:40]!r}")
    transactions = tuple(_transaction(JsonObject(each)) for each in fields.array("transactions"))
    fates = tuple(_fate(each) for each in fields.array("fates")) if fields.has("fates") else ()
    if fates and len(fates) != len(transactions):
        raise malformed("fates of other transactions")
    decided = Decided(query, batch, transactions, retired, rows, plannings, topics)
    return Record.of(decided, at_ms, fates)


def _texts(values: list[object], name: str) -> tuple[str, ...]:
    return tuple(text_of(each, name) for each in values)


def _plannings(values: list[object]) -> tuple[Planning, ...]:
    pairs = [list_of(each, "a planning") for each in values]
    if any(len(pair) != 2 for pair in pairs):
        raise malformed("a planning without run and nonce")
    return tuple(Planning(text_of(run, "a run"), text_of(nonce, "a nonce")) for run, nonce in pairs)


def _transaction(fields: JsonObject) -> TaskTransaction:
    transaction = OpenTransaction(
        transactional_id=fields.text("id"),
        producer_id=fields.number("producer"),
        epoch=fields.number("epoch", highest=2**15 - 1),
        version=_protocol(fields.number("protocol")),
    )
    unnamed = fields.array("unnamed") if fields.has("unnamed") else (0, 0)
    if len(unnamed) != 2:
        raise malformed("unnamed partitions without two numbers")
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
                raise malformed("a partition without four numbers")
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
        raise malformed("a transaction of an unknown protocol") from error


def _fate(value: object) -> Fate:
    try:
        return Fate(text_of(value, "a fate"))
    except ValueError as error:
        raise malformed("an unknown fate") from error
