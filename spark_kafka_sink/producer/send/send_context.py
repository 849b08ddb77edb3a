"""The state that sender, drainer and response handler share. Sender thread only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.text import plural
from spark_kafka_sink.producer.send.in_flight import InFlightBatches

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.client.cluster import TopicPartition
    from spark_kafka_sink.client.metadata import Metadata
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.context import SessionContext


class Pause(NamedTuple):
    """A throttle pause of a broker, in seconds of the monotonic clock."""

    asked: float
    until: float


@dataclass(frozen=True, slots=True)
class SendContext:
    """The state that the parts of the sender share.

    `in_flight` contains the partitions that any batch was sent to in this session. `progress` is
    the time at which each broker last acknowledged a batch, by broker id. `pauses` is each
    broker's latest pause that counts, see `paused`.
    """

    session: SessionContext
    accumulator: Accumulator
    in_flight: dict[TopicPartition, InFlightBatches] = field(default_factory=dict)
    progress: dict[int, float] = field(default_factory=dict)
    pauses: dict[int, Pause] = field(default_factory=dict)

    def paused(self, node_id: int, now: float, seconds: float, *, by_produce: bool) -> None:
        """Record a throttle pause if delivery.timeout.ms restarts after it.

        Of the pauses in responses other than Produce, only the first after each acknowledgement
        counts: a quota may throttle every response to requests that achieve nothing.
        """
        last = self.pauses.get(node_id)
        if by_produce or last is None or self.progress.get(node_id, 0.0) > last.asked:
            self.pauses[node_id] = Pause(now, now + seconds)

    def paused_until(self, node_id: int) -> float:
        """Return the end of the last pause that counts; 0 if there was none.

        A pause from an earlier session of the client counts until the next one.
        """
        pause = self.pauses.get(node_id)
        if pause is None:
            return self.session.client.network.throttled_until(node_id)
        return pause.until

    @property
    def metadata(self) -> Metadata:
        """The client's metadata."""
        return self.session.client.metadata

    def batches_of(self, topic_partition: TopicPartition) -> InFlightBatches:
        """Return the in-flight batches of a partition, creating them if necessary."""
        batches = self.in_flight.get(topic_partition)
        if batches is None:
            batches = self.in_flight[topic_partition] = InFlightBatches(topic_partition)
        return batches

    def take_retries(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove and return unwanted batches that wait to be retried, from all partitions."""
        return [
            batch
            for batches in self.in_flight.values()
            if batches.retry_queue
            for batch in batches.take_retries(unwanted)
        ]

    def backlog(self, node_id: int, now: float) -> str:
        """Return how many batches wait for a broker, how long, and until when; "" if none do.

        Batches whose topic is still unknown wait for any bootstrap server (negative node id).
        Computed on each call; calls are rare.
        """
        cluster, config = self.metadata.cluster, self.session.config
        if node_id < 0:
            waiting = self._queued(lambda partition: partition.topic not in cluster.topics)
            return _waiting(waiting, "the metadata of their topics", _first_of(config), now)
        waiting = [
            batch
            for topic_partition, batches in self.in_flight.items()
            for batch in (*batches.in_flight, *batches.retry_queue)
            if node_id in (batches.leader, cluster.leader(*topic_partition))
        ]
        waiting += self._queued(lambda partition: cluster.leader(*partition) == node_id)
        ends = f"delivery.timeout.ms = {config.delivery_timeout_ms}"
        return _waiting(waiting, "it", ends, now)

    def _queued(self, wanted: Callable[[TopicPartition], bool]) -> list[ProducerBatch]:
        with self.accumulator.lock:
            queues = self.accumulator.queues.items()
            return [batch for partition, queue in queues if wanted(partition) for batch in queue]


def _first_of(config: ProducerConfig) -> str:
    """Return the timeout that first ends batches of unknown topics: the writer's or their own."""
    if config.delivery_timeout_ms < config.max_block_ms:
        return f"delivery.timeout.ms = {config.delivery_timeout_ms}"
    return f"max.block.ms = {config.max_block_ms}"


def _waiting(batches: list[ProducerBatch], what: str, timeout: str, now: float) -> str:
    """Return the sentence for these batches; `timeout` names the option that ends the wait."""
    if not batches:
        return ""
    age = now - min(batch.created for batch in batches)
    records = sum(batch.records for batch in batches)
    return (
        f"; waiting for {what}: {plural(records, 'record')} in "
        f"{plural(len(batches), 'batch', 'batches')}, for up to {age:.1f} s; they fail after "
        f"{timeout}"
    )
