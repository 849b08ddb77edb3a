"""``kafkaprod``: the root command, and the commands ``broker``, ``report`` and ``demo``."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated

import typer

from spark_kafka_sink.cli.broker import BrokerArguments, serve
from spark_kafka_sink.cli.doctor import TIMEOUT_S, Timeout, doctor, wait_for_broker
from spark_kafka_sink.cli.kafka_options import (
    GivenOptions,
    OptionsFile,
    command,
    expanded,
    fail,
    kafka_options,
)
from spark_kafka_sink.cli.read import read, verify
from spark_kafka_sink.cli.transactions import transactions
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.version import __version__
from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.demo.run import BOOTSTRAP, DemoOptions, run_demo
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.figures import compare
from spark_kafka_sink.report.tables import print_advice, print_comparison, print_report

_LOCATION_HELP = (
    "Delivery report, or directory with the reports of micro-batches: a path or a pyarrow.fs URI."
)


def report(
    location: Annotated[str, typer.Argument(metavar="FILE|FOLDER", help=_LOCATION_HELP)],
    other: Annotated[
        str | None, typer.Argument(metavar="[FILE|FOLDER]", help="Another report to compare with.")
    ] = None,
    advise: Annotated[
        bool, typer.Option("--advise", help="Show which settings limited the write.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Show a delivery report, or compare two delivery reports."""
    try:
        parts = DeliveryReport.read_all(expanded(location))
        found = DeliveryReport.merge_all(parts)
        other_report = None if other is None else DeliveryReport.read(expanded(other))
    except KafkaProdError as error:
        fail(error)
    if other_report is not None and other is not None:
        comparison = compare(found, other_report)
        if as_json:
            typer.echo(json.dumps(comparison.to_dict(), indent=2))
        else:
            print_comparison(comparison, _names(location, other))
    elif as_json:
        typer.echo(found.to_json())
    else:
        print_report(found, parts=parts if len(parts) > 1 else ())
    if advise and not as_json:
        print_advice(found if other_report is None else other_report)


def _names(before: str, after: str) -> tuple[str, str]:
    """Return the column names: the file names, or the full paths if these names are equal."""
    names = Path(before).name, Path(after).name
    return names if names[0] != names[1] else (before, after)


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would truncate option names at 80 columns.
)

app.add_typer(transactions, name="transactions")
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
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


@app.command("broker")
@command
def broker(arguments: BrokerArguments) -> None:
    """Run the embedded broker until SIGINT or SIGTERM."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("spark_kafka_sink.broker").setLevel(arguments.log_level.upper())
    try:
        serve(arguments.options(), arguments.ca_file)
    except KafkaProdError as error:
        fail(error)


app.command("report")(report)
app.command("read")(read)
app.command("verify")(verify)


@app.command()
def demo(
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Kafka brokers to write to, instead of the embedded broker.")
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic to write to; created if missing.")] = "flights",
    partitions: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="Number of partitions of the topic.")
    ] = 4,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="NUMBER", help="Maximum number of flights; default: all 336,776."
        ),
    ] = None,
    option: GivenOptions = None,
    config: OptionsFile = None,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Write a data set of flights in 2013 with Spark, and verify the records with another client.

    librdkafka reads the records back. It supports PEM truststores, and PEM and PKCS12 keystores,
    but not JKS. It requires Read on the topic and on the group kafkaprod-demo.
    """
    try:
        kafka = kafka_options(config, option or ())
        options = DemoOptions(
            bootstrap_servers=bootstrap_servers or kafka.get(BOOTSTRAP),
            topic=topic,
            partitions=partitions,
            limit=limit,
            kafka=kafka,
        )
        if options.bootstrap_servers is not None:
            servers = {BOOTSTRAP: options.bootstrap_servers}
            wait_for_broker(ProducerConfig.parse({**kafka, **servers}), timeout)
        passed = run_demo(options)
    except KafkaProdError as error:
        fail(error)
    if not passed:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
