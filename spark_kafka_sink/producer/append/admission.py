"""Admission control: chunk sizes, rate limits, buffer space, quotas and circuit breakers.

For each chunk, `AdmissionControl.decide` determines once which partitions accept rows; the result
is stored in the chunk. Rows wait here before they are charged to a partition.

Rate limits are token buckets, which may be overdrawn: the tokens of a whole chunk are taken at
once, and the next chunk waits until the deficit is refilled. Therefore, a limit is met on average,
and a chunk uses at most the tokens for a fraction of a second.

Source: "Advanced Producer Patterns" (throttle, recover), see docs/design.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.config.option import MAX_INT
from spark_kafka_sink.kafka.client.cluster_snapshot import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.append.partitioner import Admission
from spark_kafka_sink.producer.append.planner import ranges_within
from spark_kafka_sink.producer.buffer.buffer_quotas import PARTITIONS_PART

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from spark_kafka_sink.config.throttling import RateLimits
    from spark_kafka_sink.kafka.client.cluster_snapshot import TopicInfo
    from spark_kafka_sink.producer.append.planner import Chunk, RoutedChunk
    from spark_kafka_sink.producer.append.validator import TopicMetadata
    from spark_kafka_sink.producer.buffer.breakers import Ramp
    from spark_kafka_sink.producer.context import SessionContext

_BURST = 0.1
"""Capacity of a bucket, as the number of seconds in which it fills; excess tokens are lost."""

CHUNK_SECONDS = 0.25
"""Maximum size of a chunk, as the number of seconds that its tokens take to refill."""

_SHORTEST = 0.0005
"""Waits shorter than this many seconds are skipped; the deficit stays in the bucket."""

_MEASURED_SECONDS = 10.0
_SAMPLE_SECONDS = 0.5
_LEAST_SECONDS = 1.0
"""Speed measurement: longest window, sample interval, and shortest window for a rate, in
seconds."""


@dataclass(slots=True)
class Bucket:
    """A token bucket: `rate` tokens per second, `level` tokens at time `at` (may be negative).

    If the rate is 0, there is no limit.
    """

    rate: float
    level: float = 0.0
    at: float = 0.0

    def refill(self, now: float, factor: float) -> None:
        """Add the tokens since `at`, at `factor` times the rate."""
        gained = max(0.0, now - self.at) * self.rate * factor
        self.level, self.at = min(self.level + gained, self.rate * _BURST), now

    def take(self, amount: float) -> None:
        """Remove `amount` tokens."""
        self.level -= amount

    def wait(self, factor: float) -> float:
        """Return the seconds until the level reaches zero, at `factor` times the rate."""
        return max(0.0, -self.level / (self.rate * factor)) if self.rate else 0.0

    def chunk(self, most: int) -> int:
        """Return the maximum number of tokens for a chunk, at most `most`."""
        return min(most, max(1, int(self.rate * CHUNK_SECONDS))) if self.rate else most


class RateMeter:
    """Measures the rate of the last few seconds, in bytes per second."""

    def __init__(self) -> None:
        self._total = 0
        self._samples: deque[tuple[float, int]] = deque()
        """The time of each sample, and the total number of bytes at that time."""

    def add(self, size: int, now: float) -> None:
        """Record that `size` bytes were taken now."""
        if not self._samples or now >= self._samples[-1][0] + _SAMPLE_SECONDS:
            self._samples.append((now, self._total))
            while self._samples[0][0] < now - _MEASURED_SECONDS:
                self._samples.popleft()
        self._total += size

    def rate(self) -> float | None:
        """Return bytes per second; None if the measured time is too short."""
        if not self._samples:
            return None
        (start, before), (stop, after) = self._samples[0], self._samples[-1]
        return (after - before) / (stop - start) if stop - start >= _LEAST_SECONDS else None

    def clear(self) -> None:
        """Restart the measurement."""
        self._samples.clear()


class RateLimiter:
    """The buckets of one task; writer thread only.

    Without a configured limit, the rate measured before the errors is the limit until the ramp
    ends.
    """

    def __init__(self, limits: RateLimits, now: float) -> None:
        self._records = Bucket(limits.records, at=now)
        self._bytes = Bucket(limits.size, at=now)
        self._given = self.limited
        self._speed = RateMeter()
        self._normal_rate: float | None = None
        """Rate before the latest errors, in bytes per second; it is not measured during a ramp."""
        self._now = now
        self._factor = 1.0
        self._next_step = float("inf")

    @property
    def limited(self) -> bool:
        """True if any limit currently applies."""
        return bool(self._records.rate or self._bytes.rate)

    def chunk(self, rows: int, size: int) -> tuple[int, int]:
        """Return the maximum rows and bytes of a chunk, at most `rows` and `size`."""
        return self._records.chunk(rows), self._bytes.chunk(size)

    def refill(self, now: float, ramp: Ramp) -> None:
        """Refill the buckets up to `now` at the rates that the ramp allows."""
        factor = ramp.factor(now)
        if not self._given:
            self._follow(factor, now)
        self._records.refill(now, factor)
        self._bytes.refill(now, factor)
        self._now, self._factor, self._next_step = now, factor, ramp.next_step(now)

    @property
    def wait(self) -> float:
        """Return the seconds to wait before the next chunk, as of the latest `refill`.

        After the wait, refill and check again: the ramp may have changed.
        """
        longest = max(self._records.wait(self._factor), self._bytes.wait(self._factor))
        wait = min(longest, self._next_step)
        return wait if wait >= _SHORTEST else 0.0

    def acquire(self, rows: int, size: int) -> None:
        """Take a chunk's tokens from the buckets, using their levels at the latest `refill`."""
        if not self.limited:
            self._speed.add(size, self._now)
        self._records.take(rows)
        self._bytes.take(size)

    def _follow(self, factor: float, now: float) -> None:
        """Use the measured rate as the limit while the ramp lasts."""
        if factor >= 1.0:
            self._bytes = Bucket(0.0)
        elif not self._bytes.rate:
            self._normal_rate = self._speed.rate() or self._normal_rate
            self._speed.clear()
            self._bytes = Bucket(self._normal_rate or 0.0, at=now)


MAX_CHUNK_BYTES = 4 << 20
"""Maximum size of a chunk in bytes. It limits the memory that is encoded but not yet charged."""

CHUNKS_PER_BUFFER = 8


class AdmissionControl:
    """Delays the chunks of one session to enforce rate limits and quotas; writer thread only."""

    def __init__(self, context: SessionContext, topics: TopicMetadata) -> None:
        accumulator = context.accumulator
        self._client = context.client
        self._config = config = context.config
        self._breakers = context.breakers
        self._state = accumulator.state
        self._pool = accumulator.pool
        self._quotas = accumulator.quotas
        self._topics = topics
        self._limiter = RateLimiter(context.settings.throttling.rates, context.clock.monotonic())
        quota = (self._quotas.limit or config.buffer_memory) // PARTITIONS_PART
        size = min(MAX_CHUNK_BYTES, config.buffer_memory // CHUNKS_PER_BUFFER, quota // 2)
        self._chunk_rows, self._chunk_bytes = self._limiter.chunk(MAX_INT, max(1, size))

    def broken(self, topic: TopicInfo) -> frozenset[int]:
        """Return the partitions whose circuit breaker, or whose leader's circuit breaker, is open.

        The result includes UNASSIGNED if it contains all partitions that have a leader.
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
        """Yield the chunk in parts of acceptable size; an oversized row gets its own part."""
        rows, sizes = len(chunk), chunk.sizes
        if rows <= self._chunk_rows and chunk.size <= self._chunk_bytes:
            yield chunk
            return
        for start, stop in ranges_within(sizes, self._chunk_bytes, self._chunk_rows):
            yield chunk.slice(start, stop)

    def reserve(self, chunk: Chunk) -> int:
        """Wait for the rate limits and for buffer space; return the bytes charged.

        Raises:
            KafkaProdError: the session failed, or the buffer was full for max.block.ms.
        """
        while True:
            self._limiter.refill(self._client.clock.monotonic(), self._breakers.ramp)
            wait = self._limiter.wait
            if not wait:
                break
            self._state.wait_for(lambda: False, wait)
        self._limiter.acquire(len(chunk), chunk.size)
        if not self._pool.fits(chunk.size):
            # Batches are not sent, and free no memory, while their topic is unknown.
            self._topics.await_expected()
        self._pool.reserve(chunk.size)
        return chunk.size

    def decide(self, chunk: Chunk) -> Admission:
        """Return the partitions that currently do not accept rows of the chunk."""
        self._quotas.add_topics(chunk.topics)
        broken = {}
        if self._breakers.has_breakers:
            broken = {topic.name: self.broken(topic) for topic in chunk.topics}
        return Admission(broken, self._full(chunk.size))

    def in_turn(self, chunk: RoutedChunk) -> Iterator[RoutedChunk]:
        """Yield the chunk; if some partitions have used up their quota, yield their rows last.

        The rows for other partitions are yielded first.
        """
        if not len(chunk):
            return
        blocked = chunk.route.rows_of(chunk.admission.full)
        if blocked is None:
            yield chunk
            return
        if not blocked.all():
            yield chunk.take(np.flatnonzero(~blocked))
            chunk = chunk.take(np.flatnonzero(blocked))

        def blocked_now() -> NDArray[np.bool_] | None:
            return chunk.route.rows_of(self._full(chunk.size))

        if not self._pool.wait_for_room(lambda: blocked_now() is None, chunk.size):
            # By now, more partitions may be below their quota.
            blocked = blocked_now()
            row = 0 if blocked is None else int(blocked.argmax())
            raise self._timeout(*chunk.route.target(int(chunk.route.targets[row])))
        yield chunk

    def _full(self, more: int) -> Mapping[str, Collection[int]]:
        return self._quotas.full(more, self._client.metadata.cluster)

    def _timeout(self, topic: TopicInfo, partition: int) -> BufferTimeoutError:
        held = self._quotas.held(TopicPartition(topic.name, partition))
        return BufferTimeoutError(
            f"no buffer space for the partition or its broker within max.block.ms = "
            f"{self._config.max_block_ms}: bufferShare limits a broker to {self._quotas.limit:,} "
            f"bytes and a partition to half of "
            f"that; {held:,} bytes of this partition are not yet acknowledged",
            topic=topic.name,
            partition=partition,
            broker=str(self._client.metadata.cluster.leader(topic.name, partition)),
            hint="check that this broker accepts data, or raise bufferShare, kafka.buffer.memory "
            "or "
            "kafka.max.block.ms",
        )
