"""``kafkaprod doctor``: print the findings of `diagnostics.doctor`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from spark_kafka_sink.cli import kafka_options
from spark_kafka_sink.common.logs import quiet_log
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.broker_queries import PlannedWrite
from spark_kafka_sink.diagnostics.doctor import STEP_TIMEOUT_S, Doctor, ProduceCheck
from spark_kafka_sink.diagnostics.finding import Finding, Severity, worst

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}


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
