"""``kafkaprod transactions``: list, describe, commit and abort the transactions of a prefix."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from spark_kafka_sink.cli import kafka_options
from spark_kafka_sink.cli.option_fields import cli_option, command
from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.exactly_once import DECISION_LOG_TOPIC
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, Fate
from spark_kafka_sink.exactly_once.open_transactions import (
    BlockedPartition,
    DecisionStatus,
    OpenTransaction,
    TransactionOverview,
)
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from spark_kafka_sink.exactly_once.scope_state import Decided, NoDecision
from spark_kafka_sink.kafka.protocol.error_codes import error_name
from spark_kafka_sink.report.display.tables import make_table, wide_console

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

_STATUS_TEXTS = {
    DecisionStatus.DECIDED: "committed by the next driver, or with `kafkaprod transactions commit`",
    DecisionStatus.UNDECIDED: "a running driver may still decide its batch",
    DecisionStatus.ORPHAN: "can no longer be decided; aborted by the next driver, or with "
    "`kafkaprod transactions abort`",
    DecisionStatus.DRIVER: "used by a driver for one append to the decision log",
}
_OUTCOMES = {Fate.COMMITTED: "committed", Fate.LOST: "aborted", Fate.UNKNOWN: "(none)"}
transactions = typer.Typer(
    no_args_is_help=True, help="List exactly-once transactions, and commit or abort them."
)


def _transactions_table(overview: TransactionOverview) -> Table:
    """Return the table of open transactions with age, and state in the decision log."""
    columns = ("transactional id", "batch", "status", "state", "open for", "time left")
    rows = []
    for transaction in overview.transactions:
        age = _age_ms(transaction, overview.now_ms)
        description = transaction.description
        remaining_ms = None if age is None else max(0, description.timeout_ms - age)
        texts = (
            transaction.transactional_id,
            transaction.batch,
            transaction.status.value,
            description.state.value,
        )
        rows.append(
            (
                *texts,
                _format_seconds(age),
                _format_seconds(remaining_ms),
                str(len(description.partitions)),
            )
        )
    title = f"Open transactions: {len(overview.transactions)}"
    return make_table(title, (*columns, ">partitions"), rows)


def _blocked_partitions_table(partitions: Sequence[BlockedPartition]) -> Table:
    """Return the table of partitions in which a transaction blocks read_committed readers."""
    rows = (
        (
            f"{partition.topic}-{partition.partition}",
            f"{partition.last_stable_offset:,}",
            f"{partition.high_watermark:,}",
            f"{partition.blocked_offsets:,}",
            partition.transactional_id or "a transaction of another application",
        )
        for partition in partitions
    )
    return make_table(
        f"Partitions with blocked readers: {len(partitions)}",
        ("partition", ">readers stop at", ">log ends at", ">offsets waiting", "blocked by"),
        rows,
    )


def _records_table(records: Mapping[str, DecisionRecord]) -> Table:
    """Return the table with the latest record of each scope in the decision log."""
    columns = ("scope", "latest batch", "status", "query", "since", ">transactions", ">records")
    rows = (
        (
            scope,
            "" if isinstance(record.state, NoDecision) else record.state.batch,
            _status_text(record),
            "" if isinstance(record.state, NoDecision) else record.state.query_id or "",
            _utc_time(record.at_ms),
            f"{record.transactions:,}",
            f"{record.records:,}",
        )
        for scope, record in records.items()
    )
    return make_table(f"Decision log: {plural(len(records), 'scope')}", columns, rows)


def _transaction_table(view: OpenTransaction, now_ms: int) -> Table:
    """Return the table with the details of one open transaction."""
    table = Table(title=view.transactional_id, show_header=False)
    description = view.description
    started = "" if description.started_ms is None else _utc_time(description.started_ms)
    age = _age_ms(view, now_ms)
    rows = (
        ("scope", str(view.scope)),
        ("batch", view.batch),
        ("status", f"{view.status.value}: {_STATUS_TEXTS[view.status]}"),
        ("state", description.state.value),
        ("producer id, epoch", f"{description.producer_id}, {description.epoch}"),
        ("coordinator", f"broker {view.coordinator}"),
        ("open since", f"{started} ({_format_seconds(age)})"),
        ("transaction.timeout.ms", f"{description.timeout_ms:,}"),
        (
            "partitions",
            ", ".join(
                f"{partition.topic}-{partition.partition}" for partition in description.partitions
            ),
        ),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _decided_table(task: TaskTransaction, fates: Sequence[Fate]) -> Table:
    """Return the table of a decided transaction's partitions and their transaction markers."""
    rows = [
        (
            f"{partition.topic}-{partition.partition}",
            f"{partition.records:,}",
            "" if partition.first_offset is None else f"{partition.first_offset:,}",
            "" if partition.last_offset is None else f"{partition.last_offset:,}",
            _OUTCOMES[fate],
        )
        for partition, fate in zip(task.partitions, fates, strict=True)
    ]
    if task.unlisted_partitions:
        omitted = f"and {task.unlisted_partitions:,} more"
        rows.append((omitted, f"{task.unlisted_records:,}", "", "", ""))
    title = f"{task.transactional_id}: {plural(task.records, 'record')}"
    columns = ("partition", ">records", ">first offset", ">last offset", "outcome")
    return make_table(title, columns, rows)


def _status_text(record: DecisionRecord) -> str:
    if record.is_torn:
        return "torn"
    if isinstance(record.state, NoDecision):
        return "given up"
    return "decided" if isinstance(record.state, Decided) else "done"


def _age_ms(view: OpenTransaction, now_ms: int) -> int | None:
    started_ms = view.description.started_ms
    return None if started_ms is None else max(0, now_ms - started_ms)


def _format_seconds(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:,.1f} s"


def _utc_time(at_ms: int) -> str:
    """Return a time in UTC with seconds, or the number if it is out of range."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionArguments(kafka_options.ConnectionArguments):
    """The common options of all commands in this group."""

    prefix: Annotated[str, typer.Option(help="transactionalIdPrefix of the stream or the jobs.")]
    decision_log_topic: str = cli_option("decisionLogTopic of the write.", DECISION_LOG_TOPIC)


@transactions.command("list")
@command
def list_open(arguments: TransactionArguments) -> None:
    """Show the open transactions, and the partitions in which they block readers."""
    with _open_operator(arguments) as operator:
        overview = operator.overview()
        known = overview.transactions or operator.records()
    if not known:
        typer.echo(
            f"No transactions found for the prefix {arguments.prefix}: none is open, and the "
            f"decision log {arguments.decision_log_topic} has no record with this prefix."
        )
        return
    out = wide_console()
    out.print(_transactions_table(overview))
    if overview.partitions:
        out.print(_blocked_partitions_table(overview.partitions))


@transactions.command()
@command
def describe(
    arguments: TransactionArguments,
    transactional_id: Annotated[
        str | None, typer.Argument(help="Transactional id; default: the whole decision log.")
    ] = None,
) -> None:
    """Show the decision log, or details of one transaction."""
    with _open_operator(arguments) as operator:
        if transactional_id is None:
            wide_console().print(_records_table(operator.records()))
        else:
            _print_transaction(operator, transactional_id)


@transactions.command()
@command
def commit(
    arguments: TransactionArguments,
    accept_loss: Annotated[
        str | None,
        typer.Option(
            metavar="SCOPE",
            help="Allow this scope, such as orders/stream, to continue after a partially "
            "committed batch, or after a batch that was repeated with different rows. Handle the "
            "lost rows first. No driver of the scope may be running.",
        ),
    ] = None,
) -> None:
    """Commit transactions that are decided but not yet committed, as the next driver would do.

    Running queries are not stopped.
    """
    with _open_operator(arguments) as operator:
        finished = operator.commit() if accept_loss is None else [operator.accept_loss(accept_loss)]
    for batch in finished:
        lost = f"; lost of them: {batch.lost}" if batch.lost else ""
        number = plural(batch.transactions, "transaction")
        counts = f"{number} with {plural(batch.records, 'record')}"
        typer.echo(f"{batch.scope}: batch {batch.batch} is committed, {counts}{lost}")
    if not finished:
        typer.echo("No decided transaction is incomplete.")


@transactions.command()
@command
def abort(
    arguments: TransactionArguments,
    transactional_ids: Annotated[
        list[str] | None,
        typer.Argument(help="Transactional ids; default: all transactions that may be aborted."),
    ] = None,
    undecided: Annotated[
        bool,
        typer.Option(
            "--undecided",
            help="Also abort transactions that a driver may still decide; no query of the "
            "prefix may be running.",
        ),
    ] = False,
) -> None:
    """Abort orphaned transactions.

    An orphaned transaction is open, but no driver can decide it anymore. Decided transactions are
    never aborted.
    """
    with _open_operator(arguments) as operator:
        codes = operator.abort(transactional_ids or (), undecided=undecided)
    for name, code in codes.items():
        typer.echo(f"{name}: {error_name(code) if code else 'aborted'}")
    if not codes:
        typer.echo("No open transaction may be aborted.")
    if any(codes.values()):
        raise typer.Exit(1)


@contextmanager
def _open_operator(arguments: TransactionArguments) -> Iterator[TransactionOperator]:
    """Yield an operator for a command's options. Print its errors and exit with status 1."""
    with kafka_options.exit_on_error():
        parsed = SinkConfig.parse(
            kafka_options.connection_options(arguments)
            | {
                "deliveryGuarantee": "exactly-once",
                "transactionalIdPrefix": arguments.prefix,
                "decisionLogTopic": arguments.decision_log_topic,
            }
        )
        kafka_options.wait_for_broker(parsed.producer, arguments.timeout)
        yield TransactionOperator(parsed)


def _print_transaction(operator: TransactionOperator, name: str) -> None:
    """Print the details of an open or decided transaction."""
    overview = operator.overview()
    open_now = [
        transaction for transaction in overview.transactions if transaction.transactional_id == name
    ]
    decided = [
        task
        for record in operator.records().values()
        if isinstance(record.state, Decided)
        for task in record.state.transactions
        if task.transactional_id == name
    ]
    if not open_now and not decided:
        raise TransactionError(
            f"{name} is neither open nor decided",
            hint="Run `kafkaprod transactions list` to show open transactions.",
        )
    out = wide_console()
    for view in open_now:
        out.print(_transaction_table(view, overview.now_ms))
    for task in decided:
        out.print(_decided_table(task, operator.fates(task)))
