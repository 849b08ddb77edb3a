"""The root command of `kafkaprod`, with which the commands are registered."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_kafka_sink.cli.broker_command import broker
from spark_kafka_sink.cli.demo_command import demo
from spark_kafka_sink.cli.doctor_command import doctor
from spark_kafka_sink.cli.read_command import read
from spark_kafka_sink.cli.report_command import report
from spark_kafka_sink.cli.transactions_command import transactions
from spark_kafka_sink.cli.verify_command import verify
from spark_kafka_sink.common.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would truncate option names at 80 columns.
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"kafkaprod {__version__}")
        raise typer.Exit


@app.callback()
def kafkaprod(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """A columnar, idempotent Kafka sink for PySpark, and tools around it."""


app.add_typer(transactions, name="transactions")
for _function in (doctor, broker, report, read, verify, demo):
    app.command()(_function)
