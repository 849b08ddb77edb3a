"""Rules on the Arrow batches in which Spark hands over its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.report.advice.advice import MB, Advice, Direction
from spark_kafka_sink.report.pipeline import ARROW_BYTES, ARROW_RECORDS, WORTHWHILE

if TYPE_CHECKING:
    from spark_kafka_sink.report.pipeline import PipelineFacts

UNMEASURED = 2**31 - 1
"""The value of Spark's maxBytesPerBatch with which it does not measure its batches."""
SAFE_ARROW_BATCH = 64 * 1024 * 1024
"""Spark's own bound, in bytes."""
MEASURING = 0.09e-6
"""JVM seconds a row: 0.27 us instead of 0.18, 100-byte rows on Spark 4.1 and 4.3."""
SHORT_ARROW_BATCH = 1_000
"""Rows of an Arrow batch above which its own cost is too small to tell."""
HANDING_OVER = 70e-6
"""Seconds that a batch costs at least, however few rows it has: 50 us of the Python worker's CPU
time and 20 to 60 of the JVM's, which work side by side where they have a core each. On a machine
that is busy with other work it takes longer."""


def unbounded_arrow_batches(facts: PipelineFacts) -> Advice | None:
    """Nothing but their number bounds the rows that Spark gathers, and they are large."""
    if facts.number(ARROW_BYTES) != UNMEASURED or facts.arrow_batch <= SAFE_ARROW_BATCH:
        return None
    return Advice(
        setting=ARROW_BYTES,
        direction=Direction.LOWER,
        figure=f"{plural(facts.arrow_rows, 'row')} of {plural(facts.row, 'byte')} make a batch of "
        f"{facts.arrow_batch / MB:,.0f} MB, which Spark holds twice while it grows",
        sentence="such rows can end an executor's JVM; 4m, as in conf/spark-defaults.conf, "
        "bounds the batch",
    )


def measured_arrow_batches(facts: PipelineFacts) -> Advice | None:
    """Small rows, many a second: what Spark spends on measuring its batch shows."""
    if facts.number(ARROW_BYTES) in (0, UNMEASURED) or not facts.busy:
        return None
    if facts.waits_for_kafka or facts.has_large_rows:
        return None
    share = facts.share(facts.report.records * MEASURING)
    if share < WORTHWHILE or 4 * facts.arrow_batch > SAFE_ARROW_BATCH:
        return None
    return Advice(
        setting=ARROW_BYTES,
        direction=Direction.RAISE,
        figure=f"rows of {plural(facts.row, 'byte')}, {facts.report.records / facts.busy:,.0f} a "
        f"second in a task, each measured: about {share:.0%} of the time",
        sentence=f"with {UNMEASURED}, as in conf/spark-small-rows.conf, Spark does not measure "
        "its batch after every row; only for rows as small as these",
    )


def short_arrow_batches(facts: PipelineFacts) -> Advice | None:
    """Spark hands over a few rows at a time, and each batch costs the worker some Python."""
    rows = facts.number(ARROW_RECORDS)
    if not 0 < rows <= SHORT_ARROW_BATCH or facts.report.records < rows * facts.report.tasks:
        return None
    batches = facts.report.records / rows
    share = min(1.0, facts.share(batches * HANDING_OVER))
    if share < WORTHWHILE or facts.waits_for_kafka:
        return None
    return Advice(
        setting=ARROW_RECORDS,
        direction=Direction.RAISE,
        figure=f"{plural(batches, 'Arrow batch', 'Arrow batches')} of {plural(rows, 'row')}, "
        f"at least {share:.0%} of the time, more where the machine is busy",
        sentence="10,000, Spark's default and in conf/spark-defaults.conf, costs less a row",
    )
