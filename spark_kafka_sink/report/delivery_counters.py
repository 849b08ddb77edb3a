"""The counters of a delivery report, how they are merged, and the report's JSON form."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.metrics.histogram import Histogram
from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_report import COLUMNS, TaskInfo, TaskReport, TransactionInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_kafka_sink.common.delivery_status import PartitionStatus
    from spark_kafka_sink.report.packed_columns import BrokerColumns, PartitionColumns


EXAMPLES_KEPT = 5
"""Maximum number of examples per reason in a merged report."""
VERSION = 1
"""Version of the JSON format."""
SLOWEST_KEPT = 10
TASKS_KEPT = 10_000
"""Maximum number of tasks listed with report.tasks=all. If there are more, only the slowest are
listed.
"""
_COUNTERS = (
    "tasks",
    "retried_tasks",
    "retries",
    "splits",
    "throttle_ms",
    "duration_max_ms",
    "duration_sum_ms",
)
_FACTS = (
    *("version", "status", "error", "dry_run", "transaction_outcome", "query_name", "query_id"),
    *("batch_id", "started_at", "written_at", "duration_ms", "startup_ms"),
)
_TOTALS = ("rows", "records", "persisted", "would_be_written", "dead_lettered", "dropped")
_LATEST = ("error", "query_name", "query_id", "written_at")
"""Text fields for which a merged report contains the greatest value."""
_TEXTS = (*_LATEST, "started_at", "transaction_outcome")
_AND = " + "
"""Separates the outcomes of a merged report."""
_SUMMED = ("duration_ms", "startup_ms", *(name for name in _COUNTERS if name != "duration_max_ms"))
_LATENCY_NAMES = {
    **{name: f"{name}_us" for name in ("mean", "p50", "p99", "total")},
    "low": "min_us",
    "high": "max_us",
}
"""Names in the report for the names in `Histogram.to_dict`, because times have a unit."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PoisonCount:
    """Rows that could not be written for the same reason.

    They were sent to the dead letter topic, or dropped.
    """

    reason: str
    """Name of the reason."""
    dead_lettered: int = 0
    """Number of rows sent to the dead letter topic."""
    dropped: int = 0
    """Number of rows dropped because there is no dead letter topic."""
    examples: tuple[str, ...] = ()
    """Descriptions of a few of these rows."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the JSON object, which has the same fields."""
        return cls(
            reason=str(data["reason"]),
            dead_lettered=int(data["dead_lettered"]),
            dropped=int(data["dropped"]),
            examples=tuple(str(example) for example in data["examples"]),
        )

    @classmethod
    def merge_all(cls, counts: Iterable[PoisonCount]) -> tuple[Self, ...]:
        """Add up the counts, one per reason, sorted."""
        dead_lettered: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        examples: dict[str, set[str]] = {}
        for count in counts:
            dead_lettered[count.reason] += count.dead_lettered
            dropped[count.reason] += count.dropped
            examples.setdefault(count.reason, set()).update(count.examples)
        return tuple(
            cls(
                reason=reason,
                dead_lettered=dead_lettered[reason],
                dropped=dropped[reason],
                examples=tuple(sorted(examples[reason])[:EXAMPLES_KEPT]),
            )
            for reason in sorted(examples)
        )


class WriteStatus(StrEnum):
    """Status of a write or micro-batch.

    A merged report has the status that is last in this order.
    """

    SUCCEEDED = "succeeded"
    """Every record is acknowledged, except records that the options exempt: poison rows, acks=0."""
    RUNNING = "running"
    """The write has begun. If a report keeps this status, the driver has died."""
    FAILED = "failed"
    """The write failed; the report counts what the finished tasks delivered."""


_STATUSES = tuple(WriteStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryCounters:
    """Counters of a write. Times are in milliseconds, histograms in microseconds.

    Merging is associative and commutative, and an empty report is its neutral element. The size is
    bounded by the number of partitions and error names, not by the number of tasks or records.
    """

    version: int = VERSION
    """Version of this format; newer versions are rejected."""
    status: WriteStatus = WriteStatus.SUCCEEDED
    """`succeeded`, `failed`, or `running` from the start of the write until its end."""
    error: str = ""
    """Why the write failed, or what is missing from this report; otherwise empty."""
    dry_run: bool = False
    """True if nothing was sent, and all counters refer to what would have been sent (dryRun=true).
    """
    transaction_outcome: str = ""
    """For exactly-once writes, how the batch became visible: `committed`, `rolled forward` (decided
    by an earlier driver), `already written`, `empty`, or `aborted`. Records of an aborted batch
    count as `persisted`, although consumers with isolation.level=read_committed receive none of
    them. If another run has written the batch, this run's records are not counted. If transactions
    may still be open, their ids and the reason are included. A sum of reports contains all their
    outcomes, such as `aborted + committed`. Empty without exactly-once.
    """
    query_name: str = ""
    """Name of the streaming query; empty if it has none, and for a batch write."""
    query_id: str = ""
    """Id of the streaming query, if a task has reported it; also set for writes within
    foreachBatch.
    """
    batch_id: int | None = None
    """Number of the micro-batch, or of the last one if several reports are merged; None for a batch
    write.
    """
    started_at: str = ""
    """When the driver planned the write, in UTC as ISO 8601; empty if unknown. If Spark started a
    Python worker for the planning, this is the time when the worker started.
    """
    written_at: str = ""
    """When the driver wrote the report, in UTC as ISO 8601; empty until then."""
    duration_ms: int = 0
    """Milliseconds of the whole write on the driver, from `started_at` to its end, including
    Spark's own part; the sum if several writes are merged; 0 if unknown. A monotonic clock measures
    it, except for a stream without `queryName`, `checkpointLocation` and `transactionalIdPrefix`.
    """
    startup_ms: int = 0
    """Milliseconds of `duration_ms` in which Python workers started, before they planned, asked for
    their first rows, or committed. Of all tasks, only the slowest start counts. 0 if all workers
    were already running, and on systems other than Linux. The worker that looks up the format, once
    in a session, is not included.
    """
    tasks: int = 0
    """Number of tasks that wrote."""
    retried_tasks: int = 0
    """Number of tasks whose report comes from a second or later attempt; records that a failed
    first attempt has written are not counted. If Spark runs a stage again, as after the loss of
    an executor with shuffle files, it numbers attempts from 0, and PySpark does not expose the
    attempt number of the stage: such tasks are not counted here.
    """
    partitions: tuple[PartitionReport, ...] = ()
    """Counters of each partition, without duplicates, sorted by topic and partition."""
    retries: int = 0
    """Number of times that a batch was sent again."""
    splits: int = 0
    """Number of batches that the broker rejected for their size and that were split and sent again.
    """
    errors: tuple[tuple[str, int], ...] = ()
    """Kafka's names of the errors that occurred, including retried errors, with their counts."""
    request_latency: Histogram = field(default_factory=Histogram)
    """Time from sending a request to its response."""
    queue_latency: Histogram = field(default_factory=Histogram)
    """Time from opening a batch to sending it for the first time."""
    throttle_ms: int = 0
    """Milliseconds of throttling requested by the brokers because of quotas."""
    duration_max_ms: int = 0
    """Milliseconds of the slowest task, from its first rows; computing those rows is not included.
    """
    duration_sum_ms: int = 0
    """Total milliseconds of all tasks."""
    slowest: tuple[TaskReport, ...] = ()
    """The slowest tasks, slowest first, at most `SLOWEST_KEPT`."""
    task_reports: tuple[TaskReport, ...] = ()
    """With report.tasks=all, every task, slowest first, at most `TASKS_KEPT`."""
    transactions: tuple[TransactionInfo, ...] = ()
    """Transactions that tasks wrote in, sorted by id: at most ten, or 10,000 with report.tasks=all.
    Their outcome is in `transaction_outcome`. Empty if an earlier driver had decided the batch, and
    without exactly-once.
    """
    metrics: ProducerMetrics = field(default_factory=ProducerMetrics)
    """Metrics of the producers."""
    poison: tuple[PoisonCount, ...] = ()
    """Rows that could not be written, by reason; only with errors.tolerance=all."""
    codecs: tuple[CodecCost, ...] = ()
    """Size and cost of a sample of the batches with each codec; only for a dry run."""

    @property
    def records(self) -> int:
        """Number of records handed to the producer, whatever their outcome."""
        return sum(part.records for part in self.partitions)

    @property
    def persisted(self) -> int:
        """Number of acknowledged records; only these count as delivered."""
        return sum(part.persisted for part in self.partitions)

    @property
    def would_be_written(self) -> int:
        """Number of records that a dry run processed without sending them."""
        return sum(part.would_be_written for part in self.partitions)

    @property
    def as_intended(self) -> int:
        """Number of acknowledged records plus the records that a dry run processed."""
        return sum(part.as_intended for part in self.partitions)

    @property
    def dead_lettered(self) -> int:
        """Number of rows sent to the dead letter topic, which are included in `records`."""
        return sum(count.dead_lettered for count in self.poison)

    @property
    def dropped(self) -> int:
        """Number of rows that could not be written and were dropped."""
        return sum(count.dropped for count in self.poison)

    @property
    def rows(self) -> int:
        """Number of rows in the DataFrame: `records`, including dead letters, and dropped rows."""
        return self.records + self.dropped

    @property
    def batches(self) -> int:
        """Number of batches of acknowledged or sent records."""
        return sum(part.batches for part in self.partitions)

    @property
    def bytes_uncompressed(self) -> int:
        """Bytes of the batches before compression."""
        return sum(part.bytes_uncompressed for part in self.partitions)

    @property
    def bytes_sent(self) -> int:
        """Bytes of the batches after compression."""
        return sum(part.bytes_sent for part in self.partitions)

    @property
    def active_ms(self) -> int:
        """Milliseconds of the whole write without the start of Python workers; 0 if unknown."""
        return max(0, self.duration_ms - self.startup_ms)

    def statuses(self) -> tuple[PartitionStatus, ...]:
        """Return every outcome other than "persisted", in the form used by `DeliveryError`."""
        return tuple(status for part in self.partitions for status in part.statuses())

    def of_task(self, task: TaskInfo) -> Self:
        """Return this report with the line of its only task."""
        line = TaskReport(
            duration_ms=self.duration_max_ms,
            task=task,
            records=self.records,
            bytes_sent=self.bytes_sent,
            retries=self.retries,
            poison=self.dead_lettered + self.dropped,
        )
        return replace(self, slowest=(line,))

    def merge(self, other: Self) -> Self:
        """Add up two reports."""
        return self.merge_all((self, other))

    @classmethod
    def merge_all(cls, reports: Iterable[DeliveryCounters]) -> Self:
        """Merge any number of reports in a single pass."""
        return cls().split().merge([report.split() for report in reports]).join()

    def split(self) -> ReportParts[Self]:
        """Return the report as parts."""
        from spark_kafka_sink.report.packed_columns import BrokerColumns, PartitionColumns

        return ReportParts(
            PartitionColumns.of(self.partitions),
            BrokerColumns.of(self.metrics.brokers),
            replace(self, partitions=(), metrics=replace(self.metrics, brokers=())),
        )

    @classmethod
    def merge_few(cls, reports: Sequence[DeliveryCounters]) -> Self:
        """Merge reports with few partitions, without NumPy, whose import takes 0.1 s."""
        partitions = PartitionReport.merge_all(
            part for report in reports for part in report.partitions
        )
        return replace(cls.merge_others(reports), partitions=partitions)

    @classmethod
    def merge_others(cls, reports: Sequence[DeliveryCounters]) -> Self:
        """Merge everything except partitions and brokers; see `ReportParts`."""
        slowest = sorted((task for report in reports for task in report.slowest), reverse=True)
        tasks = sorted((task for report in reports for task in report.task_reports), reverse=True)
        transactions = sorted(
            transaction for report in reports for transaction in report.transactions
        )
        merged: dict[str, Any] = {
            name: max((getattr(report, name) for report in reports), default="") for name in _LATEST
        }
        merged |= {name: sum(getattr(report, name) for report in reports) for name in _SUMMED}
        return cls(
            status=max(
                (report.status for report in reports),
                key=_STATUSES.index,
                default=WriteStatus.SUCCEEDED,
            ),
            dry_run=any(report.dry_run for report in reports),
            batch_id=max(
                (n for report in reports if (n := report.batch_id) is not None), default=None
            ),
            started_at=min((at for report in reports if (at := report.started_at)), default=""),
            duration_max_ms=max((report.duration_max_ms for report in reports), default=0),
            errors=_merge_errors(reports),
            transaction_outcome=_merge_outcomes(reports),
            request_latency=Histogram.merge_all(report.request_latency for report in reports),
            queue_latency=Histogram.merge_all(report.queue_latency for report in reports),
            slowest=tuple(slowest[:SLOWEST_KEPT]),
            task_reports=tuple(tasks[:TASKS_KEPT]),
            transactions=tuple(transactions[:TASKS_KEPT]),
            metrics=ProducerMetrics.merge_all(report.metrics for report in reports),
            poison=PoisonCount.merge_all(count for report in reports for count in report.poison),
            codecs=CodecCost.merge_all(cost for report in reports for cost in report.codecs),
            **merged,
        )

    def to_json(self, *, compact: bool = False) -> str:
        """Return the report as JSON, starting with the version; `compact` omits line breaks.

        Without `compact`, the JSON is indented, with each task on one line.
        """
        if compact:
            lines = [task.to_row() for task in self.task_reports]
            return json.dumps({**self._to_dict(), "task_rows": lines}, separators=(",", ":"))
        text = json.dumps(self._to_dict(), indent=2)
        if not self.task_reports:
            return text
        rows = ",\n".join(f"    {json.dumps(task.to_row())}" for task in self.task_reports)
        return text.removesuffix("]\n}") + f"\n{rows}\n  ]\n}}"

    def _to_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in (*_FACTS, *_TOTALS, *_COUNTERS)},
            "errors": dict(self.errors),
            "request_latency": _latency_to_dict(self.request_latency),
            "queue_latency": _latency_to_dict(self.queue_latency),
            "slowest": [task.to_dict() for task in self.slowest],
            "transactions": [asdict(transaction) for transaction in self.transactions],
            "metrics": self.metrics.to_dict(),
            "poison": [asdict(count) for count in self.poison],
            "codecs": [asdict(cost) for cost in self.codecs],
            "partitions": [part.to_dict() for part in self.partitions],
            "task_columns": list(COLUMNS),
            "task_rows": [],  # `to_json` fills this last field.
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse the result of `to_json`.

        Raises:
            ReportError: the text is not a report, or has a newer version.
        """
        data = _load(text)
        _check_version(data)
        try:
            return cls._from_dict(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            kind = type(error).__name__
            raise ReportError(f"not a delivery report, or damaged: {kind} {error}") from error

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = {name: str(data[name]) for name in _TEXTS}
        values |= {name: int(data[name]) for name in ("duration_ms", "startup_ms", *_COUNTERS)}
        return cls(
            **values,
            status=WriteStatus(data["status"]),
            dry_run=bool(data["dry_run"]),
            batch_id=data["batch_id"],
            errors=tuple(sorted((str(name), int(n)) for name, n in data["errors"].items())),
            request_latency=_latency_from_dict(data["request_latency"]),
            queue_latency=_latency_from_dict(data["queue_latency"]),
            slowest=tuple(TaskReport.from_dict(task) for task in data["slowest"]),
            task_reports=tuple(
                TaskReport.from_row(data["task_columns"], row) for row in data["task_rows"]
            ),
            transactions=tuple(
                TransactionInfo(**transaction) for transaction in data["transactions"]
            ),
            metrics=ProducerMetrics.from_dict(data["metrics"]),
            poison=tuple(PoisonCount.from_dict(count) for count in data["poison"]),
            codecs=tuple(CodecCost.from_dict(cost) for cost in data["codecs"]),
            partitions=tuple(
                PartitionReport.from_dict(partition) for partition in data["partitions"]
            ),
        )


R_co = TypeVar("R_co", bound=DeliveryCounters, covariant=True)


@dataclass(frozen=True, slots=True)
class ReportParts(Generic[R_co]):
    """A report with partitions and brokers as columns, which are merged without objects."""

    partitions: PartitionColumns
    brokers: BrokerColumns
    others: R_co
    """The report without partitions and brokers."""

    def join(self) -> R_co:
        """Return the whole report."""
        metrics = replace(self.others.metrics, brokers=self.brokers.to_metrics())
        return replace(self.others, partitions=self.partitions.to_reports(), metrics=metrics)

    def merge(self, others: Sequence[ReportParts[DeliveryCounters]]) -> Self:
        """Add up reports. The result has the class of this report."""
        from spark_kafka_sink.report.packed_columns import BrokerColumns, PartitionColumns

        return type(self)(
            PartitionColumns.merge_all((self.partitions, *(other.partitions for other in others))),
            BrokerColumns.merge_all((self.brokers, *(other.brokers for other in others))),
            self.others.merge_others((self.others, *(other.others for other in others))),
        )


def _latency_to_dict(times: Histogram) -> dict[str, Any]:
    """Return the JSON object. Mean and percentiles are only for human readers."""
    return {_LATENCY_NAMES.get(name, name): value for name, value in times.to_dict().items()}


def _latency_from_dict(data: Mapping[str, Any]) -> Histogram:
    """Parse the result of `_latency_to_dict`."""
    names = {there: here for here, there in _LATENCY_NAMES.items()}
    return Histogram.from_dict({names.get(name, name): value for name, value in data.items()})


def _merge_errors(reports: Iterable[DeliveryCounters]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(dict(report.errors))
    return tuple(sorted(counts.items()))


def _merge_outcomes(reports: Iterable[DeliveryCounters]) -> str:
    """Return all different outcomes; the reports can be merged themselves."""
    return _AND.join(
        sorted(
            {
                outcome
                for report in reports
                for outcome in report.transaction_outcome.split(_AND)
                if outcome
            }
        )
    )


def _load(text: str | bytes) -> dict[str, Any]:
    if not isinstance(text, str | bytes):
        raise ReportError(f"not the text of a delivery report: {type(text).__name__}")
    if not text.strip():
        raise ReportError("not a delivery report: empty")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ReportError(f"not a delivery report: invalid JSON: {error}") from error
    if not isinstance(data, dict):
        raise ReportError(f"not a delivery report: JSON {type(data).__name__}")
    return data


def _check_version(data: Mapping[str, Any]) -> None:
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ReportError(f"not a delivery report: its version is {version!r}")
    if version > VERSION:
        raise ReportError(
            f"the delivery report has version {version}; this package supports up to {VERSION}",
            hint="Install a newer spark-kafka-sink to read it.",
        )
