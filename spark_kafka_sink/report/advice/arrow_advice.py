"""The rules that derive advice about the size of Spark's Arrow batches."""

from __future__ import annotations

from spark_kafka_sink.common.text import MB, plural
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.advice.pipeline_facts import MIN_SHARE, PipelineFacts
from spark_kafka_sink.report.spark_settings import (
    ARROW_BYTES,
    ARROW_COLUMNS,
    ARROW_RECORDS,
    SAFE_ARROW_BYTES,
    UNMEASURED,
)

_MEASURING_COST_S = 0.07e-6
_MEASURING_COLUMN_COST_S = 0.055e-6
"""JVM seconds that measuring batches costs per row, and per row and column: Spark adds up the sizes
of all columns after every row. Measured with one and with ten columns.
"""
_SHORT_ARROW_BATCH_ROWS = 1_000
"""Number of rows in an Arrow batch above which its fixed cost is negligible."""
_BATCH_COST_S = 70e-6
"""Minimum time per batch in seconds, even with few rows: 50 us of the Python worker's CPU time and
20 to 60 us of the JVM's, which are spent in parallel if each process has a core. On a busy machine,
a batch takes longer.
"""
LARGE_SHARE = 0.15
"""Share of the time from which the advice about a setting precedes that about the producer."""


def unbounded_arrow_batches(facts: PipelineFacts) -> Advice | None:
    """Give advice if rows are large and Spark limits only the number of rows per batch."""
    rows, row_bytes = _arrow_rows(facts), _row_bytes(facts)
    if facts.int_setting(ARROW_BYTES) != UNMEASURED or rows * row_bytes <= SAFE_ARROW_BYTES:
        return None
    return Advice(
        setting=ARROW_BYTES,
        direction=Direction.LOWER,
        evidence=f"{plural(rows, 'row')} of {plural(row_bytes, 'byte')} form a "
        f"batch of {rows * row_bytes / MB:,.0f} MB, of which Spark keeps two copies while "
        "it grows",
        conclusion="such batches can exhaust the memory of an executor's JVM; 4m, as in "
        "conf/spark-defaults.conf, limits their size",
    )


def measuring_cost_s(columns: int) -> float:
    """Return the JVM seconds per row that measuring batches of so many columns costs."""
    return _MEASURING_COST_S + columns * _MEASURING_COLUMN_COST_S


def costly_measuring(facts: PipelineFacts) -> Advice | None:
    """Give advice if measuring batches of small rows takes so long that the summary shows it."""
    return measured_arrow_batches(facts, LARGE_SHARE, 1.0)


def measured_arrow_batches(
    facts: PipelineFacts, min_share: float = MIN_SHARE, max_share: float = LARGE_SHARE
) -> Advice | None:
    """Give advice if measuring batches of small rows takes a share of the time in this range."""
    if facts.int_setting(ARROW_BYTES) in (0, UNMEASURED) or not facts.busy_s:
        return None
    if facts.waits_for_kafka or _has_large_rows(facts):
        return None
    columns, row_bytes = max(1, facts.int_setting(ARROW_COLUMNS)), _row_bytes(facts)
    share = min(0.99, _share(facts, facts.report.records * measuring_cost_s(columns)))
    if not min_share <= share < max_share or 4 * _arrow_rows(facts) * row_bytes > SAFE_ARROW_BYTES:
        return None
    return Advice(
        setting=ARROW_BYTES,
        direction=Direction.RAISE,
        evidence=f"rows of {plural(columns, 'column')} and {plural(row_bytes, 'byte')}, "
        f"{facts.report.records / facts.busy_s:,.0f} per second and task: measuring each "
        f"row takes about {share:.0%} of the time",
        conclusion=f"with {UNMEASURED}, as in conf/spark-small-rows.conf, Spark does not measure "
        "the batch after every row; use it only for rows as small as these",
    )


def short_arrow_batches(facts: PipelineFacts) -> Advice | None:
    """Give advice if Spark sends few rows at a time, because each batch has a fixed cost."""
    rows = facts.int_setting(ARROW_RECORDS)
    if not 0 < rows <= _SHORT_ARROW_BATCH_ROWS or facts.report.records < rows * facts.report.tasks:
        return None
    batches = facts.report.records / rows
    share = min(1.0, _share(facts, batches * _BATCH_COST_S))
    if share < MIN_SHARE or facts.waits_for_kafka:
        return None
    return Advice(
        setting=ARROW_RECORDS,
        direction=Direction.RAISE,
        evidence=f"{plural(batches, 'Arrow batch', 'Arrow batches')} of {plural(rows, 'row')}, "
        f"which take at least {share:.0%} of the time, and more on a busy machine",
        conclusion="10,000, Spark's default and the value in conf/spark-defaults.conf, costs less "
        "per row",
    )


def _arrow_rows(facts: PipelineFacts) -> float:
    """Return the number of rows in an Arrow batch if only the number of rows is limited."""
    in_a_task = facts.report.records / max(1, facts.report.tasks)
    return min(facts.int_setting(ARROW_RECORDS), in_a_task)


def _row_bytes(facts: PipelineFacts) -> float:
    """Return the mean uncompressed bytes of a row in Kafka."""
    return facts.report.bytes_uncompressed / max(1, facts.report.records)


def _has_large_rows(facts: PipelineFacts) -> bool:
    """Return True if some rows are far larger than the mean: alone in a batch, or rejected."""
    largest = max((topic.batch_size.high for topic in facts.metrics.topics), default=0)
    oversized = any(count.reason == "OVERSIZED" for count in facts.report.poison)
    return oversized or largest > max(facts.int_setting("batch.size"), 16 * facts.batch_bytes)


def _share(facts: PipelineFacts, seconds: float) -> float:
    """Return the smallest possible share of `seconds`, spent by all tasks, in the total time.

    The time of a task starts with its first rows. If Spark takes long to compute these, the time of
    the whole write is larger and is used instead.
    """
    longest = max(facts.busy_s, facts.report.duration_ms / 1000)
    return seconds / longest if longest else 0.0
