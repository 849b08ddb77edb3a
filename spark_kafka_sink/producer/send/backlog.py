"""What waits for a broker, for whoever wonders why nothing moves. Sender thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.client.client import Client
    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches


class Backlog:
    """The batches of the partitions that a broker leads; counted when asked for, which is rare."""

    def __init__(
        self,
        client: Client,
        accumulator: Accumulator,
        lanes: Mapping[TopicPartition, InFlightBatches],
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._lanes = lanes

    def sentence(self, node_id: int, now: float) -> str:
        """How many batches wait for a broker, for how long, and until when; "" if none do."""
        cluster, config = self._client.metadata.cluster, self._client.config
        waiting = [
            batch
            for place, lane in self._lanes.items()
            for batch in (*lane.in_flight, *lane.again)
            if node_id in (lane.leader, cluster.leader(*place))
        ]
        with self._accumulator.lock:
            for place, queue in self._accumulator.queues.items():
                if cluster.leader(*place) == node_id:
                    waiting.extend(queue)
        if not waiting:
            return ""
        age = now - min(batch.created for batch in waiting)
        records = sum(batch.records for batch in waiting)
        return (
            f"; {records:,} records in {len(waiting):,} batches wait for it, some for {age:.1f} s: "
            f"they fail after delivery.timeout.ms = {config.delivery_timeout_ms}"
        )
