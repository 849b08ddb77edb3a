"""The circuit breakers of one session: for partitions, brokers and the job.

They also detect retry storms, which reduce the rate limits. The sender thread records outcomes; the
sender and writer threads query the state. Callers pass the time.

Source: "Advanced Producer Patterns", see docs/sources.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.throttling import Thresholds, ThrottlingConfig
from spark_kafka_sink.producer.limits.breaker import BatchOutcome, Breaker, BreakerState, Window
from spark_kafka_sink.producer.limits.ramp import Ramp

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_STORM = Thresholds(retry_percent=50)
"""Retry rate above which the rate limits are reduced to 1/16."""
_STORM_S = 5.0
_STORM_BATCHES = 10


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
