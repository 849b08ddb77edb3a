"""``kafkaprod report``: show a delivery report, or compare two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from spark_kafka_sink.cli.kafka_options import exit_on_error
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.key_figures import compare
from spark_kafka_sink.report.display.tables import print_advice, print_comparison, print_report

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
    with exit_on_error():
        reports = DeliveryReport.read_all(location)
        merged = DeliveryReport.merge_all(reports)
        other_report = None if other is None else DeliveryReport.read(other)
    if other_report is not None and other is not None:
        comparison = compare(merged, other_report)
        if as_json:
            typer.echo(json.dumps(comparison.to_dict(), indent=2))
        else:
            print_comparison(comparison, _column_names(location, other))
    elif as_json:
        typer.echo(merged.to_json())
    else:
        print_report(merged, batches=reports if len(reports) > 1 else ())
    if advise and not as_json:
        print_advice(merged if other_report is None else other_report)


def _column_names(before: str, after: str) -> tuple[str, str]:
    """Return the column names: the file names, or the full paths if these names are equal."""
    names = Path(before).name, Path(after).name
    return names if names[0] != names[1] else (before, after)
