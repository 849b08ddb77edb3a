"""The rules that derive advice about batches: their size, compression and buffer."""

from __future__ import annotations

from operator import attrgetter

from spark_kafka_sink.common.histogram import MICROS_PER_S
from spark_kafka_sink.common.text import MB, plural
from spark_kafka_sink.config.rules import IN_FLIGHT
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.advice.partition_advice import row_by_row
from spark_kafka_sink.report.advice.partition_facts import open_batches
from spark_kafka_sink.report.advice.pipeline_facts import (
    MIN_BATCHES,
    MIN_SHARE,
    SMALL_BATCH_BYTES,
    PipelineFacts,
)

_SMALL_BATCH_SIZE = 128 * 1024
"""Value in bytes of batch.size below which a larger one can help."""
_TINY_BATCH_SIZE = 4 * 1024
"""Value in bytes of batch.size up to which half a batch counts as full."""
_TINY_BUFFER_BYTES = 2 * _SMALL_BATCH_SIZE
"""Value in bytes of buffer.memory below which a buffer that blocks the writer is too small."""
_SHORT_LINGER_MS = 5
"""Kafka's default of linger.ms. A lower value was set by the user or by a profile."""
_FULL_SHARE = 0.8
"""Share of batches closed because they are full above which batch.size is the limit."""
_CLOSED_EARLY_SHARE = 0.1
"""If a larger share of batches is closed early for lack of memory, the buffer is too small."""
_BUSY_CODEC_SHARE = 0.6
"""Share of the time above which the codec thread can limit the write."""
_BUSY_THREAD_SHARE = 0.9
"""Share of the time above which a thread is considered to be always busy."""
_MAX_LINGER_MS = 1_000
"""Longest linger.ms in milliseconds that is recommended."""
_MIN_SAMPLE_BYTES = 50_000
"""Minimum size in bytes of the sample on which codecs were measured."""
_MAX_NS_PER_BYTE = 10.0
"""Maximum CPU nanoseconds per byte of a recommended codec: 10 ns per byte is 100 MB/s."""
_MIN_SIZE_RATIO = 1.1
"""Minimum ratio of compressed sizes for which a codec that sends fewer bytes is recommended."""


def compression(facts: PipelineFacts) -> Advice | None:
    """Give advice if the write is CPU-bound: batches wait for the busy codec thread."""
    spent = facts.metrics.compression_time.mean / 1000
    waits = facts.wait_after_close * 1000 >= 2 * spent or facts.waits_for_kafka
    if facts.compressing_share < _BUSY_CODEC_SHARE or (
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


def codec(facts: PipelineFacts) -> Advice | None:
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


def round_trip_limit(facts: PipelineFacts) -> Advice | None:
    """Recommend larger requests if every request waits for the response to an earlier request."""
    in_flight, leaders = facts.int_setting(IN_FLIGHT), _count_leaders(facts)
    request_bytes = facts.report.bytes_sent / max(1, facts.metrics.request_records.count)
    # The 10th percentile is the network time if the broker is not busy.
    round_trip = facts.report.request_latency.percentile(10) / MICROS_PER_S
    highest_rate = in_flight * leaders * request_bytes / round_trip if round_trip else 0.0
    rate = facts.report.bytes_sent / facts.busy_s if facts.busy_s else 0.0
    if facts.batches < MIN_BATCHES or not highest_rate or rate < 0.5 * highest_rate:
        return None
    if (
        facts.compressing_share >= _BUSY_CODEC_SHARE
        or facts.wait_after_close < facts.round_trip / 2
    ):
        return None
    if split_batches(facts) is not None or row_by_row(facts) is not None:
        return None
    return Advice(
        setting=_larger_requests(facts),
        direction=Direction.RAISE,
        evidence=f"{plural(in_flight, 'request')} of {plural(request_bytes, 'byte')} to "
        f"{plural(leaders, 'broker')} in {round_trip * 1000:,.1f} ms limit a task to "
        f"{highest_rate / MB:,.2f} MB/s; it sent {rate / MB:,.2f} MB/s",
        conclusion="broker-bound: the round trip is the limit, so each request must carry more",
    )


def _count_leaders(facts: PipelineFacts) -> int:
    """Return the number of brokers to which batches were sent."""
    return sum(1 for broker in facts.metrics.brokers if broker.int_latency.count)


def _larger_requests(facts: PipelineFacts) -> str:
    """Return the setting that puts more bytes in flight: more requests, or larger batches.

    Without idempotence, more than one request in flight may reorder records.
    """
    is_idempotent = any(part.next_ack_seq is not None for part in facts.report.partitions)
    if facts.int_setting(IN_FLIGHT) < 5 and is_idempotent:
        return IN_FLIGHT
    metrics = facts.metrics
    early = max(metrics.closed_linger, metrics.closed_memory)
    if early <= metrics.closed_full:
        return "batch.size"
    return "linger.ms" if early == metrics.closed_linger else "buffer.memory"


def small_batches(facts: PipelineFacts) -> Advice | None:
    """Give advice if batches fill too early.

    A smaller batch also counts as full if the next row did not fit.
    """
    limit, full = facts.int_setting("batch.size"), facts.metrics.closed_full
    if (
        facts.batches < 5 * MIN_BATCHES
        or limit >= _SMALL_BATCH_SIZE
        or not facts.is_delayed_by_batches
    ):
        return None
    if split_batches(facts) is not None:
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


def linger(facts: PipelineFacts) -> Advice | None:
    """Give advice if rate x linger.ms is far below batch.size, so that batches are not full."""
    limit, linger = facts.int_setting("batch.size"), facts.linger_ms
    lingered = facts.metrics.closed_linger
    if _next_is_linger(facts):
        return Advice(
            setting="linger.ms",
            direction=Direction.RAISE,
            evidence=f"{plural(_lingered_bytes(facts), 'byte')} reached a partition in "
            f"{linger:g} ms",
            conclusion="larger batches would be sent almost empty after such a short time",
        )
    if facts.batches < 5 * MIN_BATCHES or lingered < 0.5 * facts.metrics.closed:
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
        is_short and _lingered_bytes(facts) < SMALL_BATCH_BYTES and small_batches(facts) is not None
    )


def _lingered_bytes(facts: PipelineFacts) -> float:
    """Return the bytes that one task adds to an open batch within linger.ms."""
    rate = facts.report.bytes_uncompressed / facts.busy_s if facts.busy_s else 0.0
    return rate / max(1, open_batches(facts)) * facts.linger_ms / 1000


def buffer(facts: PipelineFacts) -> Advice | None:
    """Give advice if all partitions' open batches exceed the buffer, or if the buffer is tiny."""
    memory, batch = facts.int_setting("buffer.memory"), facts.int_setting("batch.size")
    partitions, early = open_batches(facts), facts.metrics.closed_memory
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


def split_batches(facts: PipelineFacts) -> Advice | None:
    """Give advice if brokers reject batches as too large, so that they are split."""
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
