"""The state that a session's two threads share, and the accounting for buffer.memory.

`SessionState` contains the session's lock and error, and the methods with which the writer waits.
`BufferPool` counts the charged bytes, and `BufferQuotas` counts them by partition and broker.

A chunk of encoded rows is one Arrow buffer that several batches share. It is charged as a whole,
and freed when the last of these batches is complete.

Quotas prevent a stalled partition or broker from using the whole buffer. With a quota of s percent
of buffer.memory (the option bufferShare):

- Together, the partitions of one broker use at most s percent of the buffer. One partition uses at
  most half of that, so that the other partitions of the broker make progress. A single row may
  exceed the limits. The broker's limit does not apply if there is only one broker, and the
  partition's limit does not apply if there is only one partition. The rest of the buffer stays
  available to the other brokers and partitions.
- Rows without a key wait without a partition. They do not count towards a quota until a batch of
  them can be sent at once. A partition does not get such a batch if the partition or its broker has
  used up its quota. Therefore, these rows never wait for a single stalled partition. If all
  partitions of their topic stall, they can fill the whole buffer. While keyed or explicitly
  partitioned rows of their topic wait, rows without a key are assigned to partitions with remaining
  quota and count towards it.
- Rows with a key or an explicit partition wait when the quota of their partition is used up. The
  other rows of the chunk are appended first. Because rows arrive in order, no later chunk is
  accepted before the waiting rows are appended: the writer blocks for at most max.block.ms while
  the sender continues.

Until the writer blocks, the other partitions continue at full speed and can use at least the rest
of the buffer.

Source: ``BufferPool``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from threading import Condition, RLock
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.kafka.client.client import THREAD_CHECK_S
from spark_kafka_sink.kafka.client.cluster_snapshot import NO_LEADER, UNASSIGNED, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.kafka.client.cluster_snapshot import Cluster, TopicInfo
    from spark_kafka_sink.producer.buffer.batch import Charge
    from spark_kafka_sink.producer.buffer.events import ProducerEvents
    from spark_kafka_sink.report.metrics.producer_metrics import MetricsRecorder


class SessionState:
    """A session's error, its number of incomplete batches, and the lock that both threads use.

    All other locks that both threads take (in `Metadata`, `BadRows` and the histograms) are leaf
    locks: no other lock is taken while one is held. `lock` guards this state, the `BufferPool`, the
    `BufferQuotas` and the `Accumulator` together, because the writer waits for a change in any of
    them. `changed` is notified when memory is freed, when a batch completes, when an error ends the
    session, and when metadata arrives.

    Args:
        clock: the client's clock.
        wake_sender: interrupts the sender's poll; any thread may call it.
        check_sender: called while the writer waits; fails the session if the sender thread has
            died.
    """

    def __init__(
        self, clock: Clock, wake_sender: Callable[[], None], check_sender: Callable[[], None]
    ) -> None:
        self.clock = clock
        self.wake_sender = wake_sender
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self._check_sender = check_sender

        # Changed under the lock. Any thread may read one of these attributes without the lock.
        self.error: BaseException | None = None
        """The error that ended the session, or None."""
        self.incomplete = 0
        """Number of batches that are neither acknowledged nor failed, including open batches."""
        self.throttled_until = 0.0
        """End of the latest throttle pause, in seconds (monotonic clock); 0 before the first."""
        self.throttled_ms = 0
        """Total duration of all throttle pauses, in milliseconds."""

        # Guarded by the lock.
        self._batch_failed = False

    # Any thread may call the methods below.

    def raise_error(self) -> None:
        """Raise the error that ended the session, if there is one."""
        with self.lock:
            if self.error is not None:
                raise self.error

    def add_incomplete(self, batches: int) -> None:
        """Add to the number of incomplete batches."""
        with self.lock:
            self.incomplete += batches

    def complete(self) -> None:
        """Subtract one from the number of incomplete batches."""
        with self.lock:
            self.incomplete -= 1
            self.changed.notify_all()

    def throttled(self, pause_ms: int) -> None:
        """Record a throttle pause that starts now."""
        with self.lock:
            until = self.clock.monotonic() + pause_ms / 1000
            self.throttled_until = max(self.throttled_until, until)
            self.throttled_ms += pause_ms

    def mark_failed(self) -> None:
        """Record a permanently failed batch, so that flush waits for the session's error."""
        with self.lock:
            self._batch_failed = True

    def fail(self, error: BaseException) -> None:
        """End the session with `error` unless it has already failed.

        Each wait of the writer raises the session's error.
        """
        with self.lock:
            self.error = self.error or error
            self.changed.notify_all()

    def notify(self) -> None:
        """Wake the writer, so that it checks the condition that it waits for."""
        with self.lock:
            self.changed.notify_all()

    # Only the writer thread calls the methods below.

    def wait_for(
        self,
        done: Callable[[], bool],
        seconds: float | None,
        since: Callable[[], float] = lambda: 0.0,
    ) -> bool:
        """Wait until `done` returns True; return False after the timeout.

        Args:
            done: called under the lock; the wait ends when it returns True.
            seconds: the timeout; None for no limit.
            since: called under the lock; returns the start of the timeout if it is later than the
                start of the wait.

        Raises:
            BaseException: the error that ended the session.
        """
        started = self.clock.monotonic()
        with self.lock:
            while True:
                self.raise_error()
                if done():
                    return True
                left = None
                if seconds is not None:
                    left = max(started, since()) + seconds - self.clock.monotonic()
                if left is not None and left <= 0:
                    return False
                if not self.changed.wait(
                    THREAD_CHECK_S if left is None else min(left, THREAD_CHECK_S)
                ):
                    self._check_sender()

    def wait_until_complete(self) -> None:
        """Wait until every batch is acknowledged, or raise the error that ended the session."""
        self.wait_for(lambda: self.incomplete == 0 and not self._batch_failed, None)


def throttled_note(pause_ms: int) -> str:
    """Return a note on how long brokers have throttled the task, or "" if they have not."""
    if not pause_ms:
        return ""
    return f"; a quota of the brokers has throttled this task for {pause_ms:,} ms"


_T = TypeVar("_T")


PARTITIONS_PART = 2
"""A partition's quota is the broker's quota divided by this number."""
_WHOLE = 100


def find_full(
    held: Mapping[TopicPartition, int], topics: Mapping[str, TopicInfo], more: int, limit: int
) -> dict[str, set[int]]:
    """Return the partitions, by topic, whose quota `more` bytes would exceed.

    The result also contains all partitions whose leader's quota would be exceeded. A partition or
    broker without charged bytes is never full. `limit` is the quota of a broker in bytes; `topics`
    are all topics that the session writes to.
    """
    full: defaultdict[str, set[int]] = defaultdict(set)
    if sum(topic.partition_count for topic in topics.values()) > 1:
        for topic_partition in _over(held, more, limit // PARTITIONS_PART):
            full[topic_partition.topic].add(topic_partition.partition)
    brokers: Counter[int] = Counter()
    for topic_partition, size in held.items():
        brokers[_leader(topics, topic_partition)] += size
    full_brokers = _over(brokers, more, limit) - {NO_LEADER}
    known_brokers = {leader for topic in topics.values() for leader in topic.leaders}
    if full_brokers and len(known_brokers - {NO_LEADER}) > 1:
        for name, topic in topics.items():
            full[name].update(n for n, leader in enumerate(topic.leaders) if leader in full_brokers)
    return full


def _over(held: Mapping[_T, int], more: int, limit: int) -> set[_T]:
    return {who for who, size in held.items() if size and size + more > limit}


def _leader(topics: Mapping[str, TopicInfo], topic_partition: TopicPartition) -> int:
    topic = topics.get(topic_partition.topic)
    if topic is None or topic_partition.partition >= topic.partition_count:
        return NO_LEADER
    return topic.leaders[topic_partition.partition]


class BufferQuotas:
    """The bytes charged for each partition's batches, and the quotas.

    Args:
        limit: the quota of one broker in bytes; None for no limit.
        lock: the session state's lock.
    """

    def __init__(self, limit: int | None, lock: RLock) -> None:
        self.limit = limit
        self._lock = lock

        # Guarded by the lock.
        self._held: dict[TopicPartition, int] = {}
        self._total = 0
        self._topics: set[str] = set()

    @classmethod
    def of_percent(cls, percent: int, buffer_memory: int, lock: RLock) -> BufferQuotas:
        """Create quotas of `percent` of the buffer per broker; 100 or more means no limit."""
        return cls(None if percent >= _WHOLE else buffer_memory * percent // _WHOLE, lock)

    def held(self, topic_partition: TopicPartition) -> int:
        """Return the bytes charged for a partition's batches."""
        with self._lock:
            return self._held.get(topic_partition, 0)

    def change(self, topic_partition: TopicPartition, size: int) -> None:
        """Add `size` bytes (may be negative) to a partition; ignore unassigned batches."""
        if topic_partition.partition == UNASSIGNED:
            return
        with self._lock:
            self._total += size
            held = self._held.get(topic_partition, 0) + size
            if held:
                self._held[topic_partition] = held
            else:
                self._held.pop(topic_partition, None)

    def add_topics(self, topics: Iterable[TopicInfo]) -> None:
        """Add topics that the session writes to."""
        with self._lock:
            self._topics.update(topic.name for topic in topics)

    def full(self, more: int, cluster: Cluster) -> Mapping[str, Collection[int]]:
        """Return the partitions that `more` bytes would make full, by topic; see `find_full`."""
        with self._lock:
            if self.limit is None or self._total + more <= self.limit // PARTITIONS_PART:
                return {}
            known = cluster.topics
            topics = {name: known[name] for name in self._topics if name in known}
            return find_full(self._held, topics, more, self.limit)


class BufferPool:
    """A counter of charged bytes with a limit; Arrow allocates the memory itself."""

    def __init__(self, config: ProducerConfig, state: SessionState, events: ProducerEvents) -> None:
        self.limit = config.buffer_memory
        self._max_block_ms = config.max_block_ms
        self._state = state
        self._events = events

        # Changed under the session state's lock. Any thread may read a single attribute without it.
        self.used = 0
        """Number of bytes that are currently charged."""
        self.waiting_since: float | None = None
        """Start of the writer's wait for buffer space (monotonic clock); None if not waiting."""

        # Guarded by the session state's lock.
        self._peak = 0
        self._waits = 0
        self._waited = 0.0
        self._freed_at = 0.0

    # Only the writer thread calls the methods below.

    def reserve(self, size: int) -> None:
        """Charge `size` bytes; wait while the buffer is full.

        Java's producer waits for the memory of a single record. A chunk is larger, so max.block.ms
        restarts whenever memory is freed.

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
        """Wait at most max.block.ms until `done` returns True; return False after the timeout.

        max.block.ms is measured from now, from `since`, or from the end of a throttle pause,
        whichever is latest. During the wait, the accumulator closes open batches; see
        `waiting_since`. `size` is the number of bytes requested, for the log.
        """
        started = self._state.clock.monotonic()
        with self._state.lock:
            self.waiting_since = started
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
                self.waiting_since = None
                self._waited += took
                self._waits += 1
            self._events.waited(size, took, self.used)

    # Any thread may call the methods below.

    def fits(self, size: int) -> bool:
        """Return True if `size` more bytes fit; any size fits into an empty buffer."""
        with self._state.lock:
            return self.used == 0 or self.used + size <= self.limit

    def charge(self, size: int) -> None:
        """Charge `size` bytes even if they exceed the limit."""
        with self._state.lock:
            self.used += size
            self._peak = max(self._peak, self.used)

    def free(self, size: int) -> None:
        """Free `size` charged bytes."""
        with self._state.lock:
            self.used -= size
            self._freed_at = self._state.clock.monotonic()

    def release(self, charges: list[Charge]) -> None:
        """Remove one holder of each charge, and empty the list."""
        with self._state.lock:
            for charge in charges:
                charge.holders -= 1
                if charge.holders == 0:
                    self.free(charge.size)
            charges.clear()

    def measure(self, meters: MetricsRecorder) -> None:
        """Store the number and duration of the writer's waits, and the peak memory."""
        with self._state.lock:
            meters.buffer_waits, meters.buffer_wait = self._waits, self._waited
            meters.buffer_peak = self._peak

    def _stayed_full(self, size: int) -> BufferTimeoutError:
        return BufferTimeoutError(
            f"no buffer space for {size:,} bytes within max.block.ms = {self._max_block_ms}: "
            f"{self.used:,} of {self.limit:,} bytes are not yet acknowledged"
            + throttled_note(self._state.throttled_ms),
            hint="check that the brokers accept data, or raise kafka.buffer.memory or "
            "kafka.max.block.ms",
        )
