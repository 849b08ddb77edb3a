"""The rules that derive advice about brokers: their quotas, errors and response times."""

from __future__ import annotations

from operator import itemgetter

from spark_kafka_sink.common.text import plural
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.advice.batch_advice import buffer, round_trip_limit, small_batches
from spark_kafka_sink.report.advice.partition_advice import row_by_row, skew
from spark_kafka_sink.report.advice.pipeline_facts import MIN_BATCHES, MIN_SHARE, PipelineFacts

_NOT_RETRIED = {
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
}
"""Errors of batches that are split, or of single rows."""
_FORMER_LEADER_ERRORS = ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH")
"""Errors of batches that were sent to a partition's former leader."""
_NO_LEADER_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "LEADER_NOT_AVAILABLE",
)
"""Errors that brokers return for a partition that is still being created."""
_TIMEOUTS = {"REQUEST_TIMED_OUT", "DISCONNECTED"}
"""Errors of requests that got no response in time."""


def throttling(facts: PipelineFacts) -> Advice | None:
    """Give advice if quotas of the brokers pause the requests."""
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


def retries(facts: PipelineFacts) -> Advice | None:
    """Give advice if brokers fail. Missing leaders of new partitions do not count as a failure."""
    retries = facts.report.retries
    if retries < 3 or retries < 0.05 * facts.batches:
        return None
    if _are_new(facts):
        return _new_partitions(facts)
    errors = [pair for pair in facts.report.errors if pair[0] not in _NOT_RETRIED]
    name, times = max(errors, key=itemgetter(1), default=("an error", 0))
    if name in _TIMEOUTS and facts.throttled_share >= MIN_SHARE:
        return None  # Responses delayed by a quota, which `throttling` reports.
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
    is_majority_new = _count_new(facts) > len(facts.report.partitions) / 2
    return is_majority_new and _count_leader_errors(facts) >= max(3, 0.8 * facts.report.retries)


def _count_new(facts: PipelineFacts) -> int:
    """Return the number of partitions in which the first written record has offset 0."""
    return sum(partition.first_offset == 0 for partition in facts.report.partitions)


def _count_leader_errors(facts: PipelineFacts) -> int:
    """Return how many errors a partition without a known leader, or not yet created, caused."""
    errors = dict(facts.report.errors)
    return sum(errors.get(name, 0) for name in _NO_LEADER_ERRORS)


def _new_partitions(facts: PipelineFacts) -> Advice:
    return Advice(
        setting="when the topics are created",
        direction=Direction.CHECK,
        evidence=f"{_describe_retries(facts)}, {plural(_count_leader_errors(facts), 'time')} "
        f"because a leader was not ready; {_count_new(facts):,} of "
        f"{plural(len(facts.report.partitions), 'partition')} started at offset 0",
        conclusion="the brokers were still creating these partitions, which is not an error; to "
        "avoid the wait, create topics well before the write",
    )


def blocked(facts: PipelineFacts) -> Advice | None:
    """Give advice if Spark waits for Kafka although the buffer is large enough."""
    if not facts.waits_for_kafka or buffer(facts) is not None:
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


def brokers(facts: PipelineFacts) -> Advice | None:
    """Give advice if closed batches wait longer than linger.ms, and no other rule explains it."""
    linger = facts.linger_ms / 1000
    if facts.batches < MIN_BATCHES or facts.wait_after_close < max(2 * linger, 0.05):
        return None
    if facts.compressing_share >= 0.6 or facts.throttled_share >= MIN_SHARE:
        return None
    other_rules = (round_trip_limit, small_batches, skew, row_by_row)
    if _are_new(facts) or any(rule(facts) is not None for rule in other_rules):
        return None
    return Advice(
        setting="the brokers",
        direction=Direction.CHECK,
        evidence=f"closed batches waited {facts.wait_after_close * 1000:,.1f} ms, linger.ms is "
        f"{facts.linger_ms:,g}, and a request took {facts.round_trip * 1000:,.1f} ms",
        conclusion="broker-bound: batches are ready, but wait for earlier responses",
    )


def verification(facts: PipelineFacts) -> Advice | None:
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
