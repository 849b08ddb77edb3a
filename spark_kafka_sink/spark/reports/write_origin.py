"""The origin of a write: its query, its batch, and when it was planned."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self, TypeVar

from spark_kafka_sink.spark.reports.error_file import ErrorFile
from spark_kafka_sink.spark.reports.planning_file import PlanningData, PlanningFile
from spark_kafka_sink.spark.reports.report_paths import StreamIdentity, query_id
from spark_kafka_sink.spark.runtime.internals import (
    BATCH_ID,
    JOB_DESCRIPTION,
    QUERY_ID,
    local_property,
    query_name,
    startup_ms,
)

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_report import DeliveryReport


_Origin = TypeVar("_Origin", bound="WriteOrigin")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrigin:
    """Where a write comes from: its query, its batch, and its planning.

    It is pickled with the writer, and tasks copy it into their reports.
    """

    started_at: str = ""
    """Time of planning, or time when the planning worker started, as returned by `utc_timestamp`;
    empty if unknown.
    """
    started_s: float = 0.0
    """The same time in seconds of the monotonic clock, which all processes of a machine share."""
    startup_ms: int = 0
    """Milliseconds that the planning worker took to start."""
    query_name: str = ""
    """Name of the streaming query; empty if the query has no name."""
    checkpoint: str = ""
    """The option checkpointLocation of a stream."""
    query_id: str = ""
    """Id of the streaming query of a `write` within foreachBatch; otherwise empty."""
    batch_id: int | None = None
    """Number of the micro-batch of a `write` within foreachBatch; otherwise None."""
    error_file: ErrorFile = field(default_factory=ErrorFile)
    """File in which tasks store their errors."""
    planning_file: PlanningFile = field(default_factory=PlanningFile)
    """File in which planning stores a micro-batch's data for abort()."""

    @classmethod
    def of_write(cls, query_id: str = "", batch_id: int | None = None) -> Self:
        """Return the origin of a batch write that is being planned, perhaps in foreachBatch."""
        error_file = ErrorFile.of_write()
        return _starting_now(cls(query_id=query_id, batch_id=batch_id, error_file=error_file))

    @classmethod
    def of_stream(
        cls, stream: StreamIdentity, prefix: str = "", *, is_planning: bool = True
    ) -> Self:
        """Return the origin of a stream's micro-batch.

        Args:
            stream: the stream.
            prefix: its transactionalIdPrefix.
            is_planning: False if the micro-batch is being committed or aborted.
        """
        planning_file = PlanningFile.of(stream, prefix)
        origin = cls(
            query_name=stream.query_name,
            checkpoint=stream.checkpoint,
            error_file=ErrorFile.of_micro_batch(planning_file, is_planning=is_planning),
            planning_file=planning_file,
        )
        return _starting_now(origin)

    @property
    def planned(self) -> PlanningData:
        """The data that planning stores for abort(), without those of exactly-once."""
        return PlanningData(
            at=self.started_at, started_s=self.started_s, error_file=self.error_file.path
        )

    def add_to(self, report: DeliveryReport) -> DeliveryReport:
        """Return the report with the query and the micro-batch of this thread's task.

        Planning does not know the name of a query whose foreachBatch function writes.
        """
        query = local_property(QUERY_ID) or ""
        return replace(
            report,
            started_at=self.started_at,
            query_name=self.query_name or query_name(local_property(JOB_DESCRIPTION), query),
            query_id=query,
            batch_id=batch_number(local_property(BATCH_ID)),
        )

    def completed(self, report: DeliveryReport, batch_id: int | None) -> DeliveryReport:
        """Complete the report of a write that just ended; `batch_id` is None for a batch write."""
        written_at = utc_timestamp()
        started_at = report.started_at or self.started_at
        numbers = batch_id, report.batch_id, self.batch_id
        return replace(
            report,
            started_at=started_at,
            written_at=written_at,
            duration_ms=self._duration_ms(started_at, written_at),
            query_name=report.query_name or self.query_name,
            query_id=report.query_id or self.query_id or query_id(self.checkpoint),
            batch_id=next((number for number in numbers if number is not None), None),
        )

    def _duration_ms(self, started_at: str, written_at: str) -> int:
        """Return the milliseconds since the planning of the write; 0 if unknown.

        The wall clock is used only for a stream without a planning file.
        """
        if not started_at:
            return 0
        started_s = self.started_s
        if started_at != self.started_at:
            planned = self.planning_file.read()
            started_s = planned.started_s if started_at == planned.at else 0.0
        if started_s:
            return max(0, round((time.monotonic() - started_s) * 1000))
        return max(0, _elapsed_ms(started_at, written_at))


def batch_number(text: str | None) -> int | None:
    """Return the number of a micro-batch from a local property; None outside a stream."""
    return int(text) if text is not None and text.isdecimal() else None


def _starting_now(origin: _Origin) -> _Origin:
    startup = startup_ms()
    return replace(
        origin,
        started_at=utc_timestamp(startup),
        started_s=time.monotonic() - startup / 1000,
        startup_ms=startup,
    )


def _elapsed_ms(start: str, end: str) -> int:
    """Return the milliseconds from `start` to `end`."""
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return round(passed.total_seconds() * 1000)


def utc_timestamp(ago_ms: int = 0) -> str:
    """Return the current time, or the time `ago_ms` ago, in UTC as ISO 8601 with milliseconds."""
    return (datetime.now(UTC) - timedelta(milliseconds=ago_ms)).isoformat(timespec="milliseconds")
