"""One chunk of rows on its way to the producer: columns, topics, partitions and row numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_kafka_sink.common.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_kafka_sink.records.columns import Columns


_KEY_BYTES = 32
"""Bytes of a non-text key that an error shows."""
UNKNOWN_ROW = -1
"""Placeholder for an unknown row number."""


class RowNumbers(NamedTuple):
    """Row numbers of consecutive records in a Spark partition, for error messages."""

    numbers: range | NDArray[np.int64]
    spark_partition: int | None

    def slice(self, start: int, stop: int) -> RowNumbers:
        """Return the numbers of records start..stop."""
        return RowNumbers(self.numbers[start:stop], self.spark_partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One chunk of n rows on its way to the producer.

    `topic_of` is the index of each row's topic in `topics` (None: all rows go to topics[0]).
    `partition` is int32, null for rows that the partitioner assigns (None: all rows). `first_row`
    is the number that errors give to the first row, counted in the task from 0; `numbers` are those
    of all rows, shape (n,), if they are not consecutive. `spark_partition` is that of the task,
    None outside of one. `errors` is a `RowError` per row, int8 of shape (n,), found by the rows'
    reader (None: no errors). `header_lists` (the headers before encoding) and `topic_names` (the
    text of the topic column) are kept for dead letters.
    """

    columns: Columns
    topics: tuple[str, ...]
    topic_of: NDArray[np.int32] | None = None
    partition: pa.Int32Array | None = None
    first_row: int = 0
    numbers: NDArray[np.int64] | None = None
    spark_partition: int | None = None
    errors: NDArray[np.int8] | None = None
    header_lists: pa.ListArray[Any] | None = None
    topic_names: pa.BinaryArray | None = None

    def __len__(self) -> int:
        return len(self.columns)

    def name(self, row: int) -> str:
        """Return a row's name for errors: number, Spark partition, and key if it has one."""
        column = self.columns.key
        key = None if column is None else column[row].as_py()
        return row_name(self.number(row), self.spark_partition, key)

    def number(self, row: int) -> int:
        """Return the number that errors give to a row."""
        return self.first_row + row if self.numbers is None else int(self.numbers[row])

    def with_topics(self, kept: Sequence[int]) -> Rows:
        """Return the same rows with only the topics at these indexes; each row has one of them."""
        topic_of = self.topic_of
        if topic_of is not None:
            numbers = np.zeros(len(self.topics), np.int32)
            numbers[list(kept)] = np.arange(len(kept), dtype=np.int32)
            topic_of = numbers[topic_of] if len(kept) > 1 else None
        return replace(self, topics=tuple(self.topics[n] for n in kept), topic_of=topic_of)

    def slice(self, start: int, stop: int) -> Rows:
        """Return rows start..stop as views."""
        lists, names = self.header_lists, self.topic_names
        return Rows(
            columns=self.columns.slice(start, stop),
            topics=self.topics,
            topic_of=None if self.topic_of is None else self.topic_of[start:stop],
            partition=None if self.partition is None else self.partition[start:stop],
            first_row=self.first_row + start,
            numbers=None if self.numbers is None else self.numbers[start:stop],
            spark_partition=self.spark_partition,
            errors=None if self.errors is None else self.errors[start:stop],
            header_lists=None if lists is None else lists.slice(start, stop - start),
            topic_names=None if names is None else names.slice(start, stop - start),
        )

    def take(self, numbers: NDArray[np.intp]) -> Rows:
        """Return the rows at these positions, copied."""
        lists, names = self.header_lists, self.topic_names
        return Rows(
            columns=self.columns.take(numbers),
            topics=self.topics,
            topic_of=None if self.topic_of is None else self.topic_of[numbers],
            partition=None if self.partition is None else self.partition.take(numbers),
            numbers=(numbers + self.first_row if self.numbers is None else self.numbers[numbers]),
            spark_partition=self.spark_partition,
            errors=None if self.errors is None else self.errors[numbers],
            header_lists=None if lists is None else lists.take(numbers),
            topic_names=None if names is None else names.take(numbers),
        )


def row_name(number: int, spark_partition: int | None, key: str | bytes | None = None) -> str:
    """Format as "row 17 of Spark partition 3 (key 'k1')"; non-UTF-8 keys in hexadecimal."""
    name = "a row" if number == UNKNOWN_ROW else f"row {number:,}"
    if spark_partition is not None:
        name = f"{name} of Spark partition {spark_partition}"
    return name if key is None else f"{name} (key {_shown_key(key)})"


def _shown_key(key: str | bytes) -> str:
    if isinstance(key, str):
        return shown(key)
    try:
        return shown(key.decode())
    except UnicodeDecodeError:
        return f"0x{key[:_KEY_BYTES].hex()}" + ("..." if len(key) > _KEY_BYTES else "")
