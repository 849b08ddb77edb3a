"""Admission control: chunk sizes, rate limits, buffer space, quotas and circuit breakers.

For each chunk, `AdmissionControl.blocked_targets_of` determines which partitions accept no rows;
the result is stored in the chunk. Rows wait here before they are charged to a partition, until its
quotas have room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.common.java_integers import MAX_INT
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.append.chunk import AdmittedChunk, BlockedTargets
from spark_kafka_sink.producer.buffer.batch_layout import ranges_within
from spark_kafka_sink.producer.limits.buffer_quotas import PARTITION_QUOTA_DIVISOR
from spark_kafka_sink.producer.limits.rate_limiter import RateLimiter
from spark_kafka_sink.producer.rows import MAX_CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.config.throttling import RateLimits
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.kafka.client.metadata import Metadata
    from spark_kafka_sink.producer.append.chunk import Chunk, RoutedChunk
    from spark_kafka_sink.producer.append.topic_metadata import TopicMetadata
    from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.limits.buffer_quotas import BufferQuotas
    from spark_kafka_sink.producer.limits.circuit_breakers import CircuitBreakers


_CHUNKS_PER_BUFFER = 8
"""Minimum number of chunks that fit into the buffer."""


@dataclass(kw_only=True, eq=False)
class AdmissionControl:
    """Delays the chunks of one session to enforce rate limits and quotas; writer thread only."""

    config: ProducerConfig
    metadata: Metadata
    rates: RateLimits
    state: SessionState
    pool: BufferPool
    quotas: BufferQuotas
    breakers: CircuitBreakers
    topics: TopicMetadata

    def __post_init__(self) -> None:
        config = self.config
        self._limiter = RateLimiter(self.rates, self.state.clock.monotonic())
        quota = (self.quotas.limit or config.buffer_memory) // PARTITION_QUOTA_DIVISOR
        size = min(MAX_CHUNK_BYTES, config.buffer_memory // _CHUNKS_PER_BUFFER, quota // 2)
        self._chunk_rows, self._chunk_bytes = self._limiter.max_chunk(MAX_INT, max(1, size))

    def find_open_breakers(self, topic: ClusterTopic) -> frozenset[int]:
        """Return the partitions whose circuit breaker, or whose leader's circuit breaker, is open.

        The result includes UNASSIGNED if it contains all partitions that have a leader.
        """
        now = self.state.clock.monotonic()
        breaker_open = {
            number
            for number, leader in enumerate(topic.leaders)
            if self.breakers.is_open(TopicPartition(topic.name, number), leader, now)
        }
        if breaker_open and breaker_open.issuperset(topic.led_partitions):
            breaker_open.add(UNASSIGNED)
        return frozenset(breaker_open)

    def admit(self, chunk: Chunk) -> Iterator[AdmittedChunk]:
        """Yield the chunk, or smaller chunks of it, each charged to the buffer when it is due.

        A larger row gets its own chunk.

        Raises:
            KafkaProdError: the session failed, or the buffer was full for max.block.ms.
        """
        if len(chunk) <= self._chunk_rows and chunk.size <= self._chunk_bytes:
            yield self._reserve(chunk)
            return
        for start, stop in ranges_within(chunk.sizes, self._chunk_bytes, self._chunk_rows):
            yield self._reserve(chunk.slice(start, stop))

    def blocked_targets_of(self, chunk: Chunk) -> BlockedTargets:
        """Return the partitions that currently do not accept rows of the chunk."""
        self.quotas.add_topics(chunk.topics)
        breaker_open = {}
        if self.breakers.has_breakers:
            breaker_open = {topic.name: self.find_open_breakers(topic) for topic in chunk.topics}
        return BlockedTargets(breaker_open, self._over_quota(chunk.size))

    def in_quota_order(self, chunk: RoutedChunk) -> Iterator[RoutedChunk]:
        """Yield the chunk; if some partitions have used up their quota, yield their rows last.

        The rows for other partitions are yielded first.
        """
        if not len(chunk):
            return
        blocked = chunk.route.rows_of(chunk.blocked_targets.over_quota)
        if blocked is None:
            yield chunk
            return
        if not blocked.all():
            yield chunk.select(np.flatnonzero(~blocked))
            chunk = chunk.select(np.flatnonzero(blocked))

        def blocked_now() -> NDArray[np.bool_] | None:
            return chunk.route.rows_of(self._over_quota(chunk.size))

        if not self.pool.wait_for_room(lambda: blocked_now() is None, chunk.size):
            # By now, more partitions may be below their quota.
            blocked = blocked_now()
            if blocked is not None:
                row = int(blocked.argmax())
                raise self._timeout_error(*chunk.route.target(int(chunk.route.targets[row])))
        yield chunk

    def _reserve(self, chunk: Chunk) -> AdmittedChunk:
        """Wait for the rate limits and for buffer space, and charge the chunk to the buffer."""
        while True:
            self._limiter.refill(self.state.clock.monotonic(), self.breakers.ramp)
            wait = self._limiter.seconds_until_due()
            if not wait:
                break
            self.state.wait_for(lambda: False, wait)
        self._limiter.acquire(len(chunk), chunk.size)
        if not self.pool.fits(chunk.size):
            # Batches are not sent, and free no memory, while their topic is unknown.
            self.topics.finish_waiting()
        self.pool.reserve(chunk.size)
        return AdmittedChunk(chunk.rows, chunk.topics, chunk.sizes, self.blocked_targets_of(chunk))

    def _over_quota(self, size: int) -> Mapping[str, Collection[int]]:
        return self.quotas.partitions_over_quota(size, self.metadata.cluster)

    def _timeout_error(self, topic: ClusterTopic, partition: int) -> BufferTimeoutError:
        held = self.quotas.charged_bytes(TopicPartition(topic.name, partition))
        cluster = self.metadata.cluster
        leader = cluster.nodes.get(cluster.leader(topic.name, partition))
        return BufferTimeoutError(
            f"no buffer space for the partition or its broker within max.block.ms = "
            f"{self.config.max_block_ms}: bufferShare limits a broker to "
            f"{self.quotas.limit:,} bytes and a partition to half of that; {held:,} bytes of this "
            "partition are not yet acknowledged",
            topic=topic.name,
            partition=partition,
            broker=None if leader is None else str(leader),
            hint="Check that this broker accepts data, or raise bufferShare, kafka.buffer.memory "
            "or kafka.max.block.ms.",
        )
