"""What goes wrong where, told by the sender, asked by sender and writer.

Circuit breakers around each partition, each broker and the job as this task sees it; the ramp of
the rate limits. Source: seed "Advanced Producer Patterns".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.throttling import PressureConfig, Thresholds
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
"""A storm of retries, after which the task ramps up again."""

_STORM_SECONDS = 5.0
_STORM_BATCHES = 10


class CircuitBreakers:
    """The sender's thread alone calls `record` and `throttled`; any may ask the rest."""

    def __init__(self, config: PressureConfig | None = None) -> None:
        self.ramp = Ramp()
        """How far the rate limits are back after the latest trouble."""
        self.silent: frozenset[int] = frozenset()
        """Brokers that have owed an answer for partitioner.availability.timeout.ms."""
        self._config = (config or PressureConfig()).breaker
        self._each: dict[TopicPartition | int, Breaker] = {}
        self._job = Breaker(self._config, self._config.job)
        self._recent = Window(_STORM_SECONDS)
        self._errors: Counter[str] = Counter()
        self._seen: set[TopicPartition] = set()
        self._troubled: set[TopicPartition] = set()
        """Partitions whose latest answer was an error."""

    # What the sender tells.

    def record(
        self,
        place: TopicPartition,
        node_id: int | None,
        outcome: BatchOutcome,
        error: str,
        now: float,
    ) -> DeliveryError | None:
        """A batch of `place`, led by `node_id`, was answered; the reason to stop, if there is one.

        `node_id` is None where the answer says nothing of the broker. `error` is Kafka's name of
        it, and does not count where the batch was delivered.
        """
        self._recent.add(outcome, now)
        self._seen.add(place)
        if outcome is BatchOutcome.DELIVERED:
            self._troubled.discard(place)
        else:
            self._errors[error] += 1
            self._troubled.add(place)
            if self._is_storm(now):
                self.ramp = Ramp(now)
        if self._config.each.enabled:
            for thing in (place,) if node_id is None else (place, node_id):
                self._breaker(thing).record(outcome, now)
        if self._config.job.enabled and self._job.record(outcome, now):
            return self._reason(now)
        return None

    def throttled(self, now: float) -> None:
        """A broker has asked for a pause."""
        self.ramp = Ramp(now)

    # What is asked.

    def is_open(self, place: TopicPartition, node_id: int, now: float) -> bool:
        """Whether the breaker of a partition, or that of its leader, lets nothing through."""
        return BreakerState.OPEN in (self._state(place, now), self._state(node_id, now))

    def may_send(self, thing: TopicPartition | int, busy: bool, now: float) -> bool:
        """Whether a partition or broker may be sent something; half-open, one thing at a time."""
        if not self._each:
            return True
        state = self._state(thing, now)
        return state is BreakerState.CLOSED or (state is BreakerState.HALF_OPEN and not busy)

    def is_probing(self, thing: TopicPartition | int, now: float) -> bool:
        """Whether a partition or broker has rested, and one batch is to find out how it is."""
        return self._state(thing, now) is BreakerState.HALF_OPEN

    @property
    def has_breakers(self) -> bool:
        """Whether any partition's or broker's breaker can be open."""
        return bool(self._each)

    def _is_storm(self, now: float) -> bool:
        """Whether most answers are errors, and of most partitions: no few of them slow the rest."""
        if 2 * len(self._troubled) <= len(self._seen):
            return False
        return self._recent.tally(now).reaches(STORM, _STORM_BATCHES)

    def _state(self, thing: TopicPartition | int, now: float) -> BreakerState:
        breaker = self._each.get(thing)
        return BreakerState.CLOSED if breaker is None else breaker.state(now)

    def _breaker(self, thing: TopicPartition | int) -> Breaker:
        breaker = self._each.get(thing)
        if breaker is None:
            breaker = self._each[thing] = Breaker(self._config, self._config.each)
        return breaker

    def _reason(self, now: float) -> DeliveryError:
        tally, config = self._job.tally(now), self._config
        errors = ", ".join(f"{name} {count}" for name, count in self._errors.most_common(3))
        return DeliveryError(
            f"the job's circuit breaker opened: of {tally.total} answers in {config.window:g} s, "
            f"{tally.retried} were errors to be retried ({tally.retry_percent:.0f} %) and "
            f"{tally.failed} failures for good; errors so far: {errors}",
            hint="find out what the brokers complain of before the write is run again; "
            "errors.breaker.job.retryPercent "
            f"({config.job.retry_percent or 'off'}) and errors.breaker.job.failures "
            f"({config.job.failures or 'off'}) say when to stop",
        )
