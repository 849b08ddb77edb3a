"""Lay out the rows of a chunk in batches.

The layout precedes encoding because a record contains its offset delta, which depends on the first
record of its batch. Rows are grouped by partition in their original order, and divided into batches
by batch.size and batch.num.messages. `lay_out` has no side effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.kafka.records.varint import varint_size
from spark_kafka_sink.producer.buffer.batch import OpenBatchFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch

    Targets = NDArray[np.integer]
    """The target number of each of n rows; see `Route`."""
    Timestamps = NDArray[np.int64] | int
    """The timestamp of each of n rows in milliseconds, or one timestamp for all rows."""
    OpenBatchOf = Callable[[int], OpenBatchFacts | ProducerBatch | None]
    """Returns the open batch of a target, or None."""
    Order = NDArray[np.intp] | None
    """Row numbers in the order of the batches; None for the original order."""


_T = TypeVar("_T", bound=np.generic)

_FEW_RUNS = 16
"""Rows that consist of at most this many runs are not sorted, to avoid a copy."""

MAX_BATCH_RECORDS = 1 << 20


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a batch. A larger record gets its own batch."""

    size: int
    """Maximum size in bytes, including the header."""
    records: int = MAX_BATCH_RECORDS
    """Maximum number of records."""
    size_of_target: Callable[[int], int] | None = None
    """Returns the maximum size of a target's batches in bytes, which is at most `size`; or None."""


def ranges_within(
    sizes: NDArray[np.int64], max_bytes: int, max_rows: int = MAX_BATCH_RECORDS
) -> Iterator[tuple[int, int]]:
    """Yield ranges of consecutive rows within these limits; a larger row gets its own range."""
    ends = sizes.cumsum()
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(ends.searchsorted(before + max_bytes, side="right"))
        stop = max(min(stop, start + max_rows), start + 1)
        yield start, stop
        start = stop


class Segment(NamedTuple):
    """Rows start..stop (in `BatchLayout.order`): consecutive records in one batch."""

    target: int
    start: int
    stop: int
    first_delta: int
    """Offset delta of the first row; 0 if it starts a new batch."""
    base_timestamp: int


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The layout of n rows in batches."""

    order: Order
    """The row numbers in the order of the segments; None: the original order."""
    segments: list[Segment]
    offset_deltas: NDArray[np.int32]
    """Shape (n,), in the original order of the rows."""
    timestamp_deltas: NDArray[np.int64] | None
    """Shape (n,), in the original order; None if every record has its batch's base timestamp."""


def lay_out(
    targets: Targets,
    sizes: NDArray[np.int64],
    timestamps: Timestamps,
    open_batch: OpenBatchOf,
    limits: BatchLimits,
) -> BatchLayout:
    """Return the layout of n rows in batches.

    Args:
        targets: target number of each row, shape (n,).
        sizes: upper bound of each record in bytes, shape (n,); includes one byte for the timestamp
            delta if all rows have the same timestamp.
        timestamps: milliseconds, shape (n,), or one timestamp for all rows.
        open_batch: returns the open batch of a target, or None.
        limits: maximum size of a batch.
    """
    if not len(targets):
        return BatchLayout(None, [], np.zeros(0, np.int32), None)
    order, bounds = _runs(targets)
    ends = np.zeros(len(targets) + 1, np.int64)
    (sizes if order is None else sizes[order]).cumsum(out=ends[1:])
    stamps = timestamps if order is None or isinstance(timestamps, int) else timestamps[order]
    firsts = bounds[:-1] if order is None else order[bounds[:-1]]
    cutter = _Cutter(ends, stamps, limits)
    segments = cutter.segments(targets[firsts].tolist(), bounds, open_batch)
    return _build_layout(order, segments, len(targets), timestamps)


def _runs(targets: Targets) -> tuple[Order, NDArray[np.intp]]:
    """Return the order that groups the rows by target, and the bounds of each target's run.

    The bounds of the r runs have shape (r + 1,). Each target has one run.
    """
    bounds = _run_bounds(targets)
    runs = len(bounds) - 1
    is_grouped = runs <= _FEW_RUNS and len(set(targets[bounds[:-1]].tolist())) == runs
    if is_grouped or bool((targets[1:] >= targets[:-1]).all()):
        return None, bounds
    order = targets.argsort(kind="stable")
    return order, _run_bounds(targets[order])


def _run_bounds(targets: Targets) -> NDArray[np.intp]:
    bounds = np.empty(len(targets) + 1, np.bool_)
    bounds[0] = bounds[-1] = True
    np.not_equal(targets[1:], targets[:-1], out=bounds[1:-1])
    return bounds.nonzero()[0]


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Divides the run of each target into batches."""

    ends: NDArray[np.int64]
    """The total size of the rows before each row, shape (n + 1,)."""
    timestamps: Timestamps
    limits: BatchLimits

    def segments(
        self, targets: list[int], bounds: NDArray[np.intp], open_batch: OpenBatchOf
    ) -> list[Segment]:
        """Return the segments of r runs, which have different targets; `bounds` has shape (r + 1,).

        With many partitions, most runs are short and fit into their open batch. Therefore, all runs
        are checked at once, and only the others are divided one by one.
        """
        starts, stops = bounds[:-1], bounds[1:]
        batches = self._batches(targets, starts, open_batch)
        # Rows of a later chunk store the difference (design.md: create-time).
        bases = [batch.base_timestamp for batch in batches]
        records = [batch.records for batch in batches]
        filled = np.array([batch.size for batch in batches]) + self.ends[stops] - self.ends[starts]
        delta_sizes = {base: self._delta_size(base) for base in set(bases)}
        if any(delta_sizes.values()):
            filled += np.array([delta_sizes[base] for base in bases]) * (stops - starts)
        size_of_target = self.limits.size_of_target
        largest = (
            self.limits.size
            if size_of_target is None
            else np.array([size_of_target(t) for t in targets])
        )
        overflows = (filled > largest) | (np.array(records) + stops - starts > self.limits.records)
        firsts, lasts = starts.tolist(), stops.tolist()
        segments = list(map(Segment, targets, firsts, lasts, records, bases))
        for run in overflows.nonzero()[0][::-1].tolist():
            size = self.limits.size if isinstance(largest, int) else int(largest[run])
            cut = self._cut(segments[run], batches[run], size)
            segments[run : run + 1] = cut
        return segments

    def _batches(
        self, targets: list[int], starts: NDArray[np.intp], open_batch: OpenBatchOf
    ) -> list[OpenBatchFacts | ProducerBatch]:
        """Return the batch to which each run is added first, possibly a new one."""
        if isinstance(self.timestamps, int):
            new = OpenBatchFacts(0, HEADER_SIZE, self.timestamps)
            return [open_batch(target) or new for target in targets]
        stamps = self.timestamps[starts].tolist()
        return [
            open_batch(target) or OpenBatchFacts(0, HEADER_SIZE, stamp)
            for target, stamp in zip(targets, stamps, strict=True)
        ]

    def _cut(
        self, run: Segment, batch: OpenBatchFacts | ProducerBatch, batch_size: int
    ) -> Iterator[Segment]:
        """Divide the rows of a run that do not all fit into the batch."""
        start, records, base, size = run.start, batch.records, batch.base_timestamp, batch.size
        while start < run.stop:
            stop = self._first_row_beyond(start, run.stop, base, records, batch_size - size)
            if stop == start:
                records, base, size = 0, self._timestamp_of(start), HEADER_SIZE
                stop = self._first_row_beyond(start, run.stop, base, records, batch_size - size)
                stop = max(stop, start + 1)
            yield Segment(run.target, start, stop, records, base)
            size += int(self.ends[stop] - self.ends[start]) + self._delta_size(base) * (
                stop - start
            )
            records += stop - start
            start = stop

    def _first_row_beyond(self, start: int, stop: int, base: int, records: int, room: int) -> int:
        """Return the first row at or after `start` that does not fit into `room` bytes."""
        delta_size = self._delta_size(base)
        ends = self.ends[start + 1 : stop + 1]
        if delta_size:
            ends = ends + delta_size * np.arange(1, stop - start + 1)
        end = start + int(ends.searchsorted(int(self.ends[start]) + room, side="right"))
        return min(end, start + self.limits.records - records)

    def _delta_size(self, base: int) -> int:
        """Return by how many bytes a record can exceed its size bound in a batch with this base.

        This is the size of its timestamp delta, plus one byte because the record's length varint
        may become longer.
        """
        if not isinstance(self.timestamps, int) or self.timestamps == base:
            return 0
        size = varint_size(self.timestamps - base)
        return size if size > 1 else 0

    def _timestamp_of(self, row: int) -> int:
        return self.timestamps if isinstance(self.timestamps, int) else int(self.timestamps[row])


def _build_layout(
    order: Order, segments: list[Segment], rows: int, timestamps: Timestamps
) -> BatchLayout:
    counts = np.array([segment.stop - segment.start for segment in segments], np.intp)
    deltas = np.arange(rows, dtype=np.int32)
    shifts = [segment.first_delta - segment.start for segment in segments]
    if any(shifts):
        deltas += np.array(shifts, np.int32).repeat(counts)
    if isinstance(timestamps, int):
        ages = [timestamps - segment.base_timestamp for segment in segments]
        later = _unsort(np.array(ages, np.int64).repeat(counts), order) if any(ages) else None
        return BatchLayout(order, segments, _unsort(deltas, order), later)
    bases = np.array([segment.base_timestamp for segment in segments], np.int64)
    base_of = _unsort(bases.repeat(counts), order)
    return BatchLayout(order, segments, _unsort(deltas, order), timestamps - base_of)


def _unsort(values: NDArray[_T], order: Order) -> NDArray[_T]:
    """Convert values from the order of the batches back to the original order of the rows."""
    if order is None:
        return values
    original = np.empty_like(values)
    original[order] = values
    return original
