"""What stands between a chunk of rows and the buffer: the rate limit and the shares.

The writer's side: what waits here waits before it is charged to a partition.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_kafka_sink.client.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.config.option import MAX_INT
from spark_kafka_sink.producer.append.partitioner import Route
from spark_kafka_sink.producer.buffer.quotas import PARTITIONS_PART
from spark_kafka_sink.producer.buffer.rate_limiter import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.quotas import Full
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.rows import Rows

MAX_CHUNK_BYTES = 4 << 20
"""Rows are encoded in chunks of at most so many bytes: what is not yet charged stays small."""

CHUNKS_PER_BUFFER = 8
NO_SHARES = 100


class Routed(NamedTuple):
    """n rows, the upper bound of each record's bytes, where each goes, and all bytes together."""

    rows: Rows
    sizes: NDArray[np.int64]
    route: Route
    size: int

    def take(self, numbers: NDArray[np.intp]) -> Routed:
        """The rows with these numbers."""
        route = Route(
            targets=self.route.targets[numbers], topics=self.route.topics, bases=self.route.bases
        )
        sizes = self.sizes[numbers]
        return Routed(self.rows.take(numbers), sizes, route, int(sizes.sum()))


class AdmissionControl:
    """One session's; used by its writer thread. It gives the accumulator its limit and watch."""

    def __init__(self, context: SessionContext, accumulator: Accumulator) -> None:
        self._client = client = context.client
        self._config = client.config
        config = context.settings.pressure
        self._accumulator = accumulator
        self._limiter = RateLimiter(config.rates, client.clock.monotonic())
        self._watch = context.breakers
        if config.buffer_share < NO_SHARES:
            share = client.config.buffer_memory * config.buffer_share // 100
            accumulator.shares.limit = share
        share = accumulator.shares.limit or client.config.buffer_memory
        part = share // PARTITIONS_PART
        chunk = min(MAX_CHUNK_BYTES, client.config.buffer_memory // CHUNKS_PER_BUFFER, part // 2)
        self._chunk_rows, self._chunk_bytes = self._limiter.chunk(MAX_INT, max(1, chunk))

    def broken(self, topic: TopicInfo) -> frozenset[int]:
        """Partitions whose circuit breaker, or that of their leader, is open.

        UNDESIGNATED is one of them where no partition with a leader is left.
        """
        now = self._client.clock.monotonic()
        found = {
            number
            for number, leader in enumerate(topic.leaders)
            if self._watch.is_open(TopicPartition(topic.name, number), leader, now)
        }
        if found and found.issuperset(topic.led_partitions):
            found.add(UNASSIGNED)
        return frozenset(found)

    def chunks(self, sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Row ranges that may each go at once; a row too large for that stands alone.

        `sizes` are upper bounds of the records in bytes, shape (n,).
        """
        rows = len(sizes)
        if rows <= self._chunk_rows and int(sizes.sum()) <= self._chunk_bytes:
            return [(0, rows)]
        ends = sizes.cumsum()
        bounds = [0]
        while bounds[-1] < rows:
            before = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
            stop = int(ends.searchsorted(before + self._chunk_bytes, side="right"))
            bounds.append(max(min(stop, bounds[-1] + self._chunk_rows), bounds[-1] + 1))
        return list(pairwise(bounds))

    def await_rate(self, rows: int, size: int) -> None:
        """Wait as long as the rate limits ask; raises the session's error meanwhile."""
        clock = self._client.clock
        while wait := self._limiter.wait(clock.monotonic(), self._watch.ramp):
            self._accumulator.wait_for(lambda: False, wait)
        self._limiter.take(rows, size)

    def in_turn(self, chunk: Routed) -> Iterator[Routed]:
        """The chunk, as a whole where there is room for it: otherwise first the rows of others.

        Raises:
            BufferTimeoutError: a partition or broker kept its whole share for max.block.ms.
        """
        with self._accumulator.lock:
            self._accumulator.shares.learn(chunk.route.topics)
        late = self._late(chunk)
        if late is None:
            yield chunk
            return
        if not late.all():
            yield chunk.take(np.flatnonzero(~late))
            chunk = chunk.take(np.flatnonzero(late))
        if not self._accumulator.wait_for_room(lambda: self._late(chunk) is None, chunk.size):
            # Some of its partitions may have had room again meanwhile.
            late = self._late(chunk)
            row = 0 if late is None else int(late.argmax())
            raise self._timeout(*chunk.route.target(int(chunk.route.targets[row])))
        yield chunk

    def broken_rows(self, chunk: Routed) -> NDArray[np.bool_] | None:
        """Mask of the rows whose partition's circuit breaker is open, shape (n,); None: no row.

        They are for the dead letter topic, where there is one. Without one they wait like others.
        """
        if not self._watch.has_breakers:
            return None
        return _rows_of(chunk.route, self.broken)

    def full(self, topic: TopicInfo, more: int) -> frozenset[int]:
        """Partitions that can't be given `more` bytes within their share of the buffer."""
        return self._full(more).of(topic)

    def _late(self, chunk: Routed) -> NDArray[np.bool_] | None:
        """Mask of the rows whose partition has no room for them, shape (n,); None: all have."""
        full = self._full(chunk.size)
        return _rows_of(chunk.route, full.of) if full else None

    def _full(self, more: int) -> Full:
        with self._accumulator.lock:
            return self._accumulator.shares.full(more, self._client.metadata.cluster)

    def _timeout(self, topic: TopicInfo, partition: int) -> BufferTimeoutError:
        shares = self._accumulator.shares
        held = shares.held.get(TopicPartition(topic.name, partition), 0)
        return BufferTimeoutError(
            f"a partition, or its broker, kept its share of the buffer for max.block.ms = "
            f"{self._config.max_block_ms}: bufferShare leaves a broker {shares.limit:,} bytes and "
            f"a partition half of it; of this partition {held:,} wait for acknowledgement",
            topic=topic.name,
            partition=partition,
            broker=str(self._client.metadata.cluster.leader(topic.name, partition)),
            hint="check that this broker takes data; raise bufferShare, kafka.buffer.memory or "
            "kafka.max.block.ms",
        )


def _rows_of(
    route: Route, chosen: Callable[[TopicInfo], frozenset[int]]
) -> NDArray[np.bool_] | None:
    """Mask of the rows that go to partitions that `chosen` names, shape (n,); None: no row."""
    numbers = [
        route.number(index, partition)
        for index, topic in enumerate(route.topics)
        for partition in chosen(topic)
    ]
    found = np.isin(route.targets, numbers)
    return found if found.any() else None
