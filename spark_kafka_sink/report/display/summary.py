"""The summary of a delivery report: its lines, as text or for HTML and terminal tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.arguments import REPORT, check_argument
from spark_kafka_sink.common.delivery_status import DeliveryStatus, partition_name
from spark_kafka_sink.common.histogram import MICROS_PER_S
from spark_kafka_sink.common.text import KB, plural, size_text
from spark_kafka_sink.report.advice.advice_rules import REPORT_HINT, advise
from spark_kafka_sink.report.advice.partition_facts import largest_partition
from spark_kafka_sink.report.advice.pipeline_facts import PipelineFacts
from spark_kafka_sink.report.write_status import WriteStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.common.histogram import Histogram
    from spark_kafka_sink.report.codec_cost import CodecCost
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters
    from spark_kafka_sink.report.partition_report import PartitionReport

_TOPICS_SHOWN = 8
_ERRORS_SHOWN = 5
_ADVICE_SHOWN = 3
_STATUS_TEXTS = {DeliveryStatus.SENT: "sent without acknowledgement"}
"""Texts for statuses whose value is not clear by itself."""
_SHOWN_STARTUP_S = 0.05
"""Minimum startup time of Python workers to display, because less would be rounded to 0.0 s."""


def _dry_run_title(report: DeliveryCounters) -> str:
    """Return the title for a dry run. The report can be a sum of dry runs and writes."""
    if any(partition.persisted or partition.sent for partition in report.partitions):
        return "Kafka delivery report, dry runs included"
    return "Kafka dry run: nothing was sent"


def _dry_run_rows(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Return the summary lines for a dry run, which replace the latencies."""
    if not report.batches:
        return []
    return [("batches", _batches(report)), *_skew(report), *_codecs(report)]


def _codec_text(cost: CodecCost) -> str:
    """Return a codec's ratio and cost in one line."""
    if not cost.cpu_ns:
        return f"{cost.ratio:,.1f} to 1"
    return (
        f"{cost.ratio:,.1f} to 1, {cost.us_per_record:,.2f} µs of CPU per record, "
        f"{KB / cost.ns_per_byte:,.0f} MB/s"
    )


def _batches(report: DeliveryCounters) -> str:
    """Describe the mean batch size relative to batch.size, and why the batches were closed."""
    facts = PipelineFacts(report)
    metrics = report.metrics
    limit = facts.int_setting("batch.size")
    fill = f" ({facts.batch_bytes / limit:.0%} of batch.size)" if limit else ""
    reasons = (
        (metrics.closed_full, "full"),
        (metrics.closed_linger, "after linger.ms"),
        (metrics.closed_flush, "with no more rows"),
        (metrics.closed_memory, "for lack of memory"),
    )
    closed = ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)
    records = report.successful_records / report.batches
    return (
        f"mean {size_text(facts.batch_bytes)}{fill}, {plural(records, 'record')}; closed {closed}"
    )


def _skew(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Compare the largest partition with the rest of its topic, including empty partitions."""
    largest = largest_partition(report)
    if largest is None:
        return []
    (topic, number), excess = largest[0].key, largest[1]
    same_topic = (partition for partition in report.partitions if partition.topic == topic)
    empty = sum(not partition.records for partition in same_topic)
    note = f"; {empty:,} of them {'is' if empty == 1 else 'are'} empty" if empty else ""
    name = partition_name(topic, number)
    return [("skew", f"{name} gets {excess:,.1f} times the mean of its topic's partitions{note}")]


def _codecs(report: DeliveryCounters) -> list[tuple[str, str]]:
    if not report.codecs:
        return []
    measured = report.codecs[0]
    size = size_text(measured.bytes_uncompressed)
    sample = f"measured on {measured.batches:,} of the batches, {size}"
    return [("codecs", sample), *((f"  {cost.codec}", _codec_text(cost)) for cost in report.codecs)]


def summarize(report: DeliveryCounters, duration_ms: int | None = None) -> str:
    """Return at most about twenty lines of text, regardless of the number of partitions and errors.

    Args:
        report: report of a task, or a merged report.
        duration_ms: time of the whole write as measured by the driver; it overrides the report's
            value. If both are missing, the rate refers to the slowest task.
    """
    check_argument("summarize(report)", report, REPORT, ("metrics",), REPORT_HINT)
    timed = replace(report, duration_ms=duration_ms) if duration_ms else report
    rows = summary_rows(timed)
    return "\n".join([title(report), *(f"  {name:<16}{text}" for name, text in rows)])


def title(report: DeliveryCounters) -> str:
    """Return the title of the summary."""
    return _dry_run_title(report) if report.dry_run else "Kafka delivery report"


def summary_line(report: DeliveryCounters) -> str:
    """Return a one-line summary: outcome of the rows, size, speed, and errors."""
    parts = [
        _statuses(report),
        *_bad_row_sums(report),
        _sizes_and_ratio(report),
        _durations_and_rates(report),
    ]
    counts = ((report.retries, "retry", "retries"), (report.splits, "split batch", "split batches"))
    parts += [plural(count, *words) for count, *words in counts if count]
    if report.throttle_ms:
        parts.append(f"throttled {report.throttle_ms:,} ms")
    return "; ".join(parts)


def summary_rows(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Return the lines that `summarize` formats, as pairs of name and text."""
    return [
        *_write_status(report),
        *_row_outcomes(report),
        ("records", _statuses(report)),
        ("size", _sizes_and_ratio(report)),
        ("spread", _spread(report)),
        ("time", _durations_and_rates(report)),
        *(_dry_run_rows(report) if report.dry_run else _latencies(report)),
        *_formats(report),
        ("problems", _problems(report)),
        *_bad_row_lines(report),
        *_topics(report),
        *(("advice", str(advice)) for advice in advise(report)[:_ADVICE_SHOWN]),
    ]


def _formats(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Return the formats of key and value with their schemas, and the serialization time."""
    settings = dict(report.metrics.settings)
    parts = []
    for part in ("key", "value"):
        text, number = settings.get(f"{part}.format"), settings.get(f"{part}.schema.id")
        schema = f" (schema {number} of {settings.get(f'{part}.subject')})" if number else ""
        parts += [f"{part} {text}{schema}"] if text else []
    if not parts:
        return []
    seconds = report.metrics.serialize_time / MICROS_PER_S
    return [("formats", f"{', '.join(parts)}; {seconds:,.1f} s spent serializing in all tasks")]


def _write_status(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Return the status unless the write succeeded, and the outcome of transactions, if any."""
    rows: list[tuple[str, str]] = []
    if report.status is not WriteStatus.SUCCEEDED or report.error:
        name = report.status.value
        rows.append(("status", f"{name}: {report.error}" if report.error else name))
    if report.transaction_outcome:
        rows.append(("exactly once", report.transaction_outcome))
    return rows


def _row_outcomes(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Return the number of rows by outcome, if some rows did not go to their topic."""
    if not report.poison:
        return []
    lost = _lost_records(report.partitions)
    written = report.records - report.dead_lettered - lost
    word = "would be written" if report.dry_run else "written"
    parts = [f"{written:,} {word}", *_bad_row_sums(report)]
    if lost:
        parts.append(f"{lost:,} possibly not delivered")
    return [("rows", f"{report.rows:,}: {', '.join(parts)}")]


def _bad_row_sums(report: DeliveryCounters) -> list[str]:
    dead_letters = [plural(report.dead_lettered, "dead letter")] if report.dead_lettered else []
    return dead_letters + ([f"{report.dropped:,} dropped"] if report.dropped else [])


def _statuses(report: DeliveryCounters) -> str:
    counts = (
        (status, sum(getattr(partition, status) for partition in report.partitions))
        for status in DeliveryStatus
    )
    always = DeliveryStatus.WOULD_BE_WRITTEN if report.dry_run else DeliveryStatus.PERSISTED
    return ", ".join(
        f"{count:,} {_STATUS_TEXTS.get(status, status.replace('_', ' '))}"
        for status, count in counts
        if count or status is always
    )


def _bad_row_lines(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Return one line for each reason."""
    dead_letters = [plural(count.dead_lettered, "dead letter") for count in report.poison]
    return [
        ("bad rows", f"{count.reason}: {text}, {count.dropped:,} dropped")
        for count, text in zip(report.poison, dead_letters, strict=True)
    ]


def _sizes_and_ratio(report: DeliveryCounters) -> str:
    before, after = report.bytes_uncompressed, report.bytes_sent
    ratio = f" ({before / after:.1f} to 1)" if after and before != after else ""
    word = "to be sent" if report.dry_run else "sent"
    return f"{size_text(before)}, {size_text(after)} {word}{ratio}"


def _spread(report: DeliveryCounters) -> str:
    topics = {partition.topic for partition in report.partitions}
    batches = sum(partition.batches for partition in report.partitions)
    return (
        f"{plural(len(topics), 'topic')}, {_partitions(report, report.partitions)}, "
        f"{plural(batches, 'batch', 'batches')}, {plural(report.tasks, 'task')}"
    )


def _partitions(report: DeliveryCounters, partitions: Sequence[PartitionReport]) -> str:
    """Return how many partitions were written to and, if known and larger, how many exist."""
    known = report.metrics.topic_partitions
    seen = Counter(partition.topic for partition in partitions)
    whole = sum(max(count, known.get(topic, 0)) for topic, count in seen.items())
    prefix = "" if whole == len(partitions) else f"{len(partitions):,} of "
    return prefix + plural(whole, "partition")


def _durations_and_rates(report: DeliveryCounters) -> str:
    """Return durations and rates; see `DeliveryCounters.per_second`."""
    whole, slowest = report.duration_ms / 1_000, report.duration_max_ms / 1_000
    if not whole and not slowest:
        return "0.0 s"
    rate, size = map(report.per_second, (report.successful_records, report.bytes_uncompressed))
    rates = f"{rate:,.0f} records/s, {size_text(size)}/s"
    if not whole:
        return f"{slowest:,.1f} s, {rates} in the slowest task"
    startup = report.startup_ms / 1_000
    slowest_note = f"slowest task {slowest:,.1f} s"
    if not _SHOWN_STARTUP_S <= startup < whole:
        return f"{whole:,.1f} s, {rates}; {slowest_note}"
    of_which = f"of which {startup:,.1f} s Python worker start-up"
    return f"{whole:,.1f} s, {of_which}; then {rates}; {slowest_note}"


def _latencies(report: DeliveryCounters) -> list[tuple[str, str]]:
    return [
        ("request latency", _latency(report.request_latency)),
        ("queue latency", _latency(report.queue_latency)),
    ]


def _latency(times: Histogram) -> str:
    """Return the median, the 99th percentile and the maximum in milliseconds."""
    if not times.count:
        return "none measured"
    p50, p99 = times.percentile(50) / 1_000, times.percentile(99) / 1_000
    return f"p50 {p50:,.1f} ms, p99 {p99:,.1f} ms, max {times.high / 1_000:,.1f} ms"


def _problems(report: DeliveryCounters) -> str:
    parts = [
        plural(report.retries, "retry", "retries"),
        plural(report.splits, "split batch", "split batches"),
        f"throttled {report.throttle_ms:,} ms",
        plural(report.retried_tasks, "task on a later attempt", "tasks on a later attempt"),
    ]
    ranked = sorted(report.errors, key=lambda pair: (-pair[1], pair[0]))
    counted_errors = [f"{name} {times:,}" for name, times in ranked[:_ERRORS_SHOWN]]
    omitted = (
        [plural(len(ranked) - _ERRORS_SHOWN, "other error")] if len(ranked) > _ERRORS_SHOWN else []
    )
    return ", ".join(parts + counted_errors + omitted)


def _topics(report: DeliveryCounters) -> list[tuple[str, str]]:
    groups: defaultdict[str, list[PartitionReport]] = defaultdict(list)
    for partition in report.partitions:
        groups[partition.topic].append(partition)
    # Topics with undelivered records come first, followed by the largest topics.
    order = sorted(
        groups.items(), key=lambda pair: (not _lost_records(pair[1]), -_total_records(pair[1]))
    )
    rows = [
        ("topic", f"{topic}: {_topic(report, group)}") for topic, group in order[:_TOPICS_SHOWN]
    ]
    if len(order) > _TOPICS_SHOWN:
        rows.append(("", f"and {plural(len(order) - _TOPICS_SHOWN, 'more topic')}"))
    return rows


def _topic(report: DeliveryCounters, partitions: list[PartitionReport]) -> str:
    delivered = sum(partition.successful_records for partition in partitions)
    lost = _lost_records(partitions)
    lost_note = f", {lost:,} possibly not delivered" if lost else ""
    spread = f"{plural(delivered, 'record')} in {_partitions(report, partitions)}"
    return f"{spread}{lost_note}{_offsets(partitions)}"


def _offsets(partitions: list[PartitionReport]) -> str:
    if len(partitions) != 1 or partitions[0].first_offset is None:
        return ""
    return f", offsets {partitions[0].first_offset:,} to {partitions[0].last_offset:,}"


def _total_records(partitions: Sequence[PartitionReport]) -> int:
    return sum(partition.records for partition in partitions)


def _lost_records(partitions: Sequence[PartitionReport]) -> int:
    return _total_records(partitions) - sum(
        partition.successful_records for partition in partitions
    )
