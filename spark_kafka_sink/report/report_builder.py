"""Collects the delivery report of a producer session."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.histogram import HistogramBuilder
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.metrics.metrics_recorder import (
    BufferUsage,
    MetricsRecorder,
    TopicCounts,
)
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.progress_counts import ProgressCounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.report.bad_row_count import BadRowCount
    from spark_kafka_sink.report.task_attempt import TaskAttempt

_UNUSED_BUFFER = BufferUsage()
_NO_TOPICS = TopicCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBatch:
    """A sent batch: its partition, its records, and its size before and after compression."""

    topic: str
    partition: int
    records: int
    bytes_uncompressed: int
    bytes_sent: int
    next_sequence: int | None = None
    """Sequence number after the batch's last record; None without idempotence."""
    append_time: int | None = None
    """LogAppendTime in milliseconds since 1970, if the broker returned it."""


@dataclass(slots=True)
class _PartitionTally:
    """Mutable counters of one partition, with the names of `PartitionReport`."""

    records: Counter[DeliveryStatus] = field(default_factory=Counter)
    batches: int = 0
    bytes_uncompressed: int = 0
    bytes_sent: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    leader: int | None = None
    next_ack_seq: int | None = None
    next_err_seq: int | None = None
    first_append_time: int | None = None
    last_append_time: int | None = None

    def add(self, batch: FinishedBatch, status: DeliveryStatus) -> None:
        self.batches += 1
        self.bytes_uncompressed += batch.bytes_uncompressed
        self.bytes_sent += batch.bytes_sent
        self.records[status] += batch.records

    def add_offsets(self, first: int, last: int) -> None:
        self.first_offset = first if self.first_offset is None else min(self.first_offset, first)
        self.last_offset = last if self.last_offset is None else max(self.last_offset, last)

    def add_append_time(self, timestamp_ms: int) -> None:
        first, last = self.first_append_time, self.last_append_time
        self.first_append_time = timestamp_ms if first is None else min(first, timestamp_ms)
        self.last_append_time = timestamp_ms if last is None else max(last, timestamp_ms)

    def build(self, topic: str, partition: int) -> PartitionReport:
        counts = {name: getattr(self, name) for name in _COUNTERS}
        records = {status.value: self.records[status] for status in DeliveryStatus}
        return PartitionReport(topic=topic, partition=partition, **counts, **records)


_COUNTERS = tuple(field.name for field in fields(_PartitionTally) if field.name != "records")


class ReportBuilder:
    """Collects one task's counters in the sender thread.

    Any thread can call `build`. During the session, the result of `build` might include only some
    of a batch's counts. After the session is flushed, the counters are complete in every thread.
    """

    def __init__(
        self, settings: tuple[tuple[str, str], ...] = (), *, dry_run: bool = False
    ) -> None:
        self.recorder = MetricsRecorder(settings)
        self._dry_run = dry_run
        self._codecs: tuple[CodecCost, ...] = ()
        self._tallies: dict[tuple[str, int], _PartitionTally] = {}
        self._failures: Counter[tuple[str, int, DeliveryStatus, str]] = Counter()
        self._errors: Counter[str] = Counter()
        self._request_latency = HistogramBuilder()
        self._queue_latency = HistogramBuilder()
        self._retries = self._splits = self._throttle_ms = 0

    def count_acknowledged(self, batch: FinishedBatch, base_offset: int | None) -> None:
        """Count a batch appended at `base_offset`, which is None or negative if unknown."""
        tally = self._tally(batch.topic, batch.partition)
        tally.add(batch, DeliveryStatus.PERSISTED)
        if base_offset is not None and base_offset >= 0:
            tally.add_offsets(base_offset, base_offset + batch.records - 1)
        if batch.next_sequence is not None:
            tally.next_ack_seq = tally.next_err_seq = batch.next_sequence
        if batch.append_time is not None:
            tally.add_append_time(batch.append_time)

    def count_sent(self, batch: FinishedBatch) -> None:
        """Count a batch sent with acks=0, for which there is no response."""
        self._tally(batch.topic, batch.partition).add(batch, DeliveryStatus.SENT)

    def count_would_be_written(self, batch: FinishedBatch) -> None:
        """Count a batch of a dry run, which would have been sent."""
        self._tally(batch.topic, batch.partition).add(batch, DeliveryStatus.WOULD_BE_WRITTEN)

    def add_codec_costs(self, costs: Iterable[CodecCost]) -> None:
        """Add the costs of compressing a dry run's batch with each codec."""
        self._codecs = CodecCost.merge_all((*self._codecs, *costs))

    def count_failed(
        self, topic: str, partition: int, records: int, status: DeliveryStatus, error_name: str
    ) -> None:
        """Count unacknowledged records; `status` indicates if the log might contain them."""
        self._tally(topic, partition).records[status] += records
        self._failures[topic, partition, status, error_name] += records
        self._errors[error_name] += 1

    def set_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Set the leader to which a batch of the partition is sent."""
        self._tally(topic, partition).leader = node_id

    def set_failed_sequence(self, topic: str, partition: int, next_sequence: int) -> None:
        """Set the sequence number that follows the last record of a failed batch."""
        self._tally(topic, partition).next_err_seq = next_sequence

    def count_error(self, error_name: str) -> None:
        """Count the error of a rejected batch, whose outcome is reported separately."""
        self._errors[error_name] += 1

    def count_retry(self, error_name: str) -> None:
        """Count a batch that is retried."""
        self._retries += 1
        self._errors[error_name] += 1

    def count_split(self) -> None:
        """Count a batch that was too large for the broker and is retried in parts."""
        self._splits += 1

    def add_request_latency(self, seconds: float) -> None:
        """Add the time from sending a request to its response."""
        self._request_latency.add_duration(seconds)

    def add_queue_latency(self, seconds: float) -> None:
        """Add the time from opening a batch to sending it for the first time."""
        self._queue_latency.add_duration(seconds)

    def add_throttle_time(self, pause_ms: int) -> None:
        """Add the milliseconds of throttling that the broker requested."""
        self._throttle_ms += pause_ms

    def progress(self) -> ProgressCounts:
        """Return the current counts.

        This is fast, and any thread can call it during the session.
        """
        tallies = list(self._tallies.values())
        return ProgressCounts(
            persisted=sum(tally.records[DeliveryStatus.PERSISTED] for tally in tallies),
            sent=sum(tally.records[DeliveryStatus.SENT] for tally in tallies),
            would_be_written=sum(
                tally.records[DeliveryStatus.WOULD_BE_WRITTEN] for tally in tallies
            ),
            bytes_sent=sum(tally.bytes_sent for tally in tallies),
            retries=self._retries,
        )

    def failures(self) -> tuple[PartitionStatus, ...]:
        """Return the failures so far with their errors, as in `DeliveryError.statuses`."""
        return tuple(
            PartitionStatus(
                topic=topic, partition=partition, records=records, status=status, error=error
            )
            for (topic, partition, status, error), records in sorted(self._failures.items())
        )

    def build(
        self,
        task: TaskAttempt,
        duration_ms: int,
        bad_rows: tuple[BadRowCount, ...] = (),
        buffer: BufferUsage = _UNUSED_BUFFER,
        topics: TopicCounts = _NO_TOPICS,
    ) -> DeliveryReport:
        """Return the report of the task so far; `duration_ms` is the task's own time."""
        return DeliveryReport(
            tasks=1,
            retried_tasks=int(task.attempt > 0),
            partitions=tuple(
                tally.build(*key)
                for key, tally in sorted(self._tallies.copy().items(), key=itemgetter(0))
            ),
            retries=self._retries,
            splits=self._splits,
            errors=tuple(sorted(dict(self._errors).items())),
            poison=bad_rows,
            request_latency=self._request_latency.build(),
            queue_latency=self._queue_latency.build(),
            throttle_ms=self._throttle_ms,
            duration_max_ms=duration_ms,
            duration_sum_ms=duration_ms,
            metrics=self.recorder.build(buffer, topics),
            dry_run=self._dry_run,
            codecs=self._codecs,
        ).with_task(task)

    def _tally(self, topic: str, partition: int) -> _PartitionTally:
        tally = self._tallies.get((topic, partition))
        if tally is None:
            tally = self._tallies[topic, partition] = _PartitionTally()
        return tally
