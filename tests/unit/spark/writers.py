"""The end of an at-least-once write, as planning creates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.spark.writer import WriteEnd

if TYPE_CHECKING:
    from spark_kafka_sink.spark.writer import TaskWriter


def write_end(task: TaskWriter) -> WriteEnd:
    return WriteEnd(task.config, task.origin)
