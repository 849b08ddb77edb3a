"""``kafkaprod verify``: check that the records of a delivery report still exist."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from spark_kafka_sink.cli import kafka_options
from spark_kafka_sink.cli.option_fields import cli_option, command
from spark_kafka_sink.common.delivery_status import partition_name
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.diagnostics.verify_report import (
    PartitionCheck,
    PartitionVerdict,
    verify_report,
)
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.tables import make_table, wide_console


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyArguments(kafka_options.ConnectionArguments):
    """Arguments of `kafkaprod verify`."""

    location: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="Delivery report, or directory with the reports of a stream.",
        ),
    ]
    as_json: bool = cli_option("Print the results as JSON.", False, "--json")


@command
def verify(arguments: VerifyArguments) -> None:
    """Check that every acknowledged record of a delivery report still exists.

    The command counts the committed records between the first and the last offset of each
    partition. Records that other writers have written in this range are also counted, and can hide
    a loss.

    Exits with status 1 if records are missing, or not yet readable because of an open transaction.
    """
    with kafka_options.connected_client(arguments) as client:
        report = DeliveryReport.read(arguments.location)
        checks = list(verify_report(client, report, arguments.timeout))
    bad = [
        check
        for check in checks
        if check.verdict in {PartitionVerdict.MISSING, PartitionVerdict.OPEN}
    ]
    if arguments.as_json:
        output = {"ok": not bad, "partitions": [check.to_dict() for check in checks]}
        typer.echo(json.dumps(output, indent=2))
    else:
        _print_checks(checks)
    if bad:
        raise typer.Exit(1)


def _print_checks(checks: list[PartitionCheck]) -> None:
    """Print a table of the partitions, and the totals."""
    columns = ("partition", ">acknowledged", ">found", ">missing", "verdict", "reason")
    rows = [
        (
            partition_name(check.topic, check.partition),
            f"{check.acknowledged:,}",
            f"{check.found:,}",
            f"{check.missing:,}",
            check.verdict.value,
            check.reason,
        )
        for check in checks
    ]
    if checks:
        wide_console().print(make_table("Partitions", columns, rows))
    acknowledged = sum(check.acknowledged for check in checks)
    missing = sum(
        check.missing for check in checks if check.verdict is not PartitionVerdict.UNKNOWN
    )
    unknown = sum(
        check.acknowledged for check in checks if check.verdict is PartitionVerdict.UNKNOWN
    )
    parts = [f"{plural(acknowledged, 'acknowledged record')}: {missing:,} missing"]
    if unknown:
        parts.append(f"{unknown:,} cannot be checked")
    typer.echo(", ".join(parts))
