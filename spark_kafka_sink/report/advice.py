"""Advice, the figures on which it is based, and the rules about Arrow batches and partitioning."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters
    from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics, TopicMetrics
    from spark_kafka_sink.report.partition_report import PartitionReport


MB = 1_000_000
UNMEASURED = 2**31 - 1
"""Value of Spark's maxBytesPerBatch with which Spark does not measure its batches."""
SAFE_ARROW_BATCH = 64 * 1024 * 1024
"""Spark's own limit for the size of a batch, in bytes."""
MEASURING_COST_S, MEASURING_COLUMN_COST_S = 0.07e-6, 0.055e-6
"""JVM seconds that measuring batches costs per row, and per row and column: Spark adds up the sizes
of all columns after every row. Measured with one and with ten columns.
"""
SHORT_ARROW_BATCH = 1_000
"""Number of rows in an Arrow batch above which its fixed cost is negligible."""
BATCH_COST_S = 70e-6
"""Minimum time per batch in seconds, even with few rows: 50 us of the Python worker's CPU time and
20 to 60 us of the JVM's, which are spent in parallel if each process has a core. On a busy machine,
a batch takes longer.
"""
MICROS = 1_000_000
WORTHWHILE = 0.05
"""Share of the time below which no advice is given."""
CONSIDERABLE = 0.15
"""Share of the time from which the advice about a setting precedes that about the producer."""
MANY_BATCHES = 200
"""Number of batches per second in one task from which batches take 5% or more of the sender's time.
"""
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""Spark's limits for its Arrow batches. Reports of Spark tasks contain them as plain numbers."""
ARROW_COLUMNS = "arrow.columns"
"""Number of the DataFrame's columns that a task writes."""
_WITHOUT_LEADER = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "LEADER_NOT_AVAILABLE",
)
"""Errors that brokers return for a partition that is still being created."""
FEW_BATCHES = 20
"""Minimum number of batches for a conclusion about a setting."""
SMALL_BATCH = 32 * 1024
SKEW = 3
"""Multiple of the mean partition size of a topic that counts as skew."""
ROW_BY_ROW = ("round_robin", "random")
"""Partitioners that assign each row to a partition, with or without a key."""


class Direction(StrEnum):
    """The recommended change of a setting."""

    RAISE = "raise"
    LOWER = "lower"
    CHECK = "check"
    SET = "set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One piece of advice. `figure` is the evidence, and `sentence` is the conclusion."""

    setting: str
    direction: Direction
    figure: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.direction} {self.setting}: {self.sentence} ({self.figure})"


def unbounded_arrow_batches(facts: PipelineFacts) -> Advice | None:
    """Give advice if rows are large and Spark limits only the number of rows per batch."""
    if facts.number(ARROW_BYTES) != UNMEASURED or facts.arrow_batch <= SAFE_ARROW_BATCH:
        return None
    return Advice(
        setting=ARROW_BYTES,
        direction=Direction.LOWER,
        figure=f"{plural(facts.arrow_rows, 'row')} of {plural(facts.row, 'byte')} form a batch of "
        f"{facts.arrow_batch / MB:,.0f} MB, of which Spark keeps two copies while it grows",
        sentence="such batches can exhaust the memory of an executor's JVM; 4m, as in "
        "conf/spark-defaults.conf, limits their size",
    )


def measuring_cost_s(columns: int) -> float:
    """Return the JVM seconds per row that measuring batches of so many columns costs."""
    return MEASURING_COST_S + columns * MEASURING_COLUMN_COST_S


def costly_measuring(facts: PipelineFacts) -> Advice | None:
    """Give advice if measuring batches of small rows takes so long that the summary shows it."""
    return measured_arrow_batches(facts, CONSIDERABLE, 1.0)


def measured_arrow_batches(
    facts: PipelineFacts, least: float = WORTHWHILE, below: float = CONSIDERABLE
) -> Advice | None:
    """Give advice if measuring batches of small rows takes a share of the time in this range."""
    if facts.number(ARROW_BYTES) in (0, UNMEASURED) or not facts.busy:
        return None
    if facts.waits_for_kafka or facts.has_large_rows:
        return None
    columns = max(1, facts.number(ARROW_COLUMNS))
    share = min(0.99, facts.share(facts.report.records * measuring_cost_s(columns)))
    if not least <= share < below or 4 * facts.arrow_batch > SAFE_ARROW_BATCH:
        return None
    return Advice(
        setting=ARROW_BYTES,
        direction=Direction.RAISE,
        figure=f"rows of {plural(columns, 'column')} and {plural(facts.row, 'byte')}, "
        f"{facts.report.records / facts.busy:,.0f} per second and task: measuring each "
        f"row takes about {share:.0%} of the time",
        sentence=f"with {UNMEASURED}, as in conf/spark-small-rows.conf, Spark does not measure "
        "the batch after every row; use it only for rows as small as these",
    )


def short_arrow_batches(facts: PipelineFacts) -> Advice | None:
    """Give advice if Spark sends few rows at a time, because each batch has a fixed cost."""
    rows = facts.number(ARROW_RECORDS)
    if not 0 < rows <= SHORT_ARROW_BATCH or facts.report.records < rows * facts.report.tasks:
        return None
    batches = facts.report.records / rows
    share = min(1.0, facts.share(batches * BATCH_COST_S))
    if share < WORTHWHILE or facts.waits_for_kafka:
        return None
    return Advice(
        setting=ARROW_RECORDS,
        direction=Direction.RAISE,
        figure=f"{plural(batches, 'Arrow batch', 'Arrow batches')} of {plural(rows, 'row')}, "
        f"which take at least {share:.0%} of the time, and more on a busy machine",
        sentence="10,000, Spark's default and the value in conf/spark-defaults.conf, costs less "
        "per row",
    )


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """A report and its settings. Sizes are in bytes, times in seconds."""

    report: DeliveryCounters

    @property
    def metrics(self) -> ProducerMetrics:
        """Metrics of the producers."""
        return self.report.metrics

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the producers, or `default` if the report does not contain it."""
        return dict(self.metrics.settings).get(name, default)

    def number(self, name: str) -> int:
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
        records = sum(part.records for part in self.report.partitions if part.topic == topic)
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
        counts = Counter(part.topic for part in self.report.partitions)
        return sum(count if self.partition_source(topic) else 1 for topic, count in counts.items())

    @property
    def _topics(self) -> dict[str, TopicMetrics]:
        return {topic.topic: topic for topic in self.metrics.topics}

    @property
    def busy(self) -> float:
        """Total time of all tasks in seconds."""
        return self.report.duration_sum_ms / 1000

    @property
    def seconds_per_task(self) -> float:
        """Seconds of the whole write, including Spark's part, divided by the number of tasks.

        0 if unknown.
        """
        return self.report.duration_ms / 1000 / max(1, self.report.tasks)

    def share(self, seconds: float) -> float:
        """Return the largest possible share of `seconds`, spent by all tasks, in the total time.

        The time of a task starts with its first rows. If Spark takes long to compute these, the
        time of the whole write is larger and is used instead.
        """
        longest = max(self.busy, self.report.duration_ms / 1000)
        return seconds / longest if longest else 0.0

    @property
    def batches(self) -> int:
        """Number of batches acknowledged or sent."""
        return sum(part.batches for part in self.report.partitions)

    @property
    def batch(self) -> float:
        """Mean uncompressed size of a batch."""
        return self.report.bytes_uncompressed / max(1, self.batches)

    @property
    def row(self) -> float:
        """Mean uncompressed bytes of a row in Kafka."""
        return self.report.bytes_uncompressed / max(1, self.report.records)

    @property
    def new_partitions(self) -> int:
        """Number of partitions in which the first written record has offset 0."""
        return sum(part.first_offset == 0 for part in self.report.partitions)

    @property
    def without_leader(self) -> int:
        """Number of errors because a partition had no known leader or did not exist yet."""
        errors = dict(self.report.errors)
        return sum(errors.get(name, 0) for name in _WITHOUT_LEADER)

    @property
    def lingered_bytes(self) -> float:
        """Bytes that one task adds to an open batch within linger.ms."""
        rate = self.report.bytes_uncompressed / self.busy if self.busy else 0.0
        return rate / max(1, self.open_batches) * self.linger_ms / 1000

    @property
    def arrow_rows(self) -> float:
        """Number of rows in an Arrow batch if only the number of rows is limited."""
        in_a_task = self.report.records / max(1, self.report.tasks)
        return min(self.number(ARROW_RECORDS), in_a_task)

    @property
    def arrow_batch(self) -> float:
        """Size of an Arrow batch in bytes if only its number of rows is limited."""
        return self.row * self.arrow_rows

    @property
    def fill_rate(self) -> float:
        """Uncompressed bytes per second added to one open batch."""
        fill = self.metrics.fill_time
        return self.batch / (fill.mean / MICROS) if fill.total else 0.0

    @property
    def queue_time(self) -> float:
        """Time from a batch's first record to its first request."""
        return self.report.queue_latency.mean / MICROS

    @property
    def wait_after_close(self) -> float:
        """Part of the queue time during which a batch was closed but not yet sent."""
        return max(0.0, self.queue_time - self.metrics.fill_time.mean / MICROS)

    @property
    def request(self) -> float:
        """Mean compressed size of all batches in a Produce request."""
        return self.report.bytes_sent / max(1, self.metrics.request_records.count)

    @property
    def round_trip(self) -> float:
        """Time from sending a Produce request until its response arrives."""
        return self.report.request_latency.mean / MICROS

    @property
    def quick_round_trip(self) -> float:
        """The 10th percentile of the round trips: the network time if the broker is not busy."""
        return self.report.request_latency.percentile(10) / MICROS

    @property
    def leaders(self) -> int:
        """Number of brokers to which batches were sent."""
        return sum(1 for broker in self.metrics.brokers if broker.int_latency.count)

    @property
    def rate(self) -> float:
        """Bytes per second that one task sent."""
        return self.report.bytes_sent / self.busy if self.busy else 0.0

    @property
    def ceiling(self) -> float:
        """Maximum bytes per second of a task with all allowed requests in flight."""
        in_flight = self.number("max.in.flight.requests.per.connection") * self.leaders
        return in_flight * self.request / self.quick_round_trip if self.quick_round_trip else 0.0

    @property
    def compressing(self) -> float:
        """Share of the time in which the codec thread was working."""
        return self.metrics.compression_time.total / MICROS / self.busy if self.busy else 0.0

    @property
    def blocked(self) -> float:
        """Share of the time in which write() waited for buffer memory."""
        return self.metrics.buffer_wait / MICROS / self.busy if self.busy else 0.0

    @property
    def is_idempotent(self) -> bool:
        """True if the producers were idempotent."""
        return any(part.next_ack_seq is not None for part in self.report.partitions)

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
        return self.blocked >= 0.2

    @property
    def has_large_rows(self) -> bool:
        """True if some rows are far larger than the mean: alone in a batch, or rejected."""
        largest = max((topic.batch_size.high for topic in self.metrics.topics), default=0)
        oversized = any(count.reason == "OVERSIZED" for count in self.report.poison)
        return oversized or largest > max(self.number("batch.size"), 16 * self.batch)

    @property
    def is_delayed_by_batches(self) -> bool:
        """True if batches cost time because they wait to be sent, block rows, or are too many."""
        each_second = self.batches / self.busy if self.busy else 0.0
        waits = self.wait_after_close >= self.round_trip / 2
        return waits or self.blocked >= WORTHWHILE or each_second >= MANY_BATCHES

    @property
    def throttled(self) -> float:
        """Share of the time in which brokers throttled the producers."""
        return self.report.throttle_ms / 1000 / self.busy if self.busy else 0.0

    def largest_partition(self, batches: int = 0) -> tuple[PartitionReport, float] | None:
        """Return the largest partition of topics with several partitions, and its excess.

        The excess is the size of the partition divided by the mean size of its topic's partitions,
        including empty partitions. Topics with fewer than `batches` batches are ignored.
        """
        known = self.metrics.topic_partitions
        largest_skew: tuple[PartitionReport, float] | None = None
        for topic, group in groupby(self.report.partitions, attrgetter("topic")):
            parts = list(group)
            total = sum(part.bytes_uncompressed for part in parts)
            count = max(len(parts), known.get(topic, 0))
            if count < 2 or not total or sum(part.batches for part in parts) < batches:
                continue
            largest = max(parts, key=attrgetter("bytes_uncompressed"))
            excess = largest.bytes_uncompressed * count / total
            if largest_skew is None or excess > largest_skew[1]:
                largest_skew = largest, excess
        return largest_skew


def skew(facts: PipelineFacts) -> Advice | None:
    """Give advice if one partition gets most of the data because of the rows' content.

    Rows without a key are assigned to partitions batch by batch. Their distribution is uneven by
    chance and because brokers differ, so changing the rows would not help.
    """
    largest = facts.largest_partition(FEW_BATCHES)
    if largest is None or largest[1] < SKEW:
        return None
    part, excess = largest
    partition_source = facts.partition_source(part.topic)
    if partition_source is None:
        return None
    return Advice(
        setting=partition_source,
        direction=Direction.CHECK,
        figure=f"{part.topic}-{part.partition} got {part.bytes_uncompressed / MB:,.1f} MB, "
        f"{excess:,.1f} times the mean of its topic's partitions",
        sentence="one partition gets most of the data and determines how long the write takes",
    )


def row_by_row(facts: PipelineFacts) -> Advice | None:
    """Give advice if a partitioner that ignores batches causes small batches in many partitions."""
    partitions, partitioner = len(facts.report.partitions), facts.setting("partitioner")
    if partitioner not in ROW_BY_ROW or partitions < 2 or facts.batches < 5 * FEW_BATCHES:
        return None
    limit, full = facts.number("batch.size"), facts.metrics.closed_full
    if facts.batch > min(limit / 2, SMALL_BATCH) or full >= 0.5 * facts.metrics.closed:
        return None
    return Advice(
        setting="the default partitioner",
        direction=Direction.SET,
        figure=f"the partitioner {partitioner} distributes the rows over "
        f"{plural(partitions, 'partition')}; batches contain {facts.batch:,.0f} of "
        f"{plural(limit, 'byte')}",
        sentence="each partition fills its own batch; by default, rows without a key fill one "
        "batch after another; the hash of the key determines the partition of other rows",
    )
