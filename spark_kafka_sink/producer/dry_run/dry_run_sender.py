"""The sender of a dry run: what would be sent goes into the report, and no request leaves.

Metadata and connections are real, so that partitions and leaders are, and so are the versions that
the brokers speak. Batches are complete at once, as on brokers that answer without delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.client.cluster import NO_LEADER
from spark_kafka_sink.producer.dry_run.codec_sampler import CodecSampler
from spark_kafka_sink.producer.send.sender import Sender

if TYPE_CHECKING:
    from spark_kafka_sink.client.request import Request
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.send.in_flight import DrainedBatch


class DryRunSender(Sender):
    """Drains as a `Sender` does; its producer has no producer id (`SinkConfig.parse`)."""

    def __init__(self, session: SessionContext, accumulator: Accumulator) -> None:
        if session.config.enable_idempotence:
            raise AssertionError("a dry run asks for no producer id")
        super().__init__(session, accumulator)
        self._sampler = CodecSampler(session.config, session.report)
        self._listed: dict[str, int] = {}
        """Partitions of each topic that the report has."""

    def _transmit(
        self, node_id: int, request: Request, drained: list[DrainedBatch], now: float
    ) -> None:
        del request
        self._measure_request(node_id, drained)
        self._measure_batches(node_id, drained, now)
        for batches, batch in drained:
            self._list_partitions(batch.partition.topic)
            self._sampler.offer(batch)
            self._completion.complete_dry_run(batches, batch)
        self._network.wakeup()  # as an answer does: there may be more to drain

    def _list_partitions(self, topic: str) -> None:
        """Name all partitions of a topic in the report, also those that will get nothing."""
        leaders = self._metadata.cluster.topics[topic].leaders
        for partition in range(self._listed.get(topic, 0), len(leaders)):
            if leaders[partition] != NO_LEADER:
                self._report.led_by(topic, partition, leaders[partition])
        self._listed[topic] = len(leaders)
