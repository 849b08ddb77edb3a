"""``kafkaprod doctor``: print the findings of `diagnostics.doctor`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from spark_kafka_sink.cli import kafka_options
from spark_kafka_sink.cli.option_fields import cli_option, command
from spark_kafka_sink.common.logs import quiet_log
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.doctor import STEP_TIMEOUT_S, Doctor, ProduceAction
from spark_kafka_sink.diagnostics.finding import Finding, Severity, worst
from spark_kafka_sink.diagnostics.planned_write import PlannedWrite

if TYPE_CHECKING:
    from collections.abc import Iterator

_STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorArguments(kafka_options.ConnectionArguments):
    """Arguments of `kafkaprod doctor`."""

    topic: str | None = cli_option("Topic to write to.")
    produce: bool | None = cli_option(
        "Write one record, which remains in the topic, or skip the last step. By default, check "
        "that the leader would accept a record, without writing one.",
        None,
        "--produce/--no-produce",
    )
    timeout: float = cli_option(
        "Timeout of each step, in seconds.", STEP_TIMEOUT_S, min=0.1, metavar="SECONDS"
    )
    as_json: bool = cli_option("Print the findings as JSON.", False, "--json")


@command
def doctor(arguments: DoctorArguments) -> None:
    """Check the connection to Kafka and the topic, step by step.

    The steps are name resolution, TCP, TLS, login, brokers, topic, permissions, a record and, if a
    format uses it, the schema registry.

    Exits with status 0 if a write would work, even with warnings, and with 1 if it would fail.
    """
    with kafka_options.exit_on_error():
        write = PlannedWrite(config=_parse_config(arguments))
    produce_step = {
        None: ProduceAction.PROBE,
        True: ProduceAction.RECORD,
        False: ProduceAction.NONE,
    }[arguments.produce]
    with quiet_log("spark_kafka_sink"):
        examination = Doctor(write=write, produce=produce_step, seconds=arguments.timeout).examine()
        findings = list(examination if arguments.as_json else _print_each(examination))
    failed = worst(findings) is Severity.ERROR
    if arguments.as_json:
        output = {"ok": not failed, "findings": [finding.to_json() for finding in findings]}
        typer.echo(json.dumps(output, indent=2))
    if failed:
        raise typer.Exit(1)


def _parse_config(arguments: DoctorArguments) -> SinkConfig:
    options = kafka_options.connection_options(arguments, allow_sink_options=True)
    if arguments.topic is not None:
        options["topic"] = arguments.topic
    return SinkConfig.parse(options)


def _print_each(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Print and yield each finding immediately, because the next step can take a long time."""
    out = Console(highlight=False, emoji=False)
    for finding in findings:
        style = _STYLES[finding.severity]
        head = f"{finding.step.value:<16} [{style}]{finding.severity.value:<8}[/{style}] "
        out.print(head + escape(_finding_text(finding)), soft_wrap=True)
        if finding.hint is not None:
            out.print(f"{'':25} [bold]{escape(finding.hint)}[/bold]", soft_wrap=True)
        yield finding


def _finding_text(finding: Finding) -> str:
    code = finding.kafka_error
    return finding.text if code is None else f"{finding.text} ({code})"
