"""The writes whose memory is measured: what rows, with which settings, to what kind of broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MIB = 1 << 20
MB = 1_000_000
OVERHEAD = 200 * MB
"""Bytes that a worker may hold beside buffer.memory."""
ARROW_BATCH = 4 * MIB
"""What conf/spark-defaults.conf sets for `ARROW_BYTES`."""
SPARKS_ARROW_BATCH = 64 * MIB
"""Spark's own."""
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ARROW_BATCHES = 2
"""PySpark holds the batch that is being written while it reads the next one."""


class Broker(StrEnum):
    """Who takes the records."""

    KAFKA = "Kafka"
    SLOW = "slow"
    """Takes less than Spark hands over: the buffer is full all the time."""
    STALLING = "stalls"
    """Takes all that it can, but stands still for seconds at a time, and the buffer fills up."""


class Rows(StrEnum):
    """What the generated rows have beside a value; each has its number in it."""

    PLAIN = ""
    KEYED = "keyed"
    HEADERS = "in headers"
    """Most of a row's bytes are in its headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One write of `size` bytes in rows of `row` bytes, by one task.

    `buffer` is buffer.memory and `arrow` the bytes at most of Spark's Arrow batches; `options` are
    the sink's, `conf` the Spark session's.
    """

    size: int
    row: int = 100
    rows: Rows = Rows.PLAIN
    partitions: int = 8
    broker: Broker = Broker.SLOW
    buffer: int = 64 * MIB
    arrow: int = ARROW_BATCH
    options: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Rows."""
        return max(1, self.size // self.row)

    @property
    def bound(self) -> int:
        """Bytes that the worker may hold: what Spark hands over at once counts where it is more."""
        return OVERHEAD + self.buffer + _ARROW_BATCHES * max(0, self.arrow - ARROW_BATCH)

    @property
    def settings(self) -> dict[str, str]:
        """The Spark session's."""
        return {ARROW_BYTES: str(self.arrow), **self.conf}

    @property
    def columns(self) -> tuple[str, ...]:
        """Spark's expressions over `id`, the number of a row."""
        number = "cast(id AS string)"
        if self.rows is Rows.HEADERS:
            entry = f"named_struct('key', 'trace', 'value', cast({_text(self.row // 4)} AS binary))"
            return f"{number} AS value", f"array_repeat({entry}, 4) AS headers"
        value = f"{_text(self.row)} AS value"
        return (f"{number} AS key", value) if self.rows is Rows.KEYED else (value,)

    def __str__(self) -> str:
        row = f"{self.row:,} B" if self.row < 1_000 else f"{self.row // 1_000:,} KB"
        parts = (row, self.rows, f"{self.partitions:,} partitions", *self.options.values())
        return ", ".join(part for part in parts if part)


def _text(size: int) -> str:
    """A text of so many bytes that differs from row to row, with up to 60 bytes of noise."""
    return f"rpad(concat(id, '-', xxhash64(id), xxhash64(id, 1), xxhash64(id, 2)), {size}, '.,-')"


_ZSTD = {"kafka.compression.type": "zstd"}
_GB = 1_000 * MB
_LARGEST = 1_048_000
"""With what Kafka adds, as large a row as max.request.size allows by default."""
CASES = (
    Case(size=10 * _GB, broker=Broker.KAFKA),
    Case(size=2 * _GB, broker=Broker.STALLING),
    Case(size=_GB, rows=Rows.KEYED, partitions=1_000),
    Case(size=2 * _GB, broker=Broker.STALLING, options=_ZSTD),
    Case(size=_GB, row=2_000, rows=Rows.HEADERS),
    Case(size=_GB, row=60_000, broker=Broker.KAFKA),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING),
    Case(size=2 * _GB, row=60_000, rows=Rows.KEYED, partitions=1_000),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING, options=_ZSTD),
    Case(size=_GB, row=60_000, rows=Rows.HEADERS),
    Case(size=2 * _GB, row=_LARGEST, broker=Broker.STALLING),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING, buffer=128 * MIB),
    Case(size=2 * _GB, row=60_000, broker=Broker.STALLING, arrow=SPARKS_ARROW_BATCH),
    Case(size=200 * MB, row=24, conf={ARROW_ROWS: "0"}),
)
