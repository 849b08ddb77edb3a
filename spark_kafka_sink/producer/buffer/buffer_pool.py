"""buffer.memory: reservations, waiting for room, and quotas per partition and broker.

Quotas of the buffer: a stalled partition or broker must not hold all of it.

With a quota of s percent of buffer.memory (the option bufferShare):
- No broker's partitions hold more than s percent together, and no partition more than half of
  that, so that its neighbours on the broker go on too. Exempt are the only broker and the only
  partition that the session's topics have, and one row that is larger. What is beyond the quota
  stays free for the others.
- Rows without a key wait unassigned and count towards no quota, until a batch of them can be sent
  at once; a partition that has used up its quota, or whose broker has, is given none. So they never
  wait for what is stalled, only for room in the whole buffer: it is theirs where all of their
  topic is stalled. While rows of their topic that belong to one partition wait, they are given
  partitions whose quota is not used up, and count as theirs.
- Rows that belong to one partition, by key or by number, wait when its quota is used up. The
  chunk's other rows go first. But rows come in one order, and what comes after can't be taken
  until these are: then the writer stands still, for at most max.block.ms, while everything that
  it has handed over goes on being sent.
The time until then is what the quota buys: the others run at full speed, with at least the rest
of the buffer to themselves.

buffer.memory: what is charged, who holds it, and waiting until there is room.

A chunk of encoded rows is one Arrow buffer that several batches share, so it is charged as a
whole and freed when the last of them is complete. Source: ``BufferPool``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.client.cluster import NO_LEADER, UNASSIGNED, TopicPartition
from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.producer.buffer.session_state import throttled_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_kafka_sink.client.cluster import Cluster, TopicInfo
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.metrics.recorder import MetricsRecorder
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.events import ProducerEvents


_T = TypeVar("_T")


PARTITIONS_PART = 2
"""A partition may hold this part of what a broker may."""
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Full:
    """Partitions and brokers that can't be given more."""

    partitions: frozenset[TopicPartition] = frozenset()
    brokers: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.partitions or self.brokers)

    def of(self, topic: TopicInfo) -> frozenset[int]:
        """The topic's partitions among them, or led by one of them."""
        if not self:
            return frozenset()
        return frozenset(
            number
            for number, leader in enumerate(topic.leaders)
            if leader in self.brokers or TopicPartition(topic.name, number) in self.partitions
        )


NOTHING_FULL = Full()


def find_full(
    held: Mapping[TopicPartition, int],
    topics: Mapping[str, TopicInfo],
    more: int,
    limit: int,
) -> Full:
    """Who would hold too much with `more` bytes in addition; who holds nothing may.

    `limit` is that of a broker, a partition has half of it; `topics` are all that the session
    writes to.
    """
    brokers: Counter[int] = Counter()
    for topic_partition, size in held.items():
        brokers[_leader(topics, topic_partition)] += size
    full_brokers = _over(brokers, more, limit)
    known_brokers = {leader for topic in topics.values() for leader in topic.leaders}
    partitions = sum(topic.partition_count for topic in topics.values())
    return Full(
        _over(held, more, limit // PARTITIONS_PART) if partitions > 1 else frozenset(),
        full_brokers - {NO_LEADER} if len(known_brokers - {NO_LEADER}) > 1 else frozenset(),
    )


def _over(held: Mapping[_T, int], more: int, limit: int) -> frozenset[_T]:
    return frozenset(who for who, size in held.items() if size and size + more > limit)


def _leader(topics: Mapping[str, TopicInfo], topic_partition: TopicPartition) -> int:
    topic = topics.get(topic_partition.topic)
    if topic is None or topic_partition.partition >= topic.partition_count:
        return NO_LEADER
    return topic.leaders[topic_partition.partition]


class BufferQuotas:
    """Bytes of the batches that each partition has in the buffer, and the most it may have.

    `limit` is that of one broker, in bytes; None for no limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

        # Guarded by the lock of the session's state, which callers hold.
        self.held: dict[TopicPartition, int] = {}
        self._total = 0
        self._topics: set[str] = set()

    @classmethod
    def of_percent(cls, percent: int, buffer_memory: int) -> BufferQuotas:
        """So many percent of the buffer for one broker; no limit where that is all of it."""
        return cls(None if percent >= _WHOLE else buffer_memory * percent // _WHOLE)

    def change(self, topic_partition: TopicPartition, size: int) -> None:
        """A partition holds `size` bytes more, or less; unassigned batches count for none."""
        if topic_partition.partition == UNASSIGNED:
            return
        self._total += size
        now = self.held.get(topic_partition, 0) + size
        if now:
            self.held[topic_partition] = now
        else:
            self.held.pop(topic_partition, None)

    def learn(self, topics: Iterable[TopicInfo]) -> None:
        """The session writes to these topics too."""
        self._topics.update(topic.name for topic in topics)

    def full(self, more: int, cluster: Cluster) -> Full:
        """Who can't be given `more` bytes, as the brokers lead now."""
        if self.limit is None or self._total + more <= self.limit // PARTITIONS_PART:
            return NOTHING_FULL
        known = cluster.topics
        topics = {name: known[name] for name in self._topics if name in known}
        return find_full(self.held, topics, more, self.limit)


@dataclass(slots=True)
class Charge:
    """`size` bytes that stay charged until all `holders` have released them.

    Guarded by the lock of the session's state from when the first batch holds it.
    """

    size: int
    holders: int = 1


class BufferPool:
    """A counter of charged bytes with a limit; the memory itself is Arrow's."""

    def __init__(self, config: ProducerConfig, state: SessionState, events: ProducerEvents) -> None:
        self.limit = config.buffer_memory
        self._max_block_ms = config.max_block_ms
        self._state = state
        self._events = events

        # Guarded by the lock of the session's state.
        self._used = 0
        self._peak = 0
        self._waits = 0
        self._waited = 0.0
        self._waiting_since: float | None = None
        self._freed_at = 0.0

    # Writer thread only.

    def reserve(self, size: int) -> None:
        """Charge `size` bytes; waits while the buffer is full.

        A chunk is larger than the record that Java's producer waits with: max.block.ms begins again
        whenever memory is freed.

        Raises:
            BufferTimeoutError: nothing was freed for max.block.ms.
        """
        with self._state.lock:
            self._state.raise_error()
            if not self.fits(size) and not self.wait_for_room(
                lambda: self.fits(size), size, lambda: self._freed_at
            ):
                raise self._stayed_full(size)
            self.charge(size)

    def wait_for_room(
        self, done: Callable[[], bool], size: int, since: Callable[[], float] = lambda: 0.0
    ) -> bool:
        """Wait for room for `size` bytes, until `done`, at most max.block.ms.

        max.block.ms begins at `since` or at the end of the pause that a broker asked for, if that
        is later than now. Meanwhile the accumulator closes batches that linger; see
        `waiting_since`.
        """
        started = self._state.clock.monotonic()
        with self._state.lock:
            self._waiting_since = started
        self._state.wake_sender()
        try:
            return self._state.wait_for(
                done,
                self._max_block_ms / 1000,
                lambda: max(since(), self._state.throttled_until),
            )
        finally:
            took = self._state.clock.monotonic() - started
            with self._state.lock:
                self._waiting_since = None
                self._waited += took
                self._waits += 1
            self._events.waited(size, took, self.used)

    # Any thread.

    @property
    def used(self) -> int:
        """Bytes that are charged now."""
        with self._state.lock:
            return self._used

    @property
    def waiting_since(self) -> float | None:
        """When the writer began to wait for room, by the monotonic clock; None: it does not."""
        with self._state.lock:
            return self._waiting_since

    def fits(self, size: int) -> bool:
        """Whether `size` bytes more stay within the limit; an empty buffer takes anything."""
        with self._state.lock:
            return self._used == 0 or self._used + size <= self.limit

    def charge(self, size: int) -> None:
        """Charge `size` bytes, whether there is room or not."""
        with self._state.lock:
            self._used += size
            self._peak = max(self._peak, self._used)

    def free(self, size: int) -> None:
        """Free `size` bytes that were charged."""
        with self._state.lock:
            self._used -= size
            self._freed_at = self._state.clock.monotonic()

    def release(self, charges: list[Charge]) -> None:
        """One holder of each charge is done with it; the list is emptied."""
        with self._state.lock:
            for charge in charges:
                charge.holders -= 1
                if charge.holders == 0:
                    self.free(charge.size)
            charges.clear()

    def measure(self, meters: MetricsRecorder) -> None:
        """Note how often and how long the writer waited, and the most that was ever charged."""
        with self._state.lock:
            meters.buffer_waits, meters.buffer_wait = self._waits, self._waited
            meters.buffer_peak = self._peak

    def _stayed_full(self, size: int) -> BufferTimeoutError:
        return BufferTimeoutError(
            f"no room for {size:,} bytes within max.block.ms = {self._max_block_ms}: "
            f"{self.used:,} of {self.limit:,} bytes wait for acknowledgement"
            + throttled_note(self._state.throttled_ms),
            hint="check that the brokers take data; "
            "raise kafka.buffer.memory or kafka.max.block.ms",
        )
