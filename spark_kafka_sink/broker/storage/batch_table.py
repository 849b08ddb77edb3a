"""The table of a segment's batches: their offsets, positions and timestamps."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from spark_kafka_sink.broker.storage.log_storage import BatchFacts


class BatchTable:
    """The batches of a segment, numbered from 0. Positions are in bytes, timestamps in ms."""

    def __init__(self) -> None:
        self._last_offsets = array("q")
        self._ends = array("q")
        self._max_timestamps = array("q")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self._ends[-1] if self._ends else 0

    @property
    def last_offset(self) -> int | None:
        """The last offset of the last batch, or None if there are no batches."""
        return self._last_offsets[-1] if self._last_offsets else None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of all batches, or -1 if there are no timestamps."""
        return self._max_timestamps[-1] if self._max_timestamps else -1

    def add(self, facts: BatchFacts) -> None:
        """Add the next batch."""
        max_timestamp = max(self.max_timestamp, facts.max_timestamp)
        self._ends.append(self.size + facts.size)
        self._last_offsets.append(facts.last_offset)
        self._max_timestamps.append(max_timestamp)

    def truncate(self, count: int) -> None:
        """Drop all batches except the first `count`."""
        for column in (self._last_offsets, self._ends, self._max_timestamps):
            del column[count:]

    def facts(self, number: int, base_offset: int) -> BatchFacts:
        """Return the properties of a batch. `max_timestamp` also includes all earlier batches."""
        before = self._last_offsets[number - 1] + 1 if number else base_offset
        return BatchFacts(
            base_offset=before,
            last_offset=self._last_offsets[number],
            max_timestamp=self._max_timestamps[number],
            size=self._ends[number] - self.position(number),
        )

    def position(self, number: int) -> int:
        """Return the byte position of a batch, or the total size for the number after the last."""
        return self._ends[number - 1] if number else 0

    def number_at_offset(self, offset: int) -> int:
        """Return the number of the first batch whose last offset is at least `offset`.

        This is also the count of batches that end before the offset.
        """
        return bisect_left(self._last_offsets, offset)

    def end_within(self, first: int, max_bytes: int) -> int:
        """Return the end (exclusive) of the batch numbers from `first` that fit in `max_bytes`."""
        return bisect_right(self._ends, self.position(first) + max_bytes, first)

    def number_at_timestamp(self, timestamp: int) -> int:
        """Return the number of the first batch with a timestamp of at least `timestamp`."""
        return bisect_left(self._max_timestamps, timestamp)

    def number_at_max_timestamp(self) -> int:
        """Return the number of the first batch with the largest timestamp."""
        return bisect_left(self._max_timestamps, self.max_timestamp)
