"""Admission control: chunk sizes, rate limits, and waiting for buffer quotas.

Rows wait here before they are charged to a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.client.cluster import UNASSIGNED, TopicPartition
from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.config.option import MAX_INT
from spark_kafka_sink.producer.buffer.buffer_pool import PARTITIONS_PART
from spark_kafka_sink.producer.buffer.rate_limiter import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.producer.append.partitioner import Route
    from spark_kafka_sink.producer.append.planner import Chunk, RoutedChunk
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.buffer_pool import Full
    from spark_kafka_sink.producer.context import SessionContext

MAX_CHUNK_BYTES = 4 << 20
"""Maximum bytes of a chunk to encode, so that memory that is not yet charged stays small."""

CHUNKS_PER_BUFFER = 8


class AdmissionControl:
    """Admits chunks within rate limits and quotas, for one session; writer thread only."""

    def __init__(self, context: SessionContext, accumulator: Accumulator) -> None:
        self._client = context.client
        self._config = config = context.config
        self._breakers = context.breakers
        self._state = accumulator.state
        self._pool = accumulator.pool
        self._quotas = accumulator.quotas
        self._limiter = RateLimiter(context.settings.throttling.rates, context.clock.monotonic())
        quota = (self._quotas.limit or config.buffer_memory) // PARTITIONS_PART
        size = min(MAX_CHUNK_BYTES, config.buffer_memory // CHUNKS_PER_BUFFER, quota // 2)
        self._chunk_rows, self._chunk_bytes = self._limiter.chunk(MAX_INT, max(1, size))

    def broken(self, topic: TopicInfo) -> frozenset[int]:
        """Return the partitions whose circuit breaker, or that of their leader, is open.

        UNASSIGNED is included if no partition with a leader is left.
        """
        now = self._client.clock.monotonic()
        found = {
            number
            for number, leader in enumerate(topic.leaders)
            if self._breakers.is_open(TopicPartition(topic.name, number), leader, now)
        }
        if found and found.issuperset(topic.led_partitions):
            found.add(UNASSIGNED)
        return frozenset(found)

    def split(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield parts that may each be appended at once; an oversized row is a part of its own."""
        rows, sizes = len(chunk), chunk.sizes
        if rows <= self._chunk_rows and chunk.size <= self._chunk_bytes:
            yield chunk
            return
        ends = sizes.cumsum()
        start = 0
        while start < rows:
            before = int(ends[start - 1]) if start else 0
            stop = int(ends.searchsorted(before + self._chunk_bytes, side="right"))
            stop = max(min(stop, start + self._chunk_rows), start + 1)
            yield chunk.slice(start, stop)
            start = stop

    def await_rate(self, rows: int, size: int) -> None:
        """Wait until the rate limits allow the rows; raise the session's error if it fails."""
        while True:
            self._limiter.refill(self._client.clock.monotonic(), self._breakers.ramp)
            wait = self._limiter.wait
            if not wait:
                break
            self._state.wait_for(lambda: False, wait)
        self._limiter.acquire(rows, size)

    def in_turn(self, chunk: RoutedChunk) -> Iterator[RoutedChunk]:
        """Yield the chunk as a whole if there is room, else first the rows of partitions with room.

        Raises:
            BufferTimeoutError: a partition or broker used up its whole quota for max.block.ms.
        """
        if not len(chunk):
            return
        self._quotas.add_topics(chunk.route.topics)
        late = self._late(chunk)
        if late is None:
            yield chunk
            return
        if not late.all():
            yield chunk.take(np.flatnonzero(~late))
            chunk = chunk.take(np.flatnonzero(late))
        if not self._pool.wait_for_room(lambda: self._late(chunk) is None, chunk.size):
            # Some of its partitions may have got room since the wait ended.
            late = self._late(chunk)
            row = 0 if late is None else int(late.argmax())
            raise self._timeout(*chunk.route.target(int(chunk.route.targets[row])))
        yield chunk

    def broken_rows(self, chunk: RoutedChunk) -> NDArray[np.bool_] | None:
        """Return a mask of the rows whose partition's circuit breaker is open, shape (n,).

        None if there are no such rows. They go to the dead letter topic if there is one, else they
        wait like other rows.
        """
        if not self._breakers.has_breakers:
            return None
        return _rows_of(chunk.route, self.broken)

    def full(self, topic: TopicInfo, more: int) -> frozenset[int]:
        """Return the partitions whose buffer quota does not allow `more` bytes."""
        return self._full(more).of(topic)

    def _late(self, chunk: RoutedChunk) -> NDArray[np.bool_] | None:
        """Return a mask of the rows whose partition has no room for the chunk; None if all have."""
        full = self._full(chunk.size)
        return _rows_of(chunk.route, full.of) if full else None

    def _full(self, more: int) -> Full:
        return self._quotas.full(more, self._client.metadata.cluster)

    def _timeout(self, topic: TopicInfo, partition: int) -> BufferTimeoutError:
        held = self._quotas.held(TopicPartition(topic.name, partition))
        return BufferTimeoutError(
            f"a partition, or its broker, kept its share of the buffer for max.block.ms = "
            f"{self._config.max_block_ms}: bufferShare leaves a broker {self._quotas.limit:,} "
            f"bytes and a partition half of it; of this partition {held:,} wait for "
            "acknowledgement",
            topic=topic.name,
            partition=partition,
            broker=str(self._client.metadata.cluster.leader(topic.name, partition)),
            hint="check that this broker takes data; raise bufferShare, kafka.buffer.memory or "
            "kafka.max.block.ms",
        )


def _rows_of(
    route: Route, chosen: Callable[[TopicInfo], frozenset[int]]
) -> NDArray[np.bool_] | None:
    """Return a mask of the rows of `chosen` partitions, shape (n,); None without such rows."""
    numbers = [
        route.number(index, partition)
        for index, topic in enumerate(route.topics)
        for partition in chosen(topic)
    ]
    found = np.isin(route.targets, numbers)
    return found if found.any() else None
