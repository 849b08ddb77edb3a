"""What a task tells the driver, and what the driver makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from spark_kafka_sink.base.errors import DeliveryError
from spark_kafka_sink.base.report import DeliveryReport

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTINUOUS_HINT = (
    "With .trigger(continuous=...) Spark drops the rows of every Python data source: use "
    ".trigger(processingTime='0 seconds') for the least delay, or Spark's own format('kafka')"
)


@dataclass
class DeliveryMessage(WriterCommitMessage):
    """A task's rows are acknowledged: its delivery report, which carries its own version."""

    report: DeliveryReport


def delivered(messages: Sequence[WriterCommitMessage | None]) -> DeliveryReport:
    """The report of all tasks of a write that is to be committed.

    Raises:
        DeliveryError: a partition's rows have no delivery report, so that nobody knows of their
            delivery: Spark never handed them over, or to something else.
    """
    strange = [message for message in messages if not isinstance(message, DeliveryMessage)]
    if strange:
        kinds = sorted({type(message).__name__ for message in strange})
        raise DeliveryError(
            f"{len(strange)} of {len(messages)} partitions have no delivery report "
            f"({', '.join(kinds)}): their rows were not written, and nothing is committed",
            hint=CONTINUOUS_HINT,
        )
    return finished(messages)


def finished(messages: Sequence[WriterCommitMessage | None]) -> DeliveryReport:
    """The report of those tasks that came to their end, of a write that has failed."""
    reports = [message.report for message in messages if isinstance(message, DeliveryMessage)]
    return DeliveryReport.merge_all(reports)
