"""What sender, drainer and response handler work on: the session, its batches, and each partition.

Sender thread only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class SendContext:
    """`in_flight` has the partitions to which anything was ever sent in this session.

    `progress` is when each broker last acknowledged a batch, by its id.
    """

    session: SessionContext
    accumulator: Accumulator
    in_flight: dict[TopicPartition, InFlightBatches] = field(default_factory=dict)
    progress: dict[int, float] = field(default_factory=dict)

    @property
    def metadata(self) -> Metadata:
        """The client's metadata."""
        return self.session.client.metadata

    def batches_of(self, topic_partition: TopicPartition) -> InFlightBatches:
        """The batches of a partition."""
        batches = self.in_flight.get(topic_partition)
        if batches is None:
            batches = self.in_flight[topic_partition] = InFlightBatches(topic_partition)
        return batches

    def take_retries(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """The unwanted ones of the batches that wait to be sent again; they wait no more."""
        return [
            batch
            for batches in self.in_flight.values()
            if batches.retry_queue
            for batch in batches.take_retries(unwanted)
        ]

    def backlog(self, node_id: int, now: float) -> str:
        """How many batches wait for a broker, for how long, and until when; "" if none do.

        A bootstrap server, whose id is negative, is waited for by what knows nothing of its topic
        yet, and needs any of them. Counted when asked for, which is rare.
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
    """What ends batches whose topic does not come: the writer's patience, or their own age."""
    if config.delivery_timeout_ms < config.max_block_ms:
        return f"delivery.timeout.ms = {config.delivery_timeout_ms}"
    return f"max.block.ms = {config.max_block_ms}"


def _waiting(batches: list[ProducerBatch], what: str, timeout: str, now: float) -> str:
    """`timeout`: what ends the wait, and its milliseconds."""
    if not batches:
        return ""
    age = now - min(batch.created for batch in batches)
    records = sum(batch.records for batch in batches)
    return (
        f"; waiting for {what}: {plural(records, 'record')} in "
        f"{plural(len(batches), 'batch', 'batches')}, for up to {age:.1f} s; they fail after "
        f"{timeout}"
    )
