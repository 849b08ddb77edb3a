"""kafkaprod: a broker for tests and demos, and delivery reports to read."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from spark_kafka_sink.cli.arguments import command
from spark_kafka_sink.cli.broker_options import BrokerArguments  # noqa: TC001 - command() reads it
from spark_kafka_sink.cli.doctor import doctor
from spark_kafka_sink.cli.failure import fail
from spark_kafka_sink.cli.kafka_options import GivenOptions, OptionsFile, kafka_options
from spark_kafka_sink.cli.reach import TIMEOUT_S, Timeout, reach
from spark_kafka_sink.cli.report import report
from spark_kafka_sink.cli.serve import serve
from spark_kafka_sink.cli.transactions import transactions
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.version import __version__
from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.demo.run import BOOTSTRAP, DemoOptions, run_demo

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # tables cut the names of options at 80 columns
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
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end."),
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


@app.command()
def demo(
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="A Kafka to write to, instead of the embedded broker.")
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic to write to; made if missing.")] = "flights",
    partitions: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="Partitions of the topic.")
    ] = 4,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Only so many flights, not all 336,776."),
    ] = None,
    option: GivenOptions = None,
    config: OptionsFile = None,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Write the flights of 2013 with Spark, and check them.

    Another client reads them back: librdkafka. It takes a truststore as PEM and a key store as PEM
    or PKCS12, no JKS, and needs Read on the topic and on the group kafkaprod-demo.
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
            reach(ProducerConfig.parse({**kafka, **servers}), timeout)
        good = run_demo(options)
    except KafkaProdError as error:
        fail(error)
    if not good:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
