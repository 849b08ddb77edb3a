"""The rules that derive advice about Spark's tasks."""

from __future__ import annotations

from spark_kafka_sink.common.histogram import MICROS_PER_S
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.advice.pipeline_facts import (
    MIN_BATCHES,
    PipelineFacts,
)

_SERIALIZE_SHARE = 0.5
"""Share of the tasks' time spent on serialization above which serialization limits a job."""
_MIN_SERIALIZE_S = 5.0
"""Seconds of serialization below which faster serialization would save little."""
_MANY_TASKS = 20
"""Number of tasks from which tiny tasks are worth advice."""
_TINY_TASK_BYTES = 64 * 1024
"""Bytes per task up to which tasks are tiny."""
_TINY_TASK_S = 0.5
"""Seconds per task up to which tasks are tiny."""


def tiny_tasks(facts: PipelineFacts) -> Advice | None:
    """Give advice if many tasks write so little that starting them takes most of the time."""
    tasks = facts.report.tasks
    if tasks < _MANY_TASKS:
        return None
    size, seconds = facts.report.bytes_uncompressed / tasks, facts.busy_s / tasks
    is_long = max(seconds, facts.report.duration_ms / 1000 / tasks) > _TINY_TASK_S
    if size > _TINY_TASK_BYTES or is_long or _is_of_several_writes(facts):
        return None
    return Advice(
        setting="the number of tasks",
        direction=Direction.LOWER,
        evidence=f"{tasks:,} tasks with {plural(size, 'byte')} and {seconds * 1000:,.0f} ms each",
        conclusion="starting a task costs more than writing its data; use coalesce() before the "
        "write, unless the computation of the rows needs that many tasks",
    )


def serializing(facts: PipelineFacts) -> Advice | None:
    """Give advice if tasks spend most of their time serializing, and do not wait for Kafka."""
    seconds = facts.metrics.serialize_time / MICROS_PER_S
    if seconds < _MIN_SERIALIZE_S or not facts.busy_s or seconds < _SERIALIZE_SHARE * facts.busy_s:
        return None
    if facts.batches < MIN_BATCHES:  # A short job spends this time on starting the encoders.
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


def _is_of_several_writes(facts: PipelineFacts) -> bool:
    """Return True if the report is a sum of writes, such as the micro-batches of a folder.

    In a single write, each partition of the DataFrame has only one task that counts.
    """
    ids = [task.task.partition_id for task in facts.report.slowest]
    return len(set(ids)) < len(ids)
