"""The end of an at-least-once write, as planning creates it."""

from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from spark_kafka_sink.spark.writers.write_completion import WriteCompletion


def write_completion(task: TaskWriter) -> WriteCompletion:
    return WriteCompletion(task.config, task.origin)
