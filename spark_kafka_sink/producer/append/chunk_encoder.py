"""Lay out a chunk in batches, encode it, and cut it into slices, one for each batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.record_encoder import encode_records, split_records
from spark_kafka_sink.producer.buffer.batch import Charge, EncodedSlice
from spark_kafka_sink.producer.buffer.batch_layout import (
    MAX_BATCH_RECORDS,
    BatchLimits,
    Segment,
    lay_out,
)
from spark_kafka_sink.producer.rows import RowNumbers

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.producer.append.chunk import RoutedChunk
    from spark_kafka_sink.producer.append.route import Route
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch_layout import Order, Timestamps
    from spark_kafka_sink.producer.limits.size_limits import BatchSizeLimits


_MIN_RECORD_BYTES_FOR_ROW_NUMBERS = 1024
"""Minimum mean record size, in bytes, for which row numbers are stored without being charged."""


class ChunkEncoder:
    """Lays out and encodes the chunks of one session; writer thread only."""

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        learned_limits: BatchSizeLimits,
        accumulator: Accumulator,
    ) -> None:
        self._clock = clock
        self._learned_limits = learned_limits
        self._accumulator = accumulator
        self._limits = BatchLimits(
            config.batch_size, min(config.batch_num_messages, MAX_BATCH_RECORDS)
        )
        self._names: _TargetNames | None = None

    def encode(self, chunk: RoutedChunk, arrived_ms: int) -> tuple[list[EncodedSlice], Charge]:
        """Return encoded slices for the accumulator, and the charge for their shared buffer.

        Open batches do not change until the slices are appended or discarded.

        Args:
            chunk: n rows.
            arrived_ms: the timestamp for rows without a timestamp, in milliseconds.
        """
        row_timestamps = chunk.rows.columns.timestamps
        timestamps = arrived_ms if row_timestamps is None else row_timestamps
        names = self._names_of(chunk.route)
        open_batch = self._accumulator.begin_layout()
        layout = lay_out(
            chunk.route.targets,
            chunk.sizes,
            timestamps,
            lambda target: open_batch(names[target]),
            self._limits_of(names),
        )
        encoded = encode_records(
            chunk.rows.columns, layout.offset_deltas, layout.timestamp_deltas, layout.order
        )
        starts = [segment.start for segment in layout.segments]
        views = split_records(encoded, [*starts, len(encoded)])
        charge = Charge(sum(view.nbytes for view in views), holders=0)
        latest = _max_timestamps(timestamps, starts, layout.order)
        row_numbers = _row_numbers(chunk, layout.order)
        return _slices(layout.segments, views, latest, names, row_numbers), charge

    def _names_of(self, route: Route) -> _TargetNames:
        """Return the target names of the previous chunk, or new ones if the topics have changed."""
        if self._names is None or self._names.route.topics != route.topics:
            self._names = _TargetNames(route)
        return self._names

    def _limits_of(self, names: _TargetNames) -> BatchLimits:
        """Return the limits, which are lower for topics known to accept less than batch.size."""
        learned = self._learned_limits
        if not learned:
            return self._limits
        now = self._clock.monotonic()
        return replace(
            self._limits, size_of_target=lambda target: learned.of(names[target].topic, now)
        )


class _TargetNames(dict[int, TopicPartition]):
    """The topic and partition of each target number, created on first use."""

    def __init__(self, route: Route) -> None:
        super().__init__()
        self.route = route

    def __missing__(self, target: int) -> TopicPartition:
        topic, partition = self.route.target(target)
        topic_partition = self[target] = TopicPartition(topic.name, partition)
        return topic_partition


def _max_timestamps(timestamps: Timestamps, starts: list[int], order: Order) -> list[int]:
    """Return the highest timestamp of each segment; `starts` are the first rows of the segments."""
    if isinstance(timestamps, int):
        return [timestamps] * len(starts)
    stamps = timestamps if order is None else timestamps[order]
    latest: list[int] = np.maximum.reduceat(stamps, starts).tolist()
    return latest


def _row_numbers(chunk: RoutedChunk, order: Order) -> RowNumbers | None:
    """Return the row numbers in this order; None if they would take too much memory."""
    rows, partition = chunk.rows, chunk.rows.spark_partition
    if order is None and rows.row_numbers is None:
        return RowNumbers(range(rows.first_row, rows.first_row + len(rows)), partition)
    if chunk.size < len(rows) * _MIN_RECORD_BYTES_FOR_ROW_NUMBERS:
        return None
    numbers = rows.row_numbers
    if numbers is None:
        numbers = rows.first_row + np.arange(len(rows))
    return RowNumbers(numbers if order is None else numbers[order], partition)


def _slices(
    segments: list[Segment],
    views: list[memoryview],
    latest: list[int],
    names: _TargetNames,
    row_numbers: RowNumbers | None,
) -> list[EncodedSlice]:
    """Return each segment's records as a view of the chunk's buffer."""
    return [
        EncodedSlice(
            names[target],
            data,
            stop - start,
            first_delta == 0,
            base,
            max_timestamp,
            None if row_numbers is None else row_numbers.slice(start, stop),
        )
        for (target, start, stop, first_delta, base), data, max_timestamp in zip(
            segments, views, latest, strict=True
        )
    ]
