"""Transactions as tables, for a person who asks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.table import Table

from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.exactly_once.by_hand.overview import Standing
from spark_kafka_sink.exactly_once.log.decision import Fate
from spark_kafka_sink.exactly_once.log_state import Decided, Nothing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.exactly_once.by_hand.held_back import HeldBack
    from spark_kafka_sink.exactly_once.by_hand.operator import Overview
    from spark_kafka_sink.exactly_once.by_hand.overview import OpenTransactionView
    from spark_kafka_sink.exactly_once.log.decision import Record
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction


def transactions_table(overview: Overview) -> Table:
    """The open transactions, with their age and what the decision log says of them."""
    table = Table(title=f"Open transactions: {len(overview.transactions)}")
    for name in ("transactional id", "batch", "standing", "state", "open for", "time left"):
        table.add_column(name, overflow="fold")
    table.add_column("partitions", justify="right")
    for each in overview.transactions:
        age = None if each.started_ms is None else max(0, overview.now_ms - each.started_ms)
        left = None if age is None else max(0, each.timeout_ms - age)
        table.add_row(
            each.transactional_id,
            each.batch,
            each.standing.value,
            each.state.value,
            _seconds(age),
            _seconds(left),
            str(len(each.partitions)),
        )
    return table


def held_back_table(partitions: Sequence[HeldBack]) -> Table:
    """Where read_committed readers wait, and for whom."""
    table = Table(title=f"Partitions with readers held back: {len(partitions)}")
    table.add_column("partition")
    for name in ("readers stop at", "log ends at", "offsets waiting"):
        table.add_column(name, justify="right")
    table.add_column("held back by", overflow="fold")
    for each in partitions:
        table.add_row(
            f"{each.topic}-{each.partition}",
            f"{each.stable_offset:,}",
            f"{each.end_offset:,}",
            f"{each.records:,}",
            each.transactional_id or "a transaction of another application",
        )
    return table


def records_table(records: Mapping[str, Record]) -> Table:
    """The latest word of the decision log on each scope."""
    table = Table(title=f"Decision log: {plural(len(records), 'scope')}")
    for name in ("scope", "latest batch", "it is", "query", "since"):
        table.add_column(name, overflow="fold")
    for name in ("transactions", "records"):
        table.add_column(name, justify="right")
    for scope, record in records.items():
        state = record.state
        table.add_row(
            scope,
            "" if isinstance(state, Nothing) else state.batch,
            _what_it_is(record),
            "" if isinstance(state, Nothing) else state.query or "",
            _moment(record.at_ms),
            f"{record.transactions:,}",
            f"{record.records:,}",
        )
    return table


def transaction_table(view: OpenTransactionView, now_ms: int) -> Table:
    """All that is known of one open transaction."""
    table = Table(title=view.transactional_id, show_header=False)
    started = "" if view.started_ms is None else _moment(view.started_ms)
    age = None if view.started_ms is None else max(0, now_ms - view.started_ms)
    rows = (
        ("scope", str(view.scope)),
        ("batch", view.batch),
        ("standing", f"{view.standing.value}: {_MEANING[view.standing]}"),
        ("state", view.state.value),
        ("producer id, epoch", f"{view.producer_id}, {view.epoch}"),
        ("coordinator", f"broker {view.coordinator}"),
        ("open since", f"{started} ({_seconds(age)})"),
        ("transaction.timeout.ms", f"{view.timeout_ms:,}"),
        ("partitions", ", ".join(f"{each.topic}-{each.partition}" for each in view.partitions)),
    )
    for row in rows:
        table.add_row(*row)
    return table


def decided_table(task: TaskTransaction, fates: Sequence[Fate]) -> Table:
    """What the decision says of one transaction, and its partitions say of how it has ended."""
    table = Table(title=f"{task.transactional_id}: {plural(task.records, 'record')}")
    table.add_column("partition")
    for name in ("records", "first offset", "last offset"):
        table.add_column(name, justify="right")
    table.add_column("its marker says")
    for each, fate in zip(task.partitions, fates, strict=True):
        first, last = each.first_offset, each.last_offset
        table.add_row(
            f"{each.topic}-{each.partition}",
            f"{each.records:,}",
            "" if first is None else f"{first:,}",
            "" if last is None else f"{last:,}",
            _MARKERS[fate],
        )
    if task.unnamed_partitions:
        more = f"and {task.unnamed_partitions:,} more"
        table.add_row(more, f"{task.unnamed_records:,}", "", "", "")
    return table


_MEANING = {
    Standing.DECIDED: "the next driver commits it, or `kafkaprod transactions commit` does",
    Standing.UNDECIDED: "a driver that runs may still decide its batch",
    Standing.ORPHAN: "nobody can decide it any more; the next driver aborts it, or "
    "`kafkaprod transactions abort` does",
    Standing.DRIVER: "a driver's own, for one append to the decision log",
}


_MARKERS = {Fate.COMMITTED: "committed", Fate.LOST: "aborted", Fate.UNKNOWN: "(none is found)"}


def _what_it_is(record: Record) -> str:
    if record.is_torn:
        return "torn"
    if isinstance(record.state, Nothing):
        return "given up"
    return "decided" if isinstance(record.state, Decided) else "done"


def _seconds(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:,.1f} s"


def _moment(at_ms: int) -> str:
    """UTC, to the second; the number itself where it is beyond any calendar."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)
