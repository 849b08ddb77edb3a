"""The writer of `warm_up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_kafka_sink.spark.runtime.preloading import COMMIT, PLANNING, TASK, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


class WarmUpWriter(DataSourceArrowWriter):
    """The writer with which `warm_up` starts Python workers before a first write.

    It imports the modules of a write and discards all rows. It opens no connection.

    Spark starts four kinds of Python workers for a Spark session's first write, one after another:
    to look up the format, to plan, to write and to commit. Workers are shared only by data sources
    with the same Python and environment variables, which differ between formats that Spark finds
    automatically and registered formats. `warm_up` therefore writes to `format("kafkaprod")`
    itself, with an option that is not public.

    Spark keeps idle workers for a minute. It does not stop the daemons from which it forks workers,
    and these have imported PySpark.
    """

    def __init__(self) -> None:
        """Import the modules of planning."""
        load(PLANNING)

    def write(  # type: ignore[override]  # declared for rows, called with Arrow batches
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Import the modules of a task, and discard the rows."""
        for _ in iterator:
            pass
        load(TASK)
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Import the modules of a commit."""
        del messages
        load(COMMIT)
