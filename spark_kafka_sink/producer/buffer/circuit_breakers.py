"""The circuit breakers of one session: for partitions, brokers and the job.

After too many errors a breaker blocks requests for a while, then allows one trial batch:

    CLOSED -> OPEN           a threshold is reached
    OPEN -> HALF_OPEN        `open_ms` have passed
    HALF_OPEN -> CLOSED      the trial batch was delivered
    HALF_OPEN -> OPEN        the trial batch was not delivered

The sender thread records outcomes; the sender and writer threads query the state. Callers pass the
time.

Source: "Advanced Producer Patterns", see docs/deviations.md.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds, ThrottlingConfig
from spark_kafka_sink.producer.buffer.ramp import Ramp

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_SLOTS = 10
"""Number of slots in the window; outcomes expire one slot at a time."""
_STORM = Thresholds(retry_percent=50)
"""Retry rate above which the rate limits are reduced to 1/16."""
_STORM_S = 5.0
_STORM_BATCHES = 10


class BreakerState(Enum):
    """The states of a breaker."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()


class BatchOutcome(Enum):
    """The outcome of one attempt to send a batch."""

    DELIVERED = auto()
    RETRIED = auto()
    FAILED = auto()


@dataclass(slots=True)
class OutcomeTally:
    """Number of batches by outcome."""

    delivered: int = 0
    retried: int = 0
    failed: int = 0

    def add(self, outcome: BatchOutcome) -> None:
        """Count an outcome."""
        self.delivered += outcome is BatchOutcome.DELIVERED
        self.retried += outcome is BatchOutcome.RETRIED
        self.failed += outcome is BatchOutcome.FAILED

    @property
    def total(self) -> int:
        """Number of all outcomes."""
        return self.delivered + self.retried + self.failed

    @property
    def retry_percent(self) -> float:
        """Percentage of attempts that ended in a retriable error."""
        return 100 * self.retried / self.total if self.total else 0.0

    def reaches(self, thresholds: Thresholds, min_batches: int) -> bool:
        """Return True if a threshold is reached; percentages require `min_batches` outcomes."""
        if 0 < thresholds.failures <= self.failed:
            return True
        return self.total >= min_batches and 0 < thresholds.retry_percent <= self.retry_percent


@dataclass(slots=True)
class Window:
    """The outcomes within the last `seconds` seconds."""

    seconds: float
    _slots: deque[tuple[int, OutcomeTally]] = field(default_factory=deque)

    def add(self, outcome: BatchOutcome, now: float) -> None:
        """Record an outcome."""
        slot = int(now * _SLOTS / self.seconds)
        while self._slots and self._slots[0][0] <= slot - _SLOTS:
            self._slots.popleft()
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, OutcomeTally()))
        self._slots[-1][1].add(outcome)

    def tally(self, now: float) -> OutcomeTally:
        """Return the number of outcomes within the window."""
        oldest = int(now * _SLOTS / self.seconds) - _SLOTS
        tallies = [tally for slot, tally in self._slots if slot > oldest]
        return OutcomeTally(
            sum(tally.delivered for tally in tallies),
            sum(tally.retried for tally in tallies),
            sum(tally.failed for tally in tallies),
        )

    def clear(self) -> None:
        """Drop all outcomes."""
        self._slots.clear()


class Breaker:
    """The breaker of one partition, one broker, or the job.

    Any thread may call `state`. Only the sender thread may call the other methods.
    """

    __slots__ = ("_config", "_opened_at", "_thresholds", "_window")

    def __init__(self, config: BreakerConfig, thresholds: Thresholds) -> None:
        self._config = config
        self._thresholds = thresholds

        # Changed by the sender thread, read by any thread.
        self._opened_at: float | None = None
        """The time at which the breaker opened; None if it is closed."""

        # Sender thread only.
        self._window = Window(config.window_ms / 1000)

    def state(self, now: float) -> BreakerState:
        """Return the state at `now`; OPEN becomes HALF_OPEN after `open_ms`."""
        opened_at = self._opened_at
        if opened_at is None:
            return BreakerState.CLOSED
        is_cooled_down = now >= opened_at + self._config.open_ms / 1000
        return BreakerState.HALF_OPEN if is_cooled_down else BreakerState.OPEN

    def record(self, outcome: BatchOutcome, now: float) -> bool:
        """Record an outcome; return True if it opened the breaker."""
        state = self.state(now)
        is_delivered = outcome is BatchOutcome.DELIVERED
        if state is BreakerState.HALF_OPEN and is_delivered:
            self._opened_at = None
            self._window.clear()
            return False
        if state is not BreakerState.HALF_OPEN:
            self._window.add(outcome, now)
            if is_delivered or state is BreakerState.OPEN:
                return False
            if not self.tally(now).reaches(self._thresholds, self._config.min_batches):
                return False
        self._opened_at = now
        return True

    def tally(self, now: float) -> OutcomeTally:
        """Return the number of outcomes within the window."""
        return self._window.tally(now)


class CircuitBreakers:
    """One session's breakers, by partition and broker.

    The sender thread records outcomes; both threads query the state.
    """

    def __init__(self, config: ThrottlingConfig | None = None) -> None:
        self._config = (config or ThrottlingConfig()).breaker

        # Replaced as a whole by the sender thread, read by any thread.
        self.ramp = Ramp()
        """The recovery of the rate limits since the latest retry storm or throttle pause."""
        self.unavailable: frozenset[int] = frozenset()
        """Brokers that have not responded for partitioner.availability.timeout.ms."""

        # Entries are added by the sender thread and looked up by any thread.
        self._breakers_by_owner: dict[TopicPartition | int, Breaker] = {}
        """The breakers of partitions, and of brokers by their id."""

        # Sender thread only.
        self._job = Breaker(self._config, self._config.job)
        self._recent = Window(_STORM_S)
        self._errors: Counter[str] = Counter()
        self._seen: set[TopicPartition] = set()
        self._failing: set[TopicPartition] = set()
        """Partitions whose latest response was an error."""

    # Only the sender thread calls the methods below.

    def set_unavailable(self, unavailable: frozenset[int]) -> None:
        """Replace the brokers that get no rows whose partition can be chosen."""
        self.unavailable = unavailable

    def record(
        self,
        topic_partition: TopicPartition,
        node_id: int | None,
        outcome: BatchOutcome,
        error: str,
        now: float,
    ) -> DeliveryError | None:
        """Record the outcome of a batch; return the session's error if the job breaker opens.

        `node_id` is the leader, or None if the broker did not cause the outcome. `error` is Kafka's
        name for the error; it is ignored if the batch was delivered.
        """
        self._recent.add(outcome, now)
        self._seen.add(topic_partition)
        if outcome is BatchOutcome.DELIVERED:
            self._failing.discard(topic_partition)
        else:
            self._errors[error] += 1
            self._failing.add(topic_partition)
            if self._is_storm(now):
                self.ramp = Ramp(now)
        if self._config.target.is_enabled:
            for owner in (topic_partition,) if node_id is None else (topic_partition, node_id):
                self._get_or_create(owner).record(outcome, now)
        if self._config.job.is_enabled and self._job.record(outcome, now):
            return self._open_error(now)
        return None

    def on_throttled(self, now: float) -> None:
        """Restart the ramp after a broker requested a throttle pause."""
        self.ramp = Ramp(now)

    # Any thread may call the methods below.

    def is_open(self, topic_partition: TopicPartition, node_id: int, now: float) -> bool:
        """Return True if the partition's or its leader's breaker is open."""
        return BreakerState.OPEN in (self._state(topic_partition, now), self._state(node_id, now))

    def may_send(self, owner: TopicPartition | int, is_busy: bool, now: float) -> bool:
        """Return True if the breaker is closed, or if it is half-open and `is_busy` is False."""
        if not self._breakers_by_owner:
            return True
        state = self._state(owner, now)
        return state is BreakerState.CLOSED or (state is BreakerState.HALF_OPEN and not is_busy)

    def is_probing(self, owner: TopicPartition | int, now: float) -> bool:
        """Return True if the breaker is half-open, which allows only one trial batch."""
        return self._state(owner, now) is BreakerState.HALF_OPEN

    @property
    def has_breakers(self) -> bool:
        """True if the breaker of any partition or broker might be open."""
        return bool(self._breakers_by_owner)

    def _state(self, owner: TopicPartition | int, now: float) -> BreakerState:
        breaker = self._breakers_by_owner.get(owner)
        return BreakerState.CLOSED if breaker is None else breaker.state(now)

    # Only the sender thread calls the methods below.

    def _is_storm(self, now: float) -> bool:
        """Return True if most responses are errors on most partitions.

        Errors on only a few partitions are not a storm.
        """
        if 2 * len(self._failing) <= len(self._seen):
            return False
        return self._recent.tally(now).reaches(_STORM, _STORM_BATCHES)

    def _get_or_create(self, owner: TopicPartition | int) -> Breaker:
        breaker = self._breakers_by_owner.get(owner)
        if breaker is None:
            breaker = self._breakers_by_owner[owner] = Breaker(self._config, self._config.target)
        return breaker

    def _open_error(self, now: float) -> DeliveryError:
        tally = self._job.tally(now)
        config = self._config
        errors = ", ".join(f"{name} {count}" for name, count in self._errors.most_common(3))
        return DeliveryError(
            f"the job's circuit breaker opened: of {plural(tally.total, 'response')} in "
            f"{config.window_ms / 1000:g} s, {plural(tally.retried, 'retriable error')} "
            f"({tally.retry_percent:.0f} %) and {plural(tally.failed, 'permanent failure')}; "
            f"errors: {errors}",
            hint="Fix the cause of these errors before you run the write again; "
            f"errors.breaker.job.retryPercent ({config.job.retry_percent or 'off'}) and "
            f"errors.breaker.job.failures ({config.job.failures or 'off'}) set the thresholds.",
        )
