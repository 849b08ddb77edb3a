"""The rows that a session writes, as columns, and their names in error messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_kafka_sink.common.masking import safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.records.columns import Columns


_PER_ROW = (
    "topic_indexes",
    "partition",
    "row_numbers",
    "errors",
    "header_lists",
    "topic_names",
    "problems",
)
"""The fields of `Rows` with one value per row, besides the columns."""
_KEY_BYTES = 32
"""Maximum number of bytes of a non-text key in an error message."""
MAX_CHUNK_BYTES = 4 << 20
"""Maximum size of a chunk, as columns and as records, in bytes. It limits the data that is derived
from the rows and not charged to the buffer, such as encoded headers, to a few times this size.
"""
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
    """A chunk of n rows for the producer."""

    columns: Columns
    topics: tuple[str, ...]
    topic_indexes: NDArray[np.int32] | None = None
    """Index of each row's topic in `topics`; None: all are topics[0]."""
    partition: pa.Int32Array | None = None
    """Null for rows that the partitioner assigns; None: all rows."""
    first_row: int = 0
    """The first row's number in error messages, counted from 0 within the task."""
    row_numbers: NDArray[np.int64] | None = None
    """The numbers of the rows, shape (n,), if they are not consecutive."""
    spark_partition: int | None = None
    """The task's partition number; None outside a task."""
    errors: NDArray[np.int8] | None = None
    """The `RowError`s that were found when the rows were read, shape (n,); None: no errors."""
    header_lists: pa.ListArray[Any] | None = None
    """The headers before encoding, for dead letters."""
    topic_names: pa.BinaryArray | None = None
    """The text of the topic column, for dead letters."""
    problems: pa.StringArray | None = None
    """The messages of the rows that could not be serialized; None: all rows were serialized."""
    serialize_s: float = 0.0
    """Seconds that it took to serialize the columns; each part of the rows has its share."""

    def __len__(self) -> int:
        return len(self.columns)

    def name(self, row: int) -> str:
        """Return a row's name for error messages: number, Spark partition, and key if any."""
        column = self.columns.key
        key = None if column is None else column[row].as_py()
        return row_name(self.number(row), self.spark_partition, key)

    def number(self, row: int) -> int:
        """Return the number of a row in error messages."""
        return self.first_row + row if self.row_numbers is None else int(self.row_numbers[row])

    def with_topics(self, kept: Sequence[int]) -> Rows:
        """Return the rows with only the topics at these indexes; no row may use another topic."""
        topic_indexes = self.topic_indexes
        if topic_indexes is not None:
            new_indexes = np.zeros(len(self.topics), np.int32)
            new_indexes[list(kept)] = np.arange(len(kept), dtype=np.int32)
            topic_indexes = new_indexes[topic_indexes] if len(kept) > 1 else None
        return replace(
            self, topics=tuple(self.topics[n] for n in kept), topic_indexes=topic_indexes
        )

    def slice(self, start: int, stop: int) -> Rows:
        """Return rows start..stop as views."""
        columns = self.columns.slice(start, stop)
        rows = self._selected(columns, lambda column: column[start:stop])
        return replace(rows, first_row=self.first_row + start)

    def select(self, positions: NDArray[np.intp]) -> Rows:
        """Return the rows at these positions, copied."""
        rows = self._selected(self.columns.take(positions), lambda column: column.take(positions))
        if self.row_numbers is not None:
            return rows
        return replace(rows, row_numbers=positions + self.first_row)

    def _selected(self, columns: Columns, select: Callable[[Any], Any]) -> Rows:
        """Return some of the rows: these columns, and the result of `select` for the others."""
        per_row = {name: getattr(self, name) for name in _PER_ROW}
        return replace(
            self,
            columns=columns,
            **{name: select(values) for name, values in per_row.items() if values is not None},
            serialize_s=self.serialize_s * len(columns) / max(1, len(self)),
        )


def row_name(number: int, spark_partition: int | None, key: str | bytes | None = None) -> str:
    """Format as "row 17 of Spark partition 3 (key 'k1')"; non-UTF-8 keys are in hexadecimal."""
    name = "a row" if number == UNKNOWN_ROW else f"row {number:,}"
    if spark_partition is not None:
        name = f"{name} of Spark partition {spark_partition}"
    return name if key is None else f"{name} (key {_shown_key(key)})"


def _shown_key(key: str | bytes) -> str:
    if isinstance(key, str):
        return safe_repr(key)
    try:
        return safe_repr(key.decode())
    except UnicodeDecodeError:
        return f"0x{key[:_KEY_BYTES].hex()}" + ("..." if len(key) > _KEY_BYTES else "")
