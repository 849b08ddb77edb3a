"""Rules that derive advice from a finished report: the limiting setting and the evidence.

The functions have no side effects. Their input is a report, which includes its settings. Their
output is advice, sorted by importance. There is no advice if too little was written. The rules
compare rate x linger.ms with batch.size, compression time with queue time, buffer.memory with
batch.size x partitions, and so on.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.arguments import REPORT, check_argument
from spark_kafka_sink.common.delivery_status import partition_name
from spark_kafka_sink.common.text import MB, plural
from spark_kafka_sink.config.rules import IN_FLIGHT
from spark_kafka_sink.report.advice import arrow_advice
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.advice.pipeline_facts import MIN_SHARE, ROW_BY_ROW, PipelineFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

_MIN_BATCHES = 20
"""Minimum number of batches for a conclusion about a setting."""
SMALL_BATCH_BYTES = 32 * 1024
"""Mean batch size below which a longer linger.ms can help."""
_MIN_SKEW = 3
"""Multiple of the mean partition size of a topic that counts as skew."""
_SMALL_BATCH_SIZE = 128 * 1024
"""Value in bytes of batch.size below which a larger one can help."""
_TINY_BATCH_SIZE = 4 * 1024
"""Value in bytes of batch.size up to which half a batch counts as full."""
_TINY_BUFFER_BYTES = 2 * _SMALL_BATCH_SIZE
"""Value in bytes of buffer.memory below which a buffer that blocks the writer is too small."""
_SHORT_LINGER_MS = 5
"""Kafka's default of linger.ms. A lower value means that the user set the option."""
REPORT_HINT = "DeliveryReport.read(path) reads one, and last_report() returns the latest."
_FULL_SHARE = 0.8
"""Share of batches closed because they are full above which batch.size is the limit."""
_CLOSED_EARLY_SHARE = 0.1
"""If a larger share of batches is closed early for lack of memory, the buffer is too small."""
_BUSY_THREAD_SHARE = 0.9
"""Share of the time above which a thread is considered to be always busy."""
_SERIALIZE_SHARE = 0.5
"""Share of the tasks' time spent on serialization above which serialization limits a job."""
_MIN_SERIALIZE_S = 5.0
"""Seconds of serialization below which faster serialization would save little."""
_NOT_RETRIED = {"MESSAGE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"}
"""Errors of batches that are split, or of single rows."""
_FORMER_LEADER_ERRORS = ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH")
"""Errors of batches that were sent to a partition's former leader."""
_TIMEOUTS = {"REQUEST_TIMED_OUT", "DISCONNECTED"}
"""Errors of requests that got no response in time."""
_MAX_LINGER_MS = 1_000
"""Longest linger.ms in milliseconds that is recommended."""
_MANY_TASKS = 20
"""Number of tasks from which tiny tasks are worth advice."""
_TINY_TASK_BYTES = 64 * 1024
"""Bytes per task up to which tasks are tiny."""
_TINY_TASK_S = 0.5
"""Seconds per task up to which tasks are tiny."""
_MIN_SAMPLE_BYTES = 50_000
"""Minimum size in bytes of the sample on which codecs were measured."""
_MAX_NS_PER_BYTE = 10.0
"""Maximum CPU nanoseconds per byte of a recommended codec: 10 ns per byte is 100 MB/s."""
_MIN_SIZE_RATIO = 1.1
"""Minimum ratio of compressed sizes for which a codec that sends fewer bytes is recommended."""


def advise(report: DeliveryCounters) -> list[Advice]:
    """Return all advice on a report, most important first."""
    check_argument("advise(report)", report, REPORT, ("metrics",), REPORT_HINT)
    if not report.metrics.settings or not report.duration_sum_ms:
        return []
    facts = PipelineFacts(report)
    rules = _DRY_RUN_RULES if report.dry_run else _RULES
    return [advice for rule in rules if (advice := rule(facts)) is not None]


def _throttling(facts: PipelineFacts) -> Advice | None:
    if facts.throttled_share < MIN_SHARE:
        return None
    return Advice(
        setting="the brokers' quota",
        direction=Direction.CHECK,
        evidence=f"throttled {facts.report.throttle_ms:,} ms, {min(1, facts.throttled_share):.0%} "
        "of the time",
        conclusion=f"a quota of client.id {facts.setting('client.id', '?')} or its user slows the "
        "write; raise it, or send fewer bytes (kafka.compression.type)",
    )


def _retries(facts: PipelineFacts) -> Advice | None:
    """Give advice if brokers fail. Missing leaders of new partitions do not count as a failure."""
    retries = facts.report.retries
    if retries < 3 or retries < 0.05 * facts.batches:
        return None
    if _are_new(facts):
        return _new_partitions(facts)
    errors = [pair for pair in facts.report.errors if pair[0] not in _NOT_RETRIED]
    name, times = max(errors, key=itemgetter(1), default=("an error", 0))
    if name in _TIMEOUTS and facts.throttled_share >= MIN_SHARE:
        return None  # Responses delayed by a quota, which _throttling reports.
    return Advice(
        setting="the brokers",
        direction=Direction.CHECK,
        evidence=f"{_describe_retries(facts)}, {name} {plural(times, 'time')}",
        conclusion="many batches were sent more than once",
    )


def _describe_retries(facts: PipelineFacts) -> str:
    retries, batches = facts.report.retries, facts.batches
    return f"{plural(retries, 'retry', 'retries')} for {plural(batches, 'batch', 'batches')}"


def _are_new(facts: PipelineFacts) -> bool:
    """Return True if most partitions were empty and most retries were due to missing leaders."""
    is_majority_new = facts.new_partitions > len(facts.report.partitions) / 2
    return is_majority_new and facts.leader_errors >= max(3, 0.8 * facts.report.retries)


def _new_partitions(facts: PipelineFacts) -> Advice:
    return Advice(
        setting="when the topics are created",
        direction=Direction.CHECK,
        evidence=f"{_describe_retries(facts)}, {plural(facts.leader_errors, 'time')} because a "
        f"leader was not ready; {facts.new_partitions:,} of "
        f"{plural(len(facts.report.partitions), 'partition')} started at offset 0",
        conclusion="the brokers were still creating these partitions, which is not an error; to "
        "avoid the wait, create topics well before the write",
    )


def _compression(facts: PipelineFacts) -> Advice | None:
    """Give advice if the write is CPU-bound: batches wait for the busy codec thread."""
    spent = facts.metrics.compression_time.mean / 1000
    waits = facts.wait_after_close * 1000 >= 2 * spent or facts.waits_for_kafka
    if facts.compressing_share < 0.6 or (
        facts.compressing_share < _BUSY_THREAD_SHARE and not waits
    ):
        return None
    is_quick = facts.codec in {"lz4", "snappy"}
    return Advice(
        setting="the number of tasks" if is_quick else "compression.type",
        direction=Direction.RAISE if is_quick else Direction.LOWER,
        evidence=f"compressing with {facts.codec} took {facts.compressing_share:.0%} of the time, "
        f"{spent:,.1f} ms per batch; batches were queued for {facts.queue_time * 1000:,.1f} ms",
        conclusion="CPU-bound: few codecs are faster, but each further task has its own codec "
        "thread"
        if is_quick
        else "CPU-bound: use a faster codec, a lower level, or more tasks",
    )


def _codec(facts: PipelineFacts) -> Advice | None:
    """Recommend a codec that, in a dry run, sent fewer bytes or took less CPU for the same size."""
    costs = {cost.codec: cost for cost in facts.report.codecs}
    now = costs.get(facts.codec)
    quick = [cost for cost in costs.values() if cost.ns_per_byte <= _MAX_NS_PER_BYTE]
    if now is None or now.bytes_uncompressed < _MIN_SAMPLE_BYTES or not quick:
        return None
    smallest = min(cost.bytes_compressed for cost in quick)
    good = [cost for cost in quick if cost.bytes_compressed <= _MIN_SIZE_RATIO * smallest]
    best = min(good, key=attrgetter("cpu_ns"))
    fewer = now.bytes_compressed / best.bytes_compressed
    extra = best.us_per_record - now.us_per_record
    if fewer > _MIN_SIZE_RATIO:
        cost = f"for {extra:,.2f} µs more CPU per record" if extra > 0 else "for less CPU"
        effect = f"it would send {fewer:,.1f} times fewer bytes {cost}"
    elif fewer > 1 / _MIN_SIZE_RATIO and now.cpu_ns > 2 * best.cpu_ns:
        effect = f"it would send about as many bytes for {-extra:,.2f} µs less CPU per record"
    else:
        return None
    return Advice(
        setting=f"kafka.compression.type={best.codec}",
        direction=Direction.SET,
        evidence=f"{best.codec} compresses {best.ratio:,.1f} to 1, {now.codec} {now.ratio:,.1f} to "
        f"1, measured on {plural(now.batches, 'batch', 'batches')}",
        conclusion=effect,
    )


def _round_trip_limit(facts: PipelineFacts) -> Advice | None:
    """Recommend larger requests if every request waits for the response to an earlier request."""
    if (
        facts.batches < _MIN_BATCHES
        or not facts.max_bytes_per_second
        or facts.bytes_per_second < 0.5 * facts.max_bytes_per_second
    ):
        return None
    if facts.compressing_share >= 0.6 or facts.wait_after_close < facts.round_trip / 2:
        return None
    if _splits(facts) is not None or row_by_row(facts) is not None:
        return None
    in_flight = facts.int_setting(IN_FLIGHT)
    return Advice(
        setting=_larger_requests(facts),
        direction=Direction.RAISE,
        evidence=f"{plural(in_flight, 'request')} of {plural(facts.request_bytes, 'byte')} to "
        f"{plural(facts.leaders, 'broker')} in {facts.quick_round_trip * 1000:,.1f} ms limit "
        f"a task to {facts.max_bytes_per_second / MB:,.2f} MB/s; it sent "
        f"{facts.bytes_per_second / MB:,.2f} MB/s",
        conclusion="broker-bound: the round trip is the limit, so each request must carry more",
    )


def _larger_requests(facts: PipelineFacts) -> str:
    """Return the setting that puts more bytes in flight: more requests, or larger batches.

    Without idempotence, more than one request in flight may reorder records.
    """
    if facts.int_setting(IN_FLIGHT) < 5 and facts.is_idempotent:
        return IN_FLIGHT
    metrics = facts.metrics
    early = max(metrics.closed_linger, metrics.closed_memory)
    if early <= metrics.closed_full:
        return "batch.size"
    return "linger.ms" if early == metrics.closed_linger else "buffer.memory"


def _small_batches(facts: PipelineFacts) -> Advice | None:
    """Give advice if batches fill too early.

    A smaller batch also counts as full if the next row did not fit.
    """
    limit, full = facts.int_setting("batch.size"), facts.metrics.closed_full
    if (
        facts.batches < 5 * _MIN_BATCHES
        or limit >= _SMALL_BATCH_SIZE
        or not facts.is_delayed_by_batches
    ):
        return None
    if _splits(facts) is not None:
        return None
    as_good_as_full = limit <= _TINY_BATCH_SIZE and facts.batch_bytes > limit / 2
    if full < _FULL_SHARE * facts.metrics.closed and not as_good_as_full:
        return None
    return Advice(
        setting="batch.size",
        direction=Direction.RAISE,
        evidence=f"{full:,} of {plural(facts.metrics.closed, 'batch', 'batches')} were full at "
        f"{plural(limit, 'byte')}, with {facts.batch_bytes:,.0f} bytes on average",
        conclusion="batches fill quickly; fewer, larger batches cost less",
    )


def _linger(facts: PipelineFacts) -> Advice | None:
    """Give advice if rate x linger.ms is far below batch.size, so that batches are not full."""
    limit, linger = facts.int_setting("batch.size"), facts.linger_ms
    lingered = facts.metrics.closed_linger
    if _next_is_linger(facts):
        return Advice(
            setting="linger.ms",
            direction=Direction.RAISE,
            evidence=f"{plural(facts.lingered_bytes, 'byte')} reached a partition in {linger:g} ms",
            conclusion="larger batches would be sent almost empty after such a short time",
        )
    if facts.batches < 5 * _MIN_BATCHES or lingered < 0.5 * facts.metrics.closed:
        return None
    if not facts.is_delayed_by_batches or row_by_row(facts) is not None:
        return None
    if facts.batch_bytes > min(limit / 2, SMALL_BATCH_BYTES):
        return None
    longer = min(_MAX_LINGER_MS, limit / facts.fill_rate * 1000 if facts.fill_rate else 0)
    if longer <= linger:
        return None
    return Advice(
        setting="linger.ms",
        direction=Direction.RAISE,
        evidence=f"{lingered:,} of {plural(facts.metrics.closed, 'batch', 'batches')} were sent "
        f"after {linger:g} ms with {facts.batch_bytes:,.0f} of {plural(limit, 'byte')}",
        conclusion="batches are sent almost empty; a linger.ms of about "
        f"{longer:,.0f} would fill more of each",
    )


def _next_is_linger(facts: PipelineFacts) -> bool:
    """Return True if batches should be larger, but such a short linger.ms prevents it."""
    is_short = facts.linger_ms < _SHORT_LINGER_MS
    return (
        is_short and facts.lingered_bytes < SMALL_BATCH_BYTES and _small_batches(facts) is not None
    )


def _buffer(facts: PipelineFacts) -> Advice | None:
    """Give advice if all partitions' open batches exceed the buffer, or if the buffer is tiny."""
    memory, batch = facts.int_setting("buffer.memory"), facts.int_setting("batch.size")
    partitions, early = facts.open_batches, facts.metrics.closed_memory
    if facts.throttled_share >= MIN_SHARE:
        return None
    if memory < _TINY_BUFFER_BYTES and facts.blocked_share >= 0.2:
        return Advice(
            setting="buffer.memory",
            direction=Direction.RAISE,
            evidence=f"write() waited for buffer memory {facts.blocked_share:.0%} of the time, "
            f"{plural(facts.metrics.buffer_waits, 'time')}; buffer.memory is {memory:,}",
            conclusion="so few bytes are in flight that the write waits for each round trip; "
            "Kafka's default is 33,554,432",
        )
    if batch * partitions <= memory or early < _CLOSED_EARLY_SHARE * facts.metrics.closed:
        return None
    return Advice(
        setting="buffer.memory",
        direction=Direction.RAISE,
        evidence=f"{plural(partitions, 'partition')} x batch.size {batch:,} = "
        f"{batch * partitions:,} bytes, buffer.memory is {memory:,}; "
        f"{plural(early, 'batch', 'batches')} closed early for lack of memory",
        conclusion="not every partition can have a full batch; raise it, or lower batch.size",
    )


def _blocked(facts: PipelineFacts) -> Advice | None:
    """Give advice if Spark waits for Kafka although the buffer is large enough."""
    if not facts.waits_for_kafka or _buffer(facts) is not None:
        return None
    if facts.throttled_share >= MIN_SHARE or _are_new(facts):
        return None  # Other advice covers the cause.
    return Advice(
        setting="buffer.memory",
        direction=Direction.CHECK,
        evidence=f"write() waited for buffer memory {facts.blocked_share:.0%} of the time, "
        f"{plural(facts.metrics.buffer_waits, 'time')}; a request took "
        f"{facts.round_trip * 1000:,.1f} ms",
        conclusion="the bottleneck is Kafka, not Spark; a larger buffer only helps with bursts",
    )


def _brokers(facts: PipelineFacts) -> Advice | None:
    """Give advice if closed batches wait longer than linger.ms, and no other rule explains it."""
    linger = facts.linger_ms / 1000
    if facts.batches < _MIN_BATCHES or facts.wait_after_close < max(2 * linger, 0.05):
        return None
    if facts.compressing_share >= 0.6 or facts.throttled_share >= MIN_SHARE:
        return None
    others = (_round_trip_limit, _small_batches, skew, row_by_row)
    if _are_new(facts) or any(rule(facts) is not None for rule in others):
        return None
    return Advice(
        setting="the brokers",
        direction=Direction.CHECK,
        evidence=f"closed batches waited {facts.wait_after_close * 1000:,.1f} ms, linger.ms is "
        f"{facts.linger_ms:,g}, and a request took {facts.round_trip * 1000:,.1f} ms",
        conclusion="broker-bound: batches are ready, but wait for earlier responses",
    )


def _tiny_tasks(facts: PipelineFacts) -> Advice | None:
    tasks = facts.report.tasks
    if tasks < _MANY_TASKS:
        return None
    size, seconds = facts.report.bytes_uncompressed / tasks, facts.busy_s / tasks
    if (
        size > _TINY_TASK_BYTES
        or max(seconds, facts.seconds_per_task) > _TINY_TASK_S
        or facts.is_of_several_writes
    ):
        return None
    return Advice(
        setting="the number of tasks",
        direction=Direction.LOWER,
        evidence=f"{tasks:,} tasks with {plural(size, 'byte')} and {seconds * 1000:,.0f} ms each",
        conclusion="starting a task costs more than writing its data; use coalesce() before the "
        "write, unless the computation of the rows needs that many tasks",
    )


def _serializing(facts: PipelineFacts) -> Advice | None:
    """Give advice if tasks spend most of their time serializing, and do not wait for Kafka."""
    seconds = facts.metrics.serialize_time / 1_000_000
    if seconds < _MIN_SERIALIZE_S or not facts.busy_s or seconds < _SERIALIZE_SHARE * facts.busy_s:
        return None
    if facts.batches < _MIN_BATCHES:  # A short job spends this time on starting the encoders.
        return None
    name = "value.format" if facts.setting("value.format") else "key.format"
    is_json = facts.setting(name).startswith("json")
    return Advice(
        setting=name,
        direction=Direction.CHECK,
        # The time of a task begins with its first rows that are serialized.
        evidence=f"serializing took {seconds:,.1f} s of the tasks' "
        f"{max(seconds, facts.busy_s):,.1f} s",
        conclusion="serializing limits the job: use more cores or fewer fields"
        + (", or avro, which is faster than json" if is_json else ""),
    )


def _splits(facts: PipelineFacts) -> Advice | None:
    splits = facts.report.splits
    if not splits or splits < 0.01 * facts.batches:
        return None
    return Advice(
        setting="batch.size",
        direction=Direction.LOWER,
        evidence=f"rejected for their size: {plural(splits, 'batch', 'batches')}; "
        f"accepted: {facts.batches:,}",
        conclusion="this setting exceeds the topic's max.message.bytes, so data is sent twice",
    )


def _verification(facts: PipelineFacts) -> Advice | None:
    """Advise to check the records if acknowledged records could be lost when a leader fails."""
    first_offsets = [partition.first_offset for partition in facts.report.partitions]
    if all(first is None for first in first_offsets):
        return None
    errors = dict(facts.report.errors)
    moved = sum(errors.get(name, 0) for name in _FORMER_LEADER_ERRORS)
    if facts.setting("acks") == "leader":
        evidence = "acks=1: an acknowledged record is lost if its leader fails before a follower "
        evidence += "has it"
    elif moved and 0 not in first_offsets:
        rejected = plural(moved, "rejected batch", "rejected batches")
        evidence = f"leaders changed during the write: {rejected}"
    else:
        return None
    return Advice(
        setting="the records",
        direction=Direction.CHECK,
        evidence=evidence,
        conclusion="`kafkaprod verify REPORT` checks whether all of them still exist",
    )


def skew(facts: PipelineFacts) -> Advice | None:
    """Give advice if one partition gets most of the data because of the rows' content.

    Rows without a key are assigned to partitions batch by batch. Their distribution is uneven by
    chance and because brokers differ, so changing the rows would not help.
    """
    largest = facts.largest_partition(_MIN_BATCHES)
    if largest is None or largest[1] < _MIN_SKEW:
        return None
    partition, excess = largest
    partition_source = facts.partition_source(partition.topic)
    if partition_source is None:
        return None
    return Advice(
        setting=partition_source,
        direction=Direction.CHECK,
        evidence=f"{partition_name(*partition.key)} got {partition.bytes_uncompressed / MB:,.1f} "
        f"MB, {excess:,.1f} times the mean of its topic's partitions",
        conclusion="one partition gets most of the data and determines how long the write takes",
    )


def row_by_row(facts: PipelineFacts) -> Advice | None:
    """Give advice if a partitioner that ignores batches causes small batches in many partitions."""
    partitions = len(facts.report.partitions)
    partitioner = facts.setting("partitioner")
    if partitioner not in ROW_BY_ROW or partitions < 2 or facts.batches < 5 * _MIN_BATCHES:
        return None
    limit, full = facts.int_setting("batch.size"), facts.metrics.closed_full
    if facts.batch_bytes > min(limit / 2, SMALL_BATCH_BYTES) or full >= 0.5 * facts.metrics.closed:
        return None
    return Advice(
        setting="the default partitioner",
        direction=Direction.SET,
        evidence=f"the partitioner {partitioner} distributes the rows over "
        f"{plural(partitions, 'partition')}; batches contain {facts.batch_bytes:,.0f} of "
        f"{plural(limit, 'byte')}",
        conclusion="each partition fills its own batch; by default, rows without a key fill one "
        "batch after another; the hash of the key determines the partition of other rows",
    )


_RULES: tuple[Callable[[PipelineFacts], Advice | None], ...] = (
    arrow_advice.unbounded_arrow_batches,
    arrow_advice.costly_measuring,
    _throttling,
    _retries,
    _splits,
    _serializing,
    _compression,
    _round_trip_limit,
    _buffer,
    _small_batches,
    _linger,
    _brokers,
    skew,
    row_by_row,
    _tiny_tasks,
    _blocked,
    arrow_advice.measured_arrow_batches,
    arrow_advice.short_arrow_batches,
    _verification,
)

_DRY_RUN_RULES = (
    arrow_advice.unbounded_arrow_batches,
    arrow_advice.costly_measuring,
    _codec,
    _small_batches,
    _linger,
    skew,
    row_by_row,
    _tiny_tasks,
    arrow_advice.measured_arrow_batches,
    arrow_advice.short_arrow_batches,
)
"""Rules that do not depend on the brokers' responses."""
