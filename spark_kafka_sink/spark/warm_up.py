"""The write that `warm_up` runs in Spark's Python workers: it imports modules and discards rows.

Spark starts four kinds of Python workers for a session's first write, one after another: to look up
the format, to plan, to write and to commit. Workers are shared only by data sources with the same
Python and environment variables, which differ between formats that Spark finds automatically and
registered formats. `warm_up` therefore writes to `format("kafkaprod")` itself, with an option that
is not public.

Spark keeps idle workers for a minute. It does not stop the daemons from which it forks workers, and
these have imported PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

_PACKAGE: Final = "spark_kafka_sink."
PLANNING: Final = ("spark.plan", "config.builder", "diagnostics.preflight")
TASK: Final = ("spark.writer", "spark.columns", "spark.commit_messages", "producer.session")
COMMIT: Final = ("spark.writer", "spark.commit_messages", "spark.publication", "config.model")
"""Modules of this package whose import loads everything that a worker needs to plan, write or
commit.
"""


class WarmUpWriter(DataSourceArrowWriter):
    """A writer that imports the modules of a write and discards all rows; opens no connection."""

    def __init__(self) -> None:
        """Import the modules of planning."""
        _load(PLANNING)

    def write(  # type: ignore[override]  # declared for rows, called with Arrow batches
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Import the modules of a task, and discard the rows."""
        for _ in iterator:
            pass
        _load(TASK)
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Import the modules of a commit."""
        del messages
        _load(COMMIT)


def _load(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(_PACKAGE + module)
