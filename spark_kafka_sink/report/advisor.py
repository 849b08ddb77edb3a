"""Says from a finished report which setting holds the job back, and on what figure that rests.

Pure: a report (which carries the settings it was made with) goes in, advice comes out, what
matters most first. Nothing is said where too little was written to tell. The rules compare rate x
linger.ms with batch.size, compression time with queue time, buffer.memory with batch.size x
partitions, and so on.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.report.advice.advice import MB, WORTHWHILE, Advice, Direction
from spark_kafka_sink.report.advice.arrow_batches import (
    measured_arrow_batches,
    short_arrow_batches,
    unbounded_arrow_batches,
)
from spark_kafka_sink.report.pipeline import PipelineFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

__all__ = ["Advice", "advise"]

FEW_BATCHES = 20
"""Fewer batches than this say nothing about a setting."""
SMALL_BATCH = 32 * 1024
SMALL_LIMIT = 128 * 1024
TINY_LIMIT = 4 * 1024
SMALL_BUFFER = 2 * SMALL_LIMIT
SHORT_LINGER_MS = 5
"""Kafka's default: a shorter time is somebody's choice."""
MANY_FULL = 0.8
LONGEST_LINGER_MS = 1_000
TINY_TASKS = 20
TINY_BYTES = 64 * 1024
TINY_SECONDS = 0.5
SAMPLE = 50_000
"""Bytes that codecs must have been tried on."""
QUICK = 10.0
"""Nanoseconds of CPU a byte, 100 MB/s, that a codec may cost to be advised."""
MUCH = 1.1
"""Times the bytes that are not worth another codec."""


def advise(report: DeliveryCounters) -> list[Advice]:
    """Everything there is to say about a report, most important first; nothing of an old one."""
    if not report.metrics.settings or not report.duration_sum_ms:
        return []
    facts = PipelineFacts(report)
    rules = _DRY_RUN_RULES if report.dry_run else _RULES
    return [advice for rule in rules if (advice := rule(facts)) is not None]


def _throttling(facts: PipelineFacts) -> Advice | None:
    if facts.throttled < WORTHWHILE:
        return None
    return Advice(
        setting="the brokers' quota",
        direction=Direction.CHECK,
        figure=f"throttled {facts.report.throttle_ms:,} ms, {facts.throttled:.0%} of the time",
        sentence="the brokers slow this client.id or user down; no setting here changes that",
    )


def _retries(facts: PipelineFacts) -> Advice | None:
    """Where partitions are new, and their leaders are not ready, no broker is ill."""
    retries = facts.report.retries
    if retries < 3 or retries < 0.05 * facts.batches:
        return None
    if _are_new(facts):
        return _new_partitions(facts)
    name, times = max(facts.report.errors, key=lambda pair: pair[1], default=("an error", 0))
    return Advice(
        setting="the brokers",
        direction=Direction.CHECK,
        figure=f"{_retried(facts)}, {name} {plural(times, 'time')}",
        sentence="many batches went out more than once",
    )


def _retried(facts: PipelineFacts) -> str:
    retries, batches = facts.report.retries, facts.batches
    return f"{plural(retries, 'retry', 'retries')} for {plural(batches, 'batch', 'batches')}"


def _are_new(facts: PipelineFacts) -> bool:
    """Most partitions were empty, and their missing leaders are why most batches went again."""
    most = facts.new_partitions > len(facts.report.partitions) / 2
    return most and facts.without_leader >= max(3, 0.8 * facts.report.retries)


def _new_partitions(facts: PipelineFacts) -> Advice:
    return Advice(
        setting="when the topics are made",
        direction=Direction.CHECK,
        figure=f"{_retried(facts)}, {plural(facts.without_leader, 'time')} for a leader that was "
        f"not ready; {facts.new_partitions:,} of "
        f"{plural(len(facts.report.partitions), 'partition')} began at offset 0",
        sentence="the brokers were still making these partitions, and nothing is wrong with them; "
        "topics that are made a while before the write spare it the waiting",
    )


def _compression(facts: PipelineFacts) -> Advice | None:
    """CPU-bound: the codec thread is always at work, and batches wait for it."""
    if facts.compressing < 0.6:
        return None
    spent = facts.metrics.compression_time.mean / 1000
    return Advice(
        setting="compression.type",
        direction=Direction.LOWER,
        figure=f"{facts.codec} was at work {facts.compressing:.0%} of the time, {spent:,.1f} ms "
        f"a batch, which spent {facts.queue_time * 1000:,.1f} ms in the queue",
        sentence="CPU-bound: take a faster codec or a lower level, or more tasks",
    )


def _codec(facts: PipelineFacts) -> Advice | None:
    """A dry run has tried all codecs: another one sends fewer bytes, or as few for less work."""
    costs = {each.codec: each for each in facts.report.codecs}
    now = costs.get(facts.codec)
    if now is None or now.bytes_uncompressed < SAMPLE:
        return None
    quick = [each for each in costs.values() if each.ns_per_byte <= QUICK]
    smallest = min(each.bytes_compressed for each in quick)
    good = [each for each in quick if each.bytes_compressed <= MUCH * smallest]
    best = min(good, key=attrgetter("cpu_ns"))
    fewer = now.bytes_compressed / best.bytes_compressed
    more = best.us_per_record - now.us_per_record
    if fewer > MUCH:
        cost = f"for {more:,.2f} us more CPU a record" if more > 0 else "for less CPU"
        effect = f"it would send {fewer:,.1f} times fewer bytes {cost}"
    elif fewer > 1 / MUCH and now.cpu_ns > 2 * best.cpu_ns:
        effect = f"it would send about as many bytes for {-more:,.2f} us less CPU a record"
    else:
        return None
    return Advice(
        setting=f"kafka.compression.type={best.codec}",
        direction=Direction.SET,
        figure=f"{best.codec} makes {best.ratio:,.1f} to 1, {now.codec} {now.ratio:,.1f} to 1, of "
        f"{plural(now.batches, 'batch that was tried', 'batches that were tried')}",
        sentence=effect,
    )


def _ceiling(facts: PipelineFacts) -> Advice | None:
    """Every request waits for the answer to an earlier one: only larger requests help."""
    if facts.batches < FEW_BATCHES or not facts.ceiling or facts.rate < 0.5 * facts.ceiling:
        return None
    if facts.compressing >= 0.6 or facts.wait_after_close < facts.round_trip / 2:
        return None
    in_flight = facts.number("max.in.flight.requests.per.connection")
    return Advice(
        setting="batch.size" if in_flight >= 5 else "max.in.flight.requests.per.connection",
        direction=Direction.RAISE,
        figure=f"{plural(in_flight, 'request')} of {plural(facts.request, 'byte')} to "
        f"{plural(facts.leaders, 'broker')} in {facts.quick_round_trip * 1000:,.1f} ms make "
        f"at most {facts.ceiling / MB:,.2f} MB/s, and a task sent {facts.rate / MB:,.2f}",
        sentence="broker-bound: the round trip is the limit, and more must go with each one",
    )


def _small_batches(facts: PipelineFacts) -> Advice | None:
    """Batches are full too soon; of a few KiB also those that the next row has no room in."""
    limit, full = facts.number("batch.size"), facts.metrics.closed_full
    if facts.batches < 5 * FEW_BATCHES or limit >= SMALL_LIMIT:
        return None
    as_good_as_full = limit <= TINY_LIMIT and facts.batch > limit / 2
    if full < MANY_FULL * facts.metrics.closed and not as_good_as_full:
        return None
    return Advice(
        setting="batch.size",
        direction=Direction.RAISE,
        figure=f"{full:,} of {plural(facts.metrics.closed, 'batch', 'batches')} full at "
        f"{plural(limit, 'byte')}, "
        f"{facts.batch:,.0f} bytes in each",
        sentence="the data comes faster than such batches hold; fewer, larger ones cost less",
    )


def _linger(facts: PipelineFacts) -> Advice | None:
    """Rate x linger is far below batch.size: time runs out before batches are full."""
    limit, linger = facts.number("batch.size"), facts.number("linger.ms")
    lingered = facts.metrics.closed_linger
    if _next_is_linger(facts):
        return Advice(
            setting="linger.ms",
            direction=Direction.RAISE,
            figure=f"{plural(facts.lingered_bytes, 'byte')} came to a partition in {linger} ms",
            sentence="larger batches would leave almost empty after so short a time",
        )
    if facts.batches < 5 * FEW_BATCHES or lingered < 0.5 * facts.metrics.closed:
        return None
    if facts.batch > min(limit / 2, SMALL_BATCH):
        return None
    wanted = min(LONGEST_LINGER_MS, limit / facts.fill_rate * 1000 if facts.fill_rate else 0)
    if wanted <= linger:
        return None
    return Advice(
        setting="linger.ms",
        direction=Direction.RAISE,
        figure=f"{lingered:,} of {plural(facts.metrics.closed, 'batch', 'batches')} left after "
        f"{linger} ms with {facts.batch:,.0f} of {plural(limit, 'byte')}",
        sentence=f"batches leave almost empty; about {wanted:,.0f} ms would fill them better",
    )


def _next_is_linger(facts: PipelineFacts) -> bool:
    """Batches are to be larger, which so short a linger.ms does not allow."""
    is_short = facts.number("linger.ms") < SHORT_LINGER_MS
    return is_short and facts.lingered_bytes < SMALL_BATCH and _small_batches(facts) is not None


def _buffer(facts: PipelineFacts) -> Advice | None:
    """Open batches of all partitions do not fit into the buffer together, or next to nothing."""
    memory, batch = facts.number("buffer.memory"), facts.number("batch.size")
    partitions, early = len(facts.report.partitions), facts.metrics.closed_memory
    if memory < SMALL_BUFFER and facts.blocked >= 0.2:
        return Advice(
            setting="buffer.memory",
            direction=Direction.RAISE,
            figure=f"write() waited for room {facts.blocked:.0%} of the time, "
            f"{plural(facts.metrics.buffer_waits, 'time')}; buffer.memory is {memory:,}",
            sentence="so few bytes are under way that each round trip is waited for; Kafka's "
            "default is 33,554,432",
        )
    if batch * partitions <= memory or not (early or facts.metrics.buffer_waits):
        return None
    return Advice(
        setting="buffer.memory",
        direction=Direction.RAISE,
        figure=f"{plural(partitions, 'partition')} x batch.size {batch:,} = "
        f"{batch * partitions:,} bytes, buffer.memory is {memory:,}; "
        f"{plural(early, 'batch', 'batches')} closed early for room",
        sentence="not every partition can have a full batch; raise it, or lower batch.size",
    )


def _blocked(facts: PipelineFacts) -> Advice | None:
    """Spark waits for Kafka, with a buffer that is large enough."""
    if facts.blocked < 0.2 or _buffer(facts) is not None:
        return None
    return Advice(
        setting="buffer.memory",
        direction=Direction.CHECK,
        figure=f"write() waited for room {facts.blocked:.0%} of the time, "
        f"{plural(facts.metrics.buffer_waits, 'time')}; a request took "
        f"{facts.round_trip * 1000:,.1f} ms",
        sentence="what comes after the buffer is the limit, not Spark; "
        "a larger buffer helps only against bursts",
    )


def _brokers(facts: PipelineFacts) -> Advice | None:
    """Closed batches wait much longer than linger, and neither codec, ceiling nor size is why."""
    linger = facts.number("linger.ms") / 1000
    if facts.batches < FEW_BATCHES or facts.wait_after_close < max(2 * linger, 0.05):
        return None
    if facts.compressing >= 0.6 or facts.throttled >= WORTHWHILE:
        return None
    if _ceiling(facts) is not None or _small_batches(facts) is not None or _are_new(facts):
        return None
    return Advice(
        setting="the brokers",
        direction=Direction.CHECK,
        figure=f"closed batches waited {facts.wait_after_close * 1000:,.1f} ms, linger.ms is "
        f"{linger * 1000:,.0f}, a request took {facts.round_trip * 1000:,.1f} ms",
        sentence="broker-bound: batches are ready sooner than they can be sent",
    )


def _skew(facts: PipelineFacts) -> Advice | None:
    largest = facts.largest_partition(FEW_BATCHES)
    if largest is None or largest[1] < 3:
        return None
    part, excess = largest
    return Advice(
        setting="the keys",
        direction=Direction.CHECK,
        figure=f"{part.topic}-{part.partition} got {part.bytes_uncompressed / MB:,.1f} MB, "
        f"{excess:,.1f} times the mean of its topic's partitions",
        sentence="one partition gets most of the data; the others wait for it",
    )


def _tiny_tasks(facts: PipelineFacts) -> Advice | None:
    tasks = facts.report.tasks
    if tasks < TINY_TASKS:
        return None
    size, seconds = facts.report.bytes_uncompressed / tasks, facts.busy / tasks
    if size > TINY_BYTES or max(seconds, facts.each) > TINY_SECONDS:
        return None
    return Advice(
        setting="the number of tasks",
        direction=Direction.LOWER,
        figure=f"{tasks:,} tasks with {plural(size, 'byte')} and {seconds * 1000:,.0f} ms each",
        sentence="each task costs more than writing its data; coalesce() before the write, unless "
        "it takes that many to make the rows",
    )


def _splits(facts: PipelineFacts) -> Advice | None:
    splits = facts.report.splits
    if not splits or splits < 0.01 * facts.batches:
        return None
    return Advice(
        setting="batch.size",
        direction=Direction.LOWER,
        figure=f"refused for their size: {plural(splits, 'batch', 'batches')}; "
        f"taken: {facts.batches:,}",
        sentence="it is above what the topic takes (max.message.bytes), so data is sent twice",
    )


_RULES: tuple[Callable[[PipelineFacts], Advice | None], ...] = (
    unbounded_arrow_batches,
    _throttling,
    _retries,
    _splits,
    _compression,
    _ceiling,
    _buffer,
    _small_batches,
    _linger,
    _brokers,
    _skew,
    _tiny_tasks,
    _blocked,
    measured_arrow_batches,
    short_arrow_batches,
)

_DRY_RUN_RULES = (
    unbounded_arrow_batches,
    _codec,
    _small_batches,
    _linger,
    _skew,
    _tiny_tasks,
    measured_arrow_batches,
    short_arrow_batches,
)
"""Those that rest on nothing that brokers have answered."""
