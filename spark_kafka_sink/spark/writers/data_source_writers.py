"""The writers of `format("kafkaprod")`, which Spark pickles, and its commit messages.

Spark calls `write` in a task's Python worker, `commit` and `abort` in a Python worker on the
driver. These are different objects (design.md: new-writers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
except ImportError:  # PySpark 4.0: see `spark_releases`
    StreamArrowWriter = DataSourceArrowWriter  # type: ignore[assignment, misc]

from spark_kafka_sink.spark.runtime.spark_errors import without_traceback

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from spark_kafka_sink.spark.writers.commit_messages import CommitMessage
    from spark_kafka_sink.spark.writers.task_writer import TaskWriter
    from spark_kafka_sink.spark.writers.write_completion import WriteCompletion

    Messages = Sequence[WriterCommitMessage | None]


@dataclass
class SparkCommitMessage(WriterCommitMessage):
    """A task's commit message in the class that Spark requires."""

    delivery: CommitMessage


class KafkaProdWriter(DataSourceArrowWriter):
    """The writer for a batch."""

    def __init__(self, task: TaskWriter, completion: WriteCompletion) -> None:
        self.task = task
        self.completion = completion

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> SparkCommitMessage:  # type: ignore[override]
        """Write one task's rows, given as Arrow batches."""
        return SparkCommitMessage(self.task.run(iterator))

    @without_traceback()
    def commit(self, messages: Messages) -> None:
        """Commit the write after all tasks have finished, and publish its report."""
        self.completion.commit(_unwrap_messages(messages))

    @without_traceback()
    def abort(self, messages: Messages) -> None:
        """Abort a failed write, and publish the deliveries of finished tasks."""
        self.completion.abort(_unwrap_messages(messages))


class KafkaProdStreamWriter(StreamArrowWriter):
    """The writer for a stream's micro-batches.

    Spark creates one writer to plan a micro-batch, and a separate writer to commit it, which needs
    no task writer.
    """

    def __init__(self, task: TaskWriter | None, completion: WriteCompletion) -> None:
        self.task = task
        self.completion = completion

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> SparkCommitMessage:  # type: ignore[override]
        """Write one task's rows of a micro-batch, given as Arrow batches."""
        if self.task is None:
            raise TypeError("this writer can only commit")
        return SparkCommitMessage(self.task.run(iterator))

    @without_traceback()
    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Commit a micro-batch after all tasks have finished, and publish its report."""
        self.completion.commit(_unwrap_messages(messages), batchId)

    @without_traceback()
    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Abort a failed micro-batch, which Spark will run again, and publish its report."""
        self.completion.abort(_unwrap_messages(messages), batchId)


def _unwrap_messages(messages: Messages) -> list[object]:
    """Return the commit messages without Spark's class; other objects stay as they are."""
    return [
        message.delivery if isinstance(message, SparkCommitMessage) else message
        for message in messages
    ]
