"""`kafkaprod transactions`: what is open under a prefix, and how to end it by hand."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from spark_kafka_sink.cli.arguments import command
from spark_kafka_sink.cli.failure import fail
from spark_kafka_sink.cli.kafka_options import GivenOptions, OptionsFile, kafka_options
from spark_kafka_sink.cli.reach import TIMEOUT_S, Timeout, reach
from spark_kafka_sink.cli.transaction_tables import (
    decided_table,
    held_back_table,
    records_table,
    transaction_table,
    transactions_table,
)
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError, TransactionError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.config.exactly_once import DECISION_LOG_TOPIC
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.demo.run import BOOTSTRAP
from spark_kafka_sink.exactly_once.by_hand.operator import TransactionOperator
from spark_kafka_sink.exactly_once.log_state import Decided
from spark_kafka_sink.protocol.error_codes import error_name
from spark_kafka_sink.report.tables import wide_console

if TYPE_CHECKING:
    from collections.abc import Iterator

transactions = typer.Typer(
    no_args_is_help=True,
    help="Look at the transactions of exactly once, and end them.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionArguments:
    """What every command here is told."""

    prefix: Annotated[str, typer.Option(help="transactionalIdPrefix of the stream or the jobs.")]
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="A Kafka to connect to; or name it in --option or --config.")
    ] = None
    decision_log_topic: Annotated[str, typer.Option(help="decisionLogTopic of the write.")] = (
        DECISION_LOG_TOPIC
    )
    option: GivenOptions = None
    config: OptionsFile = None
    timeout: Timeout = TIMEOUT_S


@transactions.command("list")
@command
def list_open(where: TransactionArguments) -> None:
    """Show the open transactions, and where readers wait for them."""
    with _operator(where) as operator:
        overview = operator.overview()
        known = overview.transactions or operator.records()
    if not known:
        typer.echo(
            f"Nothing is known of the prefix {where.prefix}: no transaction is open, and the "
            f"decision log {where.decision_log_topic} does not name it."
        )
        return
    out = wide_console()
    out.print(transactions_table(overview))
    if overview.partitions:
        out.print(held_back_table(overview.partitions))


@transactions.command()
@command
def describe(
    where: TransactionArguments,
    transactional_id: Annotated[
        str | None, typer.Argument(help="One transaction; without it the whole decision log.")
    ] = None,
) -> None:
    """Show the decision log, or one transaction."""
    with _operator(where) as operator:
        if transactional_id is None:
            wide_console().print(records_table(operator.records()))
        else:
            _describe(operator, transactional_id)


@transactions.command()
@command
def commit(
    where: TransactionArguments,
    accept_loss: Annotated[
        str | None,
        typer.Option(
            metavar="SCOPE",
            help="Let this scope, such as orders/stream, go on behind its torn batch, or one that "
            "comes with other rows: you have seen to what is lost. No driver of it may run.",
        ),
    ] = None,
) -> None:
    """Commit what is decided and not done, as the next driver would.

    It stops no query.
    """
    with _operator(where) as operator:
        finished = operator.commit() if accept_loss is None else [operator.accept_loss(accept_loss)]
    for each in finished:
        lost = f"; lost of them: {each.lost}" if each.lost else ""
        written = (
            f"{plural(each.transactions, 'transaction')} with {plural(each.records, 'record')}"
        )
        typer.echo(f"{each.scope}: batch {each.batch} is committed, {written}{lost}")
    if not finished:
        typer.echo("Nothing is decided that is not done.")


@transactions.command()
@command
def abort(
    where: TransactionArguments,
    transactional_ids: Annotated[
        list[str] | None, typer.Argument(help="Transactions; without any all that may be aborted.")
    ] = None,
    undecided: Annotated[
        bool,
        typer.Option(
            "--undecided",
            help="Also those that a driver may still decide; no query of the prefix may run.",
        ),
    ] = False,
) -> None:
    """Abort orphans, never what is decided.

    Orphans are open transactions that nobody can decide any more.
    """
    with _operator(where) as operator:
        codes = operator.abort(transactional_ids or (), undecided=undecided)
    for name, code in codes.items():
        typer.echo(f"{name}: {error_name(code) if code else 'aborted'}")
    if not codes:
        typer.echo("Nothing is open that may be aborted.")
    if any(codes.values()):
        raise typer.Exit(1)


@contextmanager
def _operator(where: TransactionArguments) -> Iterator[TransactionOperator]:
    """An operator for the options of a command; its errors end the command with a sentence."""
    try:
        given = kafka_options(where.config, where.option or ())
        if where.bootstrap_servers is not None:
            given[BOOTSTRAP] = where.bootstrap_servers
        if BOOTSTRAP not in given:
            raise ConfigError("no Kafka is named", hint="Add --bootstrap-servers host:port")
        parsed = SinkConfig.parse(
            {
                **given,
                "deliveryGuarantee": "exactly-once",
                "transactionalIdPrefix": where.prefix,
                "decisionLogTopic": where.decision_log_topic,
            }
        )
        reach(parsed.producer, where.timeout)
        yield TransactionOperator(parsed)
    except KafkaProdError as error:
        fail(error)


def _describe(operator: TransactionOperator, name: str) -> None:
    """Show a transaction, open or decided."""
    overview = operator.overview()
    open_now = [each for each in overview.transactions if each.transactional_id == name]
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
            hint="`kafkaprod transactions list` shows those that are open",
        )
    out = wide_console()
    for view in open_now:
        out.print(transaction_table(view, overview.now_ms))
    for task in decided:
        out.print(decided_table(task, operator.fates(task)))
