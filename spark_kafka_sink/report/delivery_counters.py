"""The counters of a delivery report, the rules by which they are merged, and the JSON form."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.common.histogram import Histogram
from spark_kafka_sink.report.bad_row_count import BadRowCount
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.metrics.merging import (
    distinct,
    flat,
    highest,
    histogram_field,
    merged_field,
    readers_of,
    summed_field,
)
from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_report import COLUMNS, TaskReport
from spark_kafka_sink.report.write_status import WriteStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.common.delivery_status import PartitionStatus
    from spark_kafka_sink.report.task_attempt import TaskAttempt


VERSION = 1
"""Version of the JSON format."""
SLOWEST_KEPT = 10
"""Maximum number of slowest tasks in a report."""
TASKS_KEPT = 10_000
"""Maximum number of tasks listed with report.tasks=all. If there are more, only the slowest are
listed.
"""
_TOTALS = ("rows", "records", "persisted", "would_be_written", "dead_lettered", "dropped")
_TASK_ROWS = "task_rows"
"""The last field of the JSON: the values of each of `task_reports`."""
_AND = " + "
"""Separates the outcomes of a merged report."""
_LATENCY_NAMES = {
    **{name: f"{name}_us" for name in ("mean", "p50", "p99", "total")},
    "low": "min_us",
    "high": "max_us",
}
"""Names in the report for the names in `Histogram.to_dict`, because times have a unit."""


def _slowest(tasks: Iterable[TaskReport]) -> list[TaskReport]:
    return sorted(tasks, reverse=True)


def _sum_errors(errors: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for name, times in errors:
        counts[name] += times
    return sorted(counts.items())


def _join_outcomes(outcomes: Iterable[str]) -> str:
    """Return all different outcomes; an outcome can itself be the result of a merge."""
    return _AND.join(
        distinct(outcome for text in outcomes for outcome in text.split(_AND) if outcome)
    )


def _earliest(times: Iterable[str]) -> str:
    return min(filter(None, times), default="")


def _any_error(errors: Iterable[str]) -> str:
    """Return one of the errors: the last in alphabetical order, whatever the order of reports."""
    return max(errors)


def _identity(value: Any) -> Any:
    return value


def _worst(statuses: Iterable[WriteStatus]) -> WriteStatus:
    return max(statuses, key=tuple(WriteStatus).index)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReportedTransaction:
    """A transaction that a task left open for the driver to commit or abort."""

    transactional_id: str
    """Transactional id of one attempt of a task; with atomicBatch=true, the id that all tasks
    share.
    """
    producer_id: int
    """Producer id of the transaction's batches in the log."""
    epoch: int
    """Producer epoch in these batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryCounters:
    """Counters of a write. Times are in milliseconds, histograms in microseconds.

    Merging is associative and commutative, and an empty report is its neutral element. The size is
    bounded by the number of partitions and error names, not by the number of tasks or records.
    """

    version: int = VERSION
    """Version of this format; newer versions are rejected."""
    status: WriteStatus = merged_field(_worst, WriteStatus.SUCCEEDED, WriteStatus)
    """`succeeded`, `failed`, or `running` from the start of the write until its end."""
    error: str = merged_field(_any_error, "", str)
    """Why the write failed, or what is missing from this report; otherwise empty."""
    dry_run: bool = merged_field(any, False, bool)
    """True if nothing was sent, and all counters refer to what would have been sent (dryRun=true).
    """
    transaction_outcome: str = merged_field(_join_outcomes, "", str)
    """For exactly-once writes, how the batch became visible: `committed`, `rolled forward` (decided
    by an earlier driver), `already written`, `empty`, or `aborted`. Records of an aborted batch
    count as `persisted`, although consumers with isolation.level=read_committed receive none of
    them. If another run has written the batch, this run's records are not counted. If transactions
    may still be open, their ids and the reason are included. A sum of reports contains all their
    outcomes, such as `aborted + committed`. Empty without exactly-once.
    """
    query_name: str = merged_field(max, "", str)
    """Name of the streaming query; empty if it has none, and for a batch write."""
    query_id: str = merged_field(max, "", str)
    """Id of the streaming query, if a task has reported it; also set for writes within
    foreachBatch.
    """
    batch_id: int | None = merged_field(highest, None, _identity)
    """Number of the micro-batch, or of the last one if several reports are merged; None for a batch
    write.
    """
    started_at: str = merged_field(_earliest, "", str)
    """When the driver planned the write, in UTC as ISO 8601; empty if unknown. If Spark started a
    Python worker for the planning, this is the time when the worker started.
    """
    written_at: str = merged_field(max, "", str)
    """When the driver wrote the report, in UTC as ISO 8601; empty until then."""
    duration_ms: int = summed_field()
    """Milliseconds of the whole write on the driver, from `started_at` to its end, including
    Spark's own part; the sum if several writes are merged; 0 if unknown. A monotonic clock measures
    it, except for a stream without `queryName`, `checkpointLocation` and `transactionalIdPrefix`.
    """
    startup_ms: int = summed_field()
    """Milliseconds of `duration_ms` in which Python workers started, before they planned, asked for
    their first rows, or committed. Of all tasks, only the slowest start counts. 0 if all workers
    were already running, and on systems other than Linux. The worker that looks up the format, once
    in a session, is not included.
    """
    tasks: int = summed_field()
    """Number of tasks that wrote."""
    retried_tasks: int = summed_field()
    """Number of tasks whose report comes from a second or later attempt; records that a failed
    first attempt has written are not counted. If Spark runs a stage again, as after the loss of
    an executor with shuffle files, it numbers attempts from 0, and PySpark does not expose the
    attempt number of the stage: such tasks are not counted here.
    """
    partitions: tuple[PartitionReport, ...] = merged_field(flat(PartitionReport.merge_all), ())
    """Counters of each partition, without duplicates, sorted by topic and partition."""
    retries: int = summed_field()
    """Number of times that a batch was sent again."""
    splits: int = summed_field()
    """Number of batches that the broker rejected for their size and that were split and sent again.
    """
    errors: tuple[tuple[str, int], ...] = merged_field(flat(_sum_errors), ())
    """Kafka's names of the errors that occurred, including retried errors, with their counts."""
    request_latency: Histogram = histogram_field(read=None)
    """Time from sending a request to its response."""
    queue_latency: Histogram = histogram_field(read=None)
    """Time from opening a batch to sending it for the first time."""
    throttle_ms: int = summed_field()
    """Milliseconds of throttling requested by the brokers because of quotas."""
    duration_max_ms: int = merged_field(max, read=int)
    """Milliseconds of the slowest task, from its first rows; computing those rows is not included.
    """
    duration_sum_ms: int = summed_field()
    """Total milliseconds of all tasks."""
    slowest: tuple[TaskReport, ...] = merged_field(flat(_slowest, SLOWEST_KEPT), ())
    """The slowest tasks, slowest first, at most `SLOWEST_KEPT`."""
    task_reports: tuple[TaskReport, ...] = merged_field(flat(_slowest, TASKS_KEPT), ())
    """With report.tasks=all, every task, slowest first, at most `TASKS_KEPT`."""
    transactions: tuple[ReportedTransaction, ...] = merged_field(flat(sorted, TASKS_KEPT), ())
    """Transactions that tasks wrote in, sorted by id: at most ten, or 10,000 with report.tasks=all.
    Their outcome is in `transaction_outcome`. Empty if an earlier driver had decided the batch, and
    without exactly-once.
    """
    metrics: ProducerMetrics = merged_field(ProducerMetrics.merge_all, ProducerMetrics())
    """Metrics of the producers."""
    poison: tuple[BadRowCount, ...] = merged_field(flat(BadRowCount.merge_all), ())
    """Rows that could not be written, by reason; only with errors.tolerance=all."""
    codecs: tuple[CodecCost, ...] = merged_field(flat(CodecCost.merge_all), ())
    """Size and cost of a sample of the batches with each codec; only for a dry run."""

    @property
    def records(self) -> int:
        """Number of records handed to the producer, whatever their outcome."""
        return sum(partition.records for partition in self.partitions)

    @property
    def persisted(self) -> int:
        """Number of acknowledged records; only these count as delivered."""
        return sum(partition.persisted for partition in self.partitions)

    @property
    def would_be_written(self) -> int:
        """Number of records that a dry run processed without sending them."""
        return sum(partition.would_be_written for partition in self.partitions)

    @property
    def successful_records(self) -> int:
        """Number of acknowledged records plus the records that a dry run processed."""
        return sum(partition.successful_records for partition in self.partitions)

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
        return sum(partition.batches for partition in self.partitions)

    @property
    def bytes_uncompressed(self) -> int:
        """Bytes of the batches before compression."""
        return sum(partition.bytes_uncompressed for partition in self.partitions)

    @property
    def bytes_sent(self) -> int:
        """Bytes of the batches after compression."""
        return sum(partition.bytes_sent for partition in self.partitions)

    def per_second(self, count: int) -> float:
        """Return the rate of a count during the write, or 0 if no duration is known.

        Rates refer to the whole write if its duration is known, otherwise to the slowest task. They
        exclude the start of Python workers, which does not depend on the number of records.
        """
        startup_ms = self.startup_ms if self.startup_ms < self.duration_ms else 0
        ms = (self.duration_ms or self.duration_max_ms) - startup_ms
        return count * 1000 / ms if ms else 0.0

    def statuses(self) -> tuple[PartitionStatus, ...]:
        """Return every outcome other than "persisted", in the form used by `DeliveryError`."""
        return tuple(status for partition in self.partitions for status in partition.statuses())

    def with_task(self, task: TaskAttempt) -> Self:
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

    def to_json(self, *, compact: bool = False) -> str:
        """Return the report as JSON, starting with the version; `compact` omits line breaks.

        Without `compact`, the JSON is indented, with each task on one line.
        """
        values = self._to_dict()
        if compact:
            return json.dumps(values, separators=(",", ":"))
        texts = [f'  "{name}": {_indented(name, value)}' for name, value in values.items()]
        return "{\n" + ",\n".join(texts) + "\n}"

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

    def _to_dict(self) -> dict[str, Any]:
        return {
            **{
                name: getattr(self, name)
                for name in ("version", *readers_of(DeliveryCounters), *_TOTALS)
            },
            "errors": dict(self.errors),
            "request_latency": _latency_to_dict(self.request_latency),
            "queue_latency": _latency_to_dict(self.queue_latency),
            "slowest": [task.to_dict() for task in self.slowest],
            "transactions": [asdict(transaction) for transaction in self.transactions],
            "metrics": self.metrics.to_dict(),
            "poison": [asdict(count) for count in self.poison],
            "codecs": [asdict(cost) for cost in self.codecs],
            "partitions": [partition.to_dict() for partition in self.partitions],
            "task_columns": list(COLUMNS),
            _TASK_ROWS: [task.to_row() for task in self.task_reports],
        }

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            **{name: read(data[name]) for name, read in readers_of(DeliveryCounters).items()},
            errors=tuple(sorted((str(name), int(n)) for name, n in data["errors"].items())),
            request_latency=_latency_from_dict(data["request_latency"]),
            queue_latency=_latency_from_dict(data["queue_latency"]),
            slowest=tuple(TaskReport.from_dict(task) for task in data["slowest"]),
            task_reports=tuple(
                TaskReport.from_row(data["task_columns"], row) for row in data[_TASK_ROWS]
            ),
            transactions=tuple(
                ReportedTransaction(**transaction) for transaction in data["transactions"]
            ),
            metrics=ProducerMetrics.from_dict(data["metrics"]),
            poison=tuple(BadRowCount.from_dict(count) for count in data["poison"]),
            codecs=tuple(CodecCost.from_dict(cost) for cost in data["codecs"]),
            partitions=tuple(
                PartitionReport.from_dict(partition) for partition in data["partitions"]
            ),
        )


def _latency_to_dict(times: Histogram) -> dict[str, Any]:
    """Return the JSON object. Mean and percentiles are only for human readers."""
    return {_LATENCY_NAMES.get(name, name): value for name, value in times.to_dict().items()}


def _latency_from_dict(data: Mapping[str, Any]) -> Histogram:
    """Parse the result of `_latency_to_dict`."""
    names = {json_name: name for name, json_name in _LATENCY_NAMES.items()}
    return Histogram.from_dict({names.get(name, name): value for name, value in data.items()})


def _indented(name: str, value: Any) -> str:
    """Return a field's JSON in an indented report; each task's row is on one line."""
    if name == _TASK_ROWS and value:
        return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in value) + "\n  ]"
    return json.dumps(value, indent=2).replace("\n", "\n  ")


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
