"""At-least-once writers for a task writer, as planning creates them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.spark.writer import KafkaProdStreamWriter, KafkaProdWriter, WriteEnd

if TYPE_CHECKING:
    from spark_kafka_sink.spark.writer import TaskWriter


def batch_writer(task: TaskWriter) -> KafkaProdWriter:
    return KafkaProdWriter(task, WriteEnd(task.config, task.origin))


def stream_writer(task: TaskWriter) -> KafkaProdStreamWriter:
    return KafkaProdStreamWriter(task, WriteEnd(task.config, task.origin))
