"""The time from which delivery.timeout.ms of a batch is measured.

A batch can expire in any queue. Its delivery.timeout.ms starts when it is created. Until the batch
is first sent, the timeout restarts whenever a broker that the batch waits for acknowledges a
different batch, and at the end of each throttle pause of such a broker (KIP-219). The reason is
that the buffer may contain more than a slow or throttled broker accepts within delivery.timeout.ms.
A broker that accepts nothing is still detected after delivery.timeout.ms.

After the batch is first sent, only throttle pauses restart the timeout. After a broker has rejected
the batch or a response was lost, nothing restarts it, because a quota might throttle every second
request (see `DeliveryTimeout.record_pause`).

Sender thread only. Source: ``RecordAccumulator.expiredBatches`` (KIP-91).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER, UNASSIGNED

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.producer_client import ProducerClient


class _ThrottlePause(NamedTuple):
    """A throttle pause of a broker: when it was requested and when it ends (monotonic clock)."""

    requested_at: float
    ends_at: float


class DeliveryTimeout:
    """Determines when a batch's delivery.timeout.ms starts.

    Times are in seconds (monotonic clock).
    """

    def __init__(self, client: ProducerClient, state: SessionState) -> None:
        self._client = client
        self._state = state
        self._acknowledged_at: dict[int, float] = {}
        """When each broker last acknowledged a batch, by broker id."""
        self._pauses: dict[int, _ThrottlePause] = {}
        """The latest pause of each broker that restarts the timeout; see `record_pause`."""

    def record_acknowledgement(self, node_id: int) -> None:
        """Record that a broker has acknowledged a batch."""
        self._acknowledged_at[node_id] = self._client.clock.monotonic()

    def record_pause(self, node_id: int, now: float, pause_ms: int, *, by_produce: bool) -> None:
        """Record a throttle pause, after which the writer's waits and delivery.timeout.ms restart.

        Pauses in Produce responses always restart delivery.timeout.ms. Of the pauses in other
        responses, only the first after each acknowledgement restarts it, because a quota might
        throttle every response although no batch is sent.
        """
        self._state.add_throttle_pause(pause_ms)
        last = self._pauses.get(node_id)
        if (
            by_produce
            or last is None
            or self._acknowledged_at.get(node_id, 0.0) > last.requested_at
        ):
            self._pauses[node_id] = _ThrottlePause(now, now + pause_ms / 1000)

    def is_expired(self, batch: ProducerBatch, now: float) -> bool:
        """Return True if delivery.timeout.ms has passed for a batch."""
        created_before = now - self._client.config.delivery_timeout_ms / 1000
        return batch.created_at <= created_before and self.start_of(batch) <= created_before

    def start_of(self, batch: ProducerBatch) -> float:
        """Return the time from which delivery.timeout.ms of a batch is measured."""
        times = [batch.created_at, batch.delivery.started_at]
        for leader in self._awaited_brokers(batch):
            if not batch.delivery.attempts:
                times.append(self._acknowledged_at.get(leader, 0.0))
            if not batch.delivery.is_retried:
                times.append(self._paused_until(leader))
        return max(times)

    def _paused_until(self, node_id: int) -> float:
        """Return the end of the last pause that restarts the timeout; 0 if there is none.

        This may be a pause from an earlier session of the client.
        """
        pause = self._pauses.get(node_id)
        return self._client.network.throttled_until(node_id) if pause is None else pause.ends_at

    def _awaited_brokers(self, batch: ProducerBatch) -> Collection[int]:
        """Return the brokers that a batch waits for: all leaders of the topic if unassigned."""
        topic = self._client.metadata.cluster.topics.get(batch.topic_partition.topic)
        if topic is None:
            return ()
        partition, leaders = batch.topic_partition.partition, topic.leaders
        if partition != UNASSIGNED:
            leaders = leaders[partition : partition + 1]
        return {*leaders} - {NO_LEADER}  # which is also the id of the first bootstrap server
