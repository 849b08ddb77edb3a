"""Count a task's rows and collect their topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.exactly_once.task_transaction import MAX_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa


_MAX_NAME_CHARS = 249
"""Maximum length of a topic name, in characters."""


class RowCounter:
    """Counts the rows of Arrow batches and collects their topics while they are read.

    Args:
        batches: the task's Arrow batches.
        topic: index of the column whose names are collected; None to collect no names.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], topic: int | None) -> None:
        self._batches = batches
        self._topic = topic
        self.rows = 0
        self.topics: frozenset[str] | None = None if topic is None else frozenset()
        """Collected topics; None if topics are not collected, or are too many or too long for topic
        names.
        """

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            if self._topic is not None and self.topics is not None:
                self.topics = _with_topics(self.topics, batch.column(self._topic))
            yield batch


def _with_topics(earlier: frozenset[str], column: pa.Array[Any]) -> frozenset[str] | None:
    from spark_kafka_sink.kafka.records.columns import read_bytes  # only for tasks

    names = read_bytes(column.unique()).to_pylist()
    # A name that is not UTF-8 is an error of its row, which is found later.
    topics = earlier.union(name.decode(errors="replace") for name in names if name is not None)
    is_small = len(topics) <= MAX_TOPICS and all(len(name) <= _MAX_NAME_CHARS for name in topics)
    return topics if is_small else None
