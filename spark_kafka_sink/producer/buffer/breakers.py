"""Circuit breakers of one session, and the ramp of its rate limits.

There is a breaker for each partition, each broker, and the job as this task sees it. The sender
records outcomes; sender and writer query the state. Source: "Advanced Producer Patterns".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.config.throttling import Thresholds, ThrottlingConfig
from spark_kafka_sink.producer.buffer.circuit_breaker import (
    BatchOutcome,
    Breaker,
    BreakerState,
    Window,
)
from spark_kafka_sink.producer.buffer.rate_limiter import Ramp

if TYPE_CHECKING:
    from spark_kafka_sink.client.topic_partition import TopicPartition

STORM = Thresholds(retry_percent=50)
"""The retry rate from which on the rate limits ramp up again from 1/16."""

_STORM_SECONDS = 5.0
_STORM_BATCHES = 10


class CircuitBreakers:
    """One session's breakers, by partition and by broker; the sender records, both threads ask."""

    def __init__(self, config: ThrottlingConfig | None = None) -> None:
        self._config = (config or ThrottlingConfig()).breaker

        # Written by the sender's thread, read by any: replaced as a whole.
        self.ramp = Ramp()
        """How far the rate limits have recovered since the latest storm or throttling."""
        self.unavailable: frozenset[int] = frozenset()
        """Brokers that have owed an answer for partitioner.availability.timeout.ms."""

        # Entries are added by the sender's thread, and looked up by any.
        self._each: dict[TopicPartition | int, Breaker] = {}

        # Sender thread only.
        self._job = Breaker(self._config, self._config.job)
        self._recent = Window(_STORM_SECONDS)
        self._errors: Counter[str] = Counter()
        self._seen: set[TopicPartition] = set()
        self._failing: set[TopicPartition] = set()
        """Partitions whose latest answer was an error."""

    # Sender thread only.

    def record(
        self,
        topic_partition: TopicPartition,
        node_id: int | None,
        outcome: BatchOutcome,
        error: str,
        now: float,
    ) -> DeliveryError | None:
        """A batch of a partition was answered; the reason to end the session, if there is one.

        `node_id` is the leader, None where the answer says nothing of the broker. `error`
        is Kafka's name of it, and does not count where the batch was delivered.
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
        if self._config.each.enabled:
            for target in (topic_partition,) if node_id is None else (topic_partition, node_id):
                self._breaker(target).record(outcome, now)
        if self._config.job.enabled and self._job.record(outcome, now):
            return self._reason(now)
        return None

    def throttled(self, now: float) -> None:
        """A broker has asked for a pause."""
        self.ramp = Ramp(now)

    def set_unavailable(self, brokers: frozenset[int]) -> None:
        """Replace the set of brokers that exceeded partitioner.availability.timeout.ms."""
        self.unavailable = brokers

    # Any thread.

    def is_open(self, topic_partition: TopicPartition, node_id: int, now: float) -> bool:
        """Whether the breaker of a partition, or that of its leader, lets nothing through."""
        return BreakerState.OPEN in (self._state(topic_partition, now), self._state(node_id, now))

    def may_send(self, target: TopicPartition | int, busy: bool, now: float) -> bool:
        """Whether a partition or broker may be sent something; half-open, one thing at a time."""
        if not self._each:
            return True
        state = self._state(target, now)
        return state is BreakerState.CLOSED or (state is BreakerState.HALF_OPEN and not busy)

    def is_probing(self, target: TopicPartition | int, now: float) -> bool:
        """Whether the breaker is half-open, so that a single trial batch may be sent."""
        return self._state(target, now) is BreakerState.HALF_OPEN

    @property
    def has_breakers(self) -> bool:
        """Whether any partition's or broker's breaker can be open."""
        return bool(self._each)

    def _state(self, target: TopicPartition | int, now: float) -> BreakerState:
        breaker = self._each.get(target)
        return BreakerState.CLOSED if breaker is None else breaker.state(now)

    # Sender thread only.

    def _is_storm(self, now: float) -> bool:
        """Whether most answers are errors on most partitions; a few bad partitions don't count."""
        if 2 * len(self._failing) <= len(self._seen):
            return False
        return self._recent.tally(now).reaches(STORM, _STORM_BATCHES)

    def _breaker(self, target: TopicPartition | int) -> Breaker:
        breaker = self._each.get(target)
        if breaker is None:
            breaker = self._each[target] = Breaker(self._config, self._config.each)
        return breaker

    def _reason(self, now: float) -> DeliveryError:
        tally, config = self._job.tally(now), self._config
        errors = ", ".join(f"{name} {count}" for name, count in self._errors.most_common(3))
        return DeliveryError(
            f"the job's circuit breaker opened: of {plural(tally.total, 'answer')} in "
            f"{config.window:g} s, {plural(tally.retried, 'error')} to be retried "
            f"({tally.retry_percent:.0f} %) and {plural(tally.failed, 'failure')} for good; "
            f"errors so far: {errors}",
            hint="find out what the brokers complain of before the write is run again; "
            "errors.breaker.job.retryPercent "
            f"({config.job.retry_percent or 'off'}) and errors.breaker.job.failures "
            f"({config.job.failures or 'off'}) say when to stop",
        )
