"""What only the driver knows of a write: when it was planned, and which query it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.spark.reports.checkpoint import query_id
from spark_kafka_sink.spark.reports.error_file import ErrorFile
from spark_kafka_sink.spark.reports.plan_file import PlanFile
from spark_kafka_sink.spark.session_conf import BATCH_ID, QUERY_ID, setting

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.reports.stream_reports import StreamIdentity


def now() -> str:
    """The time in UTC as ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrigin:
    """Goes with the writer to its tasks, and comes back with their reports."""

    started_at: str = ""
    """When the write was planned, as `now` tells it; empty where that is unknown."""
    query_name: str = ""
    """The streaming query's name, empty without one."""
    checkpoint: str = ""
    """The option checkpointLocation of a stream."""
    error_file: ErrorFile = field(default_factory=ErrorFile)
    """Where the tasks leave what has failed them."""
    plan_file: PlanFile = field(default_factory=PlanFile)
    """Where planning leaves what abort() needs of a micro-batch."""

    @classmethod
    def of_write(cls) -> Self:
        """Of a batch write that is planned now."""
        return cls(started_at=now(), error_file=ErrorFile.of_write())

    @classmethod
    def of_stream(cls, stream: StreamIdentity, prefix: str = "") -> Self:
        """Of a micro-batch of a stream; `prefix` is its transactionalIdPrefix, if it has one."""
        return cls(
            started_at=now(),
            query_name=stream.query_name,
            checkpoint=stream.checkpoint,
            error_file=ErrorFile.of_micro_batches(stream),
            plan_file=PlanFile.of(stream, prefix),
        )

    def of_task(self, report: DeliveryReport) -> DeliveryReport:
        """The report of the task that runs in this thread, with its query and micro-batch."""
        batch = setting(BATCH_ID)
        return replace(
            report,
            started_at=self.started_at,
            query_name=self.query_name,
            query_id=setting(QUERY_ID) or "",
            batch_id=int(batch) if batch is not None and batch.isdecimal() else None,
        )

    def completed(self, report: DeliveryReport, batch_id: int | None) -> DeliveryReport:
        """The report of the whole write, which ends now; `batch_id` is that of a micro-batch."""
        written_at, started_at = now(), report.started_at or self.started_at
        return replace(
            report,
            started_at=started_at,
            written_at=written_at,
            duration_ms=_milliseconds(started_at, written_at) if started_at else 0,
            query_name=report.query_name or self.query_name,
            query_id=report.query_id or query_id(self.checkpoint),
            batch_id=report.batch_id if batch_id is None else batch_id,
        )


def _milliseconds(start: str, end: str) -> int:
    """Between two times of the wall clock, which may have been set back."""
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0, round(passed.total_seconds() * 1000))
