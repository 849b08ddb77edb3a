"""The function that `write` passes to `DataFrame.mapInArrow`; it runs in the tasks.

Its result is one row with the task's commit message. Workers load this module to unpickle the
function, so it imports little.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.spark.rows.plain_names import renamed
from spark_kafka_sink.spark.runtime.worker_setup import hide_traceback

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_kafka_sink.spark.writers.task_writer import TaskWriter

SCHEMA = StructType([StructField("message", BinaryType())])
"""A StructType, because the driver's JVM would have to parse a DDL string."""

Finished = Accumulator[dict[str, list[bytes]]]
"""Pickled commit messages of finished tasks, by write."""


class MessagesByWrite(AccumulatorParam[dict[str, list[bytes]]]):
    """Merges the commit messages of the tasks of several writes."""

    def zero(self, value: dict[str, list[bytes]]) -> dict[str, list[bytes]]:  # noqa: ARG002
        """Return the initial value in a task."""
        return {}

    def addInPlace(  # noqa: N802
        self, value1: dict[str, list[bytes]], value2: dict[str, list[bytes]]
    ) -> dict[str, list[bytes]]:
        """Add a task's commit messages."""
        for write_id, messages in value2.items():
            value1.setdefault(write_id, []).extend(messages)
        return value1


def run_task(
    task: TaskWriter,
    write_id: str,
    finished: Finished | None,
    batches: Iterator[pa.RecordBatch],
    *,
    names: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Write one task's rows and yield its commit message.

    Spark 3.5 reports an error with its traceback, of which Spark Connect returns only the first
    2,048 characters: an error of this package has only Spark's own frames.

    Args:
        task: the task writer.
        write_id: identifies the write in `finished`.
        finished: collects the commit messages if the job fails; None with Spark Connect.
        batches: the rows.
        names: the columns' names, if the batches have other names.
    """
    if names is not None:
        batches = renamed(batches, names)
    try:
        message = pickle.dumps(task.run(batches))
    except KafkaProdError as error:
        if not hide_traceback():
            raise
        raise error.with_traceback(None) from None
    if finished is not None:
        finished.add({write_id: [message]})
    yield _message_row(message)


def run_task_without_rows(
    task: TaskWriter, write_id: str, finished: Finished | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the only task of a write whose DataFrame has no partitions; drop the job's own row."""
    for _ in batches:
        pass
    return run_task(task, write_id, finished, iter(()))


def unpickle_messages(pickled: Iterable[bytes]) -> list[object]:
    """Return the commit messages of tasks."""
    return [pickle.loads(message) for message in pickled]  # noqa: S301 - messages of own tasks


def load_task_modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Import the modules of a task, and drop the rows; for `warm_up`."""
    from spark_kafka_sink.spark.runtime.preloading import TASK, load

    for _ in batches:
        pass
    load(TASK)
    yield _message_row(b"")


def _message_row(message: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([message], pa.binary())], ["message"])
