"""The end of an at-least-once write, as planning creates it."""

from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from spark_kafka_sink.spark.writers.write_end import WriteEnd


def write_end(task: TaskWriter) -> WriteEnd:
    return WriteEnd(task.config, task.origin)
