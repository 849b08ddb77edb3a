"""kafkaprod report: one delivery report, those of a stream added up, or two writes compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from spark_kafka_sink.cli.failure import fail
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.figures import compare
from spark_kafka_sink.report.tables import print_advice, print_comparison, print_report

_PLACE = "A delivery report, or a folder of those of micro-batches: a path, or a URI of pyarrow.fs."


def report(
    place: Annotated[str, typer.Argument(metavar="FILE|FOLDER", help=_PLACE)],
    other: Annotated[
        str | None, typer.Argument(metavar="[FILE|FOLDER]", help="Another one, to compare with it.")
    ] = None,
    advise: Annotated[
        bool, typer.Option("--advise", help="Say which settings held the write back.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Show a delivery report, or compare two."""
    try:
        found = DeliveryReport.read(_path(place))
        against = None if other is None else DeliveryReport.read(_path(other))
    except KafkaProdError as error:
        fail(error)
    if against is not None and other is not None:
        comparison = compare(found, against)
        if as_json:
            typer.echo(json.dumps(comparison.to_dict(), indent=2))
        else:
            print_comparison(comparison, _names(place, other))
    elif as_json:
        typer.echo(found.to_json())
    else:
        print_report(found)
    if advise and not as_json:
        print_advice(found if against is None else against)


def _path(place: str) -> str:
    return place if "://" in place else str(Path(place).expanduser())


def _names(before: str, after: str) -> tuple[str, str]:
    """What the columns are called: the files' names, unless they are the same."""
    names = Path(before).name, Path(after).name
    return names if names[0] != names[1] else (before, after)
