"""How a command ends that could not do what it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from spark_kafka_sink.common.errors import KafkaProdError


def fail(error: KafkaProdError) -> NoReturn:
    """Say what went wrong on stderr, and end with status 1."""
    typer.echo(f"kafkaprod: {error}", err=True)
    raise typer.Exit(1)
