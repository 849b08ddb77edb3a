"""The figures of a report on which advice is based."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.histogram import MICROS_PER_S
from spark_kafka_sink.config.rules import IN_FLIGHT
from spark_kafka_sink.report.spark_settings import ARROW_RECORDS

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters
    from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics, TopicMetrics
    from spark_kafka_sink.report.partition_report import PartitionReport

ROW_BY_ROW = ("round_robin", "random")
"""Partitioners that assign each row to a partition, with or without a key."""


MIN_BATCHES = 20
"""Minimum number of batches for a conclusion about a setting."""
SMALL_BATCH_BYTES = 32 * 1024
"""Mean batch size below which a longer linger.ms can help."""
MIN_SHARE = 0.05
"""Share of the time below which no advice is given."""
_MANY_BATCHES_PER_S = 200
"""Number of batches per second in one task from which batches take 5% or more of the sender's time.
"""
_LEADER_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "LEADER_NOT_AVAILABLE",
)
"""Errors that brokers return for a partition that is still being created."""


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """Figures derived from a report and its settings.

    Sizes are in bytes, times in seconds unless the name ends with `_ms`.
    """

    report: DeliveryCounters

    @property
    def metrics(self) -> ProducerMetrics:
        """Metrics of the producers."""
        return self.report.metrics

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the producers, or `default` if the report does not contain it."""
        return dict(self.metrics.settings).get(name, default)

    def int_setting(self, name: str) -> int:
        """Return a setting that is a number, or 0 if the report does not contain it."""
        return int(self.setting(name, "0"))

    @property
    def linger_ms(self) -> float:
        """The setting linger.ms, in milliseconds."""
        return float(self.setting("linger.ms", "0"))

    @property
    def codec(self) -> str:
        """The setting compression.type."""
        return self.setting("compression.type", "none")

    def partition_source(self, topic: str) -> str | None:
        """Return the source of most rows' partitions, or None if the sink chose them."""
        meter = self._topics.get(topic)
        keyed, assigned = (meter.keyed_records, meter.assigned_records) if meter else (0, 0)
        records = sum(
            partition.records for partition in self.report.partitions if partition.topic == topic
        )
        if 2 * (keyed + assigned) >= records:
            return "the keys" if keyed >= assigned else "the column partition"
        is_function = self.setting("partitioner") == "function"
        return "the function of kafka.partitioner" if is_function else None

    @property
    def open_batches(self) -> int:
        """Maximum number of batches that a task fills at the same time.

        If the sink chooses the partitions, it fills one batch per topic at a time. Otherwise, each
        partition has an open batch.
        """
        if self.setting("partitioner") in ROW_BY_ROW:
            return len(self.report.partitions)
        counts = Counter(partition.topic for partition in self.report.partitions)
        return sum(count if self.partition_source(topic) else 1 for topic, count in counts.items())

    @property
    def busy_s(self) -> float:
        """Total time of all tasks in seconds."""
        return self.report.duration_sum_ms / 1000

    @property
    def seconds_per_task(self) -> float:
        """Seconds of the whole write, including Spark's part, divided by the number of tasks.

        0 if unknown.
        """
        return self.report.duration_ms / 1000 / max(1, self.report.tasks)

    def share(self, seconds: float) -> float:
        """Return the smallest possible share of `seconds`, spent by all tasks, in the total time.

        The time of a task starts with its first rows. If Spark takes long to compute these, the
        time of the whole write is larger and is used instead.
        """
        longest = max(self.busy_s, self.report.duration_ms / 1000)
        return seconds / longest if longest else 0.0

    @property
    def batches(self) -> int:
        """Number of batches acknowledged or sent."""
        return sum(partition.batches for partition in self.report.partitions)

    @property
    def batch_bytes(self) -> float:
        """Mean uncompressed size of a batch."""
        return self.report.bytes_uncompressed / max(1, self.batches)

    @property
    def row_bytes(self) -> float:
        """Mean uncompressed bytes of a row in Kafka."""
        return self.report.bytes_uncompressed / max(1, self.report.records)

    @property
    def new_partitions(self) -> int:
        """Number of partitions in which the first written record has offset 0."""
        return sum(partition.first_offset == 0 for partition in self.report.partitions)

    @property
    def leader_errors(self) -> int:
        """Number of errors because a partition had no known leader or did not exist yet."""
        errors = dict(self.report.errors)
        return sum(errors.get(name, 0) for name in _LEADER_ERRORS)

    @property
    def lingered_bytes(self) -> float:
        """Bytes that one task adds to an open batch within linger.ms."""
        rate = self.report.bytes_uncompressed / self.busy_s if self.busy_s else 0.0
        return rate / max(1, self.open_batches) * self.linger_ms / 1000

    @property
    def arrow_rows(self) -> float:
        """Number of rows in an Arrow batch if only the number of rows is limited."""
        in_a_task = self.report.records / max(1, self.report.tasks)
        return min(self.int_setting(ARROW_RECORDS), in_a_task)

    @property
    def arrow_batch_bytes(self) -> float:
        """Size of an Arrow batch in bytes if only its number of rows is limited."""
        return self.row_bytes * self.arrow_rows

    @property
    def fill_rate(self) -> float:
        """Uncompressed bytes per second added to one open batch."""
        fill = self.metrics.fill_time
        return self.batch_bytes / (fill.mean / MICROS_PER_S) if fill.total else 0.0

    @property
    def queue_time(self) -> float:
        """Time from a batch's first record to its first request."""
        return self.report.queue_latency.mean / MICROS_PER_S

    @property
    def wait_after_close(self) -> float:
        """Part of the queue time during which a batch was closed but not yet sent."""
        return max(0.0, self.queue_time - self.metrics.fill_time.mean / MICROS_PER_S)

    @property
    def request_bytes(self) -> float:
        """Mean compressed size of all batches in a Produce request."""
        return self.report.bytes_sent / max(1, self.metrics.request_records.count)

    @property
    def round_trip(self) -> float:
        """Time from sending a Produce request until its response arrives."""
        return self.report.request_latency.mean / MICROS_PER_S

    @property
    def quick_round_trip(self) -> float:
        """The 10th percentile of the round trips: the network time if the broker is not busy."""
        return self.report.request_latency.percentile(10) / MICROS_PER_S

    @property
    def leaders(self) -> int:
        """Number of brokers to which batches were sent."""
        return sum(1 for broker in self.metrics.brokers if broker.int_latency.count)

    @property
    def bytes_per_second(self) -> float:
        """Bytes per second that one task sent."""
        return self.report.bytes_sent / self.busy_s if self.busy_s else 0.0

    @property
    def max_bytes_per_second(self) -> float:
        """Maximum bytes per second of a task with all allowed requests in flight."""
        in_flight = self.int_setting(IN_FLIGHT) * self.leaders
        return (
            in_flight * self.request_bytes / self.quick_round_trip if self.quick_round_trip else 0.0
        )

    @property
    def compressing_share(self) -> float:
        """Share of the time in which the codec thread was working."""
        return (
            self.metrics.compression_time.total / MICROS_PER_S / self.busy_s if self.busy_s else 0.0
        )

    @property
    def blocked_share(self) -> float:
        """Share of the time in which write() waited for buffer memory."""
        return self.metrics.buffer_wait / MICROS_PER_S / self.busy_s if self.busy_s else 0.0

    @property
    def is_idempotent(self) -> bool:
        """True if the producers were idempotent."""
        return any(partition.next_ack_seq is not None for partition in self.report.partitions)

    @property
    def is_of_several_writes(self) -> bool:
        """True if the report is a sum of several writes, such as the micro-batches of a folder.

        In a single write, each partition of the DataFrame has only one task that counts.
        """
        ids = [task.task.partition_id for task in self.report.slowest]
        return len(set(ids)) < len(ids)

    @property
    def waits_for_kafka(self) -> bool:
        """True if rows wait for Kafka, so that receiving rows sooner would not help."""
        return self.blocked_share >= 0.2

    @property
    def has_large_rows(self) -> bool:
        """True if some rows are far larger than the mean: alone in a batch, or rejected."""
        largest = max((topic.batch_size.high for topic in self.metrics.topics), default=0)
        oversized = any(count.reason == "OVERSIZED" for count in self.report.poison)
        return oversized or largest > max(self.int_setting("batch.size"), 16 * self.batch_bytes)

    @property
    def is_delayed_by_batches(self) -> bool:
        """True if batches cost time because they wait to be sent, block rows, or are too many."""
        each_second = self.batches / self.busy_s if self.busy_s else 0.0
        waits = self.wait_after_close >= self.round_trip / 2
        return waits or self.blocked_share >= MIN_SHARE or each_second >= _MANY_BATCHES_PER_S

    @property
    def throttled_share(self) -> float:
        """Share of the time in which brokers throttled the producers."""
        return self.report.throttle_ms / 1000 / self.busy_s if self.busy_s else 0.0

    def largest_partition(self, min_batches: int = 0) -> tuple[PartitionReport, float] | None:
        """Return the largest partition of topics with several partitions, and its excess.

        The excess is the size of the partition divided by the mean size of its topic's partitions,
        including empty partitions. Topics with fewer than `min_batches` batches are ignored.
        """
        known = self.metrics.topic_partitions
        largest_skew: tuple[PartitionReport, float] | None = None
        for topic, group in groupby(self.report.partitions, attrgetter("topic")):
            partitions = list(group)
            total = sum(partition.bytes_uncompressed for partition in partitions)
            count = max(len(partitions), known.get(topic, 0))
            if count < 2 or not total or sum(map(attrgetter("batches"), partitions)) < min_batches:
                continue
            largest = max(partitions, key=attrgetter("bytes_uncompressed"))
            excess = largest.bytes_uncompressed * count / total
            if largest_skew is None or excess > largest_skew[1]:
                largest_skew = largest, excess
        return largest_skew

    @property
    def _topics(self) -> dict[str, TopicMetrics]:
        return {topic.topic: topic for topic in self.metrics.topics}
