"""The numbered records of a run: files that a stream reads, so many for each micro-batch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NO_PARTITION = 999
"""What a record asks for that is to become a dead letter."""
_FIRST_MTIME = 1_700_000_000
_KEYS = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """`rows` are those of each file; numbers go on from file to file, starting at 0.

    `explicit`: records name their partition, else they have a key. `dead`: numbers that must end
    up in the dead letter topic. Each row of the files `slow` takes `nap_ms`. The last micro-batch
    is held back until the others are done.
    """

    seed: int
    rows: tuple[int, ...]
    files_per_batch: int
    partitions: int
    value_size: int
    explicit: bool
    dead: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()
    nap_ms: int = 0

    @property
    def total(self) -> int:
        return sum(self.rows)

    @property
    def batches(self) -> int:
        return -(-len(self.rows) // self.files_per_batch)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first number of each file."""
        return tuple(accumulate(self.rows, initial=0))[:-1]

    def files_of(self, batch: int) -> range:
        """The files of a micro-batch."""
        return range(len(self.rows))[batch * self.files_per_batch :][: self.files_per_batch]

    def numbers_of(self, batch: int) -> range:
        """The numbers of a micro-batch."""
        files = self.files_of(batch)
        first = self.starts[files[0]]
        return range(first, first + sum(self.rows[file] for file in files))

    def good_before(self, number: int) -> int:
        """How many numbers below this one belong into the topic."""
        return number - sum(dead < number for dead in self.dead)

    def file_of(self, number: int) -> int:
        """The file that a number is in: one task writes it, from the first row to the last."""
        return max(file for file, start in enumerate(self.starts) if start <= number)

    def place(self, number: int) -> int:
        """The partition that a record names, where records name theirs."""
        return NO_PARTITION if number in self.dead else number // 3 % self.partitions

    def write(self, folder: Path, batches: Iterable[int]) -> None:
        """Make the files of these micro-batches; the stream takes them by their time of change."""
        folder.mkdir(parents=True, exist_ok=True)
        for file in (file for batch in batches for file in self.files_of(batch)):
            # Spark's file source does not see names that begin with a dot.
            hidden, path = folder / f".{file:04}", folder / f"{file:04}.parquet"
            pq.write_table(self._table(file), hidden)
            os.utime(hidden, (_FIRST_MTIME + file, _FIRST_MTIME + file))
            hidden.rename(path)

    def _table(self, file: int) -> pa.Table:
        random = Random(f"{self.seed}/{file}")
        start, count = self.starts[file], self.rows[file]
        numbers = range(start, start + count)
        nap = self.nap_ms if file in self.slow else 0
        values = [f"{number}:{'.' * random.randrange(self.value_size)}" for number in numbers]
        return pa.table(
            {
                "value": pa.array(values, pa.string()),
                "key": pa.array([f"key-{number % _KEYS}" for number in numbers], pa.string()),
                "place": pa.array([self.place(number) for number in numbers], pa.int32()),
                "nap": pa.array([nap] * count, pa.int64()),
            }
        )


def number_of(value: bytes | None) -> int:
    """The number that a record carries."""
    return int((value or b"-1:").split(b":", 1)[0])
