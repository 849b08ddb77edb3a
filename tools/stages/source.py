"""A data source that is the sink, and keeps the time of each stage in a folder."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter

from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from spark_kafka_sink.spark.writer import KafkaProdWriter
from tools.stages.clock import StageClock
from tools.stages.stages import READ, WRITE, install

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

NAME = "stages-of-kafkaprod"
FOLDER = "KAFKAPROD_STAGES"
"""The variable that names the folder; workers inherit it."""
_CLOCK: list[StageClock] = []
"""This worker's, once it has run a task."""


class StagedDataSource(KafkaProdDataSource):
    """`format("kafkaprod")` with a clock."""

    @classmethod
    def name(cls) -> str:
        """Not the sink's own, which goes without."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> StagedWriter:  # type: ignore[override]
        """The sink's writer, timed."""
        writer = super().writer(schema, overwrite)
        assert isinstance(writer, KafkaProdWriter)
        return StagedWriter(writer)


class StagedWriter(DataSourceArrowWriter):
    """A file for each task, with its rows and the seconds of each stage."""

    def __init__(self, writer: KafkaProdWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """One task's rows."""
        clock = _clock()
        clock.seconds.clear()
        rows = [0]
        batches = clock.timed_items(READ.name, _counted(iterator, rows))
        message = clock.timed(WRITE.name, self._writer.write)(batches)
        found = {"rows": rows[0], "seconds": dict(clock.seconds)}
        (Path(os.environ[FOLDER]) / f"{uuid.uuid4().hex}.json").write_text(json.dumps(found))
        return message  # type: ignore[no-any-return]

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """As the sink does."""
        self._writer.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """As the sink does."""
        self._writer.abort(messages)


def _clock() -> StageClock:
    if not _CLOCK:
        _CLOCK.append(StageClock())
        install(_CLOCK[0])
    return _CLOCK[0]


def _counted(batches: Iterator[pa.RecordBatch], rows: list[int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows[0] += batch.num_rows
        yield batch
