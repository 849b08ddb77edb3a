"""The root command, and ``kafkaprod doctor``, ``report``, ``broker`` and ``demo``."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from spark_kafka_sink.cli import kafka_options
from spark_kafka_sink.cli.broker import BrokerArguments, serve
from spark_kafka_sink.cli.demo.run import BOOTSTRAP_OPTION, DemoOptions, run_demo
from spark_kafka_sink.cli.read import read
from spark_kafka_sink.cli.transactions import transactions
from spark_kafka_sink.cli.verify import verify
from spark_kafka_sink.common.logs import quiet_log
from spark_kafka_sink.common.version import __version__
from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from spark_kafka_sink.diagnostics.broker_queries import PlannedWrite
from spark_kafka_sink.diagnostics.doctor import STEP_TIMEOUT_S, Doctor, ProduceCheck
from spark_kafka_sink.diagnostics.finding import Finding, Severity, worst
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.key_figures import compare
from spark_kafka_sink.report.tables import print_advice, print_comparison, print_report

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCATION_HELP = (
    "Delivery report, or directory with the reports of micro-batches: a path or a pyarrow.fs URI."
)
_STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would truncate option names at 80 columns.
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
    with kafka_options.exit_on_error():
        reports = DeliveryReport.read_all(location)
        merged = DeliveryReport.merge_all(reports)
        other_report = None if other is None else DeliveryReport.read(other)
    if other_report is not None and other is not None:
        comparison = compare(merged, other_report)
        if as_json:
            typer.echo(json.dumps(comparison.to_dict(), indent=2))
        else:
            print_comparison(comparison, _names(location, other))
    elif as_json:
        typer.echo(merged.to_json())
    else:
        print_report(merged, batches=reports if len(reports) > 1 else ())
    if advise and not as_json:
        print_advice(merged if other_report is None else other_report)


def _names(before: str, after: str) -> tuple[str, str]:
    """Return the column names: the file names, or the full paths if these names are equal."""
    names = Path(before).name, Path(after).name
    return names if names[0] != names[1] else (before, after)


def doctor(
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(help="Bootstrap servers: host:port of brokers, separated by commas."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic to write to.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            help="Write option, such as kafka.security.protocol=SASL_SSL or "
            "useTimestampColumn=true; may be repeated.",
        ),
    ] = None,
    config: kafka_options.OptionsFile = None,
    produce: Annotated[
        bool | None,
        typer.Option(
            "--produce/--no-produce",
            help="Write one record, which remains in the topic, or skip the last step. By default, "
            "check that the leader would accept a record, without writing one.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Timeout of each step, in seconds.")
    ] = STEP_TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check the connection to Kafka and the topic, step by step.

    The steps are name resolution, TCP, TLS, login, brokers, topic, permissions, a record and, if a
    format uses it, the schema registry.

    Exits with status 0 if a write would work, even with warnings, and with 1 if it would fail.
    """
    with kafka_options.exit_on_error():
        write = PlannedWrite(config=_config(bootstrap_servers, topic, option, config))
    produce_step = {None: ProduceCheck.PROBE, True: ProduceCheck.RECORD, False: ProduceCheck.NONE}[
        produce
    ]
    with quiet_log("spark_kafka_sink"):
        findings = Doctor(write=write, produce=produce_step, seconds=timeout).examine()
        shown = list(findings) if as_json else list(_print_each(findings))
    failed = worst(shown) is Severity.ERROR
    if as_json:
        output = {"ok": not failed, "findings": [finding.to_json() for finding in shown]}
        typer.echo(json.dumps(output, indent=2))
    if failed:
        raise typer.Exit(1)


def _config(
    servers: str | None, topic: str | None, option: list[str] | None, file: Path | None
) -> SinkConfig:
    options = kafka_options.connection_options(file, option or (), servers, allow_sink_options=True)
    if topic is not None:
        options["topic"] = topic
    return SinkConfig.parse(options)


def _print_each(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Print and yield each finding immediately, because the next step can take a long time."""
    out = Console(highlight=False)
    for finding in findings:
        style = _STYLES[finding.severity]
        head = f"{finding.step.value:<16} [{style}]{finding.severity.value:<8}[/{style}] "
        out.print(head + escape(_text(finding)), soft_wrap=True)
        if finding.hint is not None:
            out.print(f"{'':25} [bold]{escape(finding.hint)}[/bold]", soft_wrap=True)
        yield finding


def _text(finding: Finding) -> str:
    code = finding.kafka_error
    return finding.text if code is None else f"{finding.text} ({code})"


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


@kafka_options.command
def broker(arguments: BrokerArguments) -> None:
    """Run the embedded broker until SIGINT or SIGTERM."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("spark_kafka_sink.broker").setLevel(arguments.log_level.upper())
    with kafka_options.exit_on_error():
        serve(arguments.options(), arguments.ca_file)


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
    option: kafka_options.OptionArguments = None,
    config: kafka_options.OptionsFile = None,
    timeout: kafka_options.Timeout = kafka_options.TIMEOUT_S,
) -> None:
    """Write a data set of flights in 2013 with Spark, and verify the records with another client.

    librdkafka reads the records back. It supports PEM truststores, and PEM and PKCS12 keystores,
    but not JKS. It requires Read on the topic and on the group kafkaprod-demo.
    """
    with kafka_options.exit_on_error():
        kafka = kafka_options.write_options(config, option or ())
        options = DemoOptions(
            bootstrap_servers=bootstrap_servers or kafka.get(BOOTSTRAP_OPTION),
            topic=topic,
            partitions=partitions,
            limit=limit,
            kafka=kafka,
        )
        if options.bootstrap_servers is not None:
            servers = {BOOTSTRAP_OPTION: options.bootstrap_servers}
            kafka_options.wait_for_broker(ProducerConfig.parse({**kafka, **servers}), timeout)
        passed = run_demo(options)
    if not passed:
        raise typer.Exit(1)


app.add_typer(transactions, name="transactions")
for _function in (doctor, broker, report, read, verify, demo):
    app.command()(_function)

if __name__ == "__main__":
    app()
