"""Adds the progress of a session's batches to its report and metrics; sender thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
from spark_kafka_sink.report.metrics.metrics_recorder import BatchSent
from spark_kafka_sink.report.report_builder import FinishedBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.report.report_builder import ReportBuilder


class ReportListener(BatchListener):
    """Counts the batches of a session in its report."""

    def __init__(self, report: ReportBuilder) -> None:
        self._report = report

    def on_request_sent(self, batches: Sequence[ProducerBatch], node: Node) -> None:
        """Count the request, and whether it contains a retried batch."""
        recorder = self._report.recorder
        recorder.add_request(sum(batch.records for batch in batches))
        recorder.brokers.of(node).retries += any(batch.delivery.attempts > 1 for batch in batches)

    def on_produce_response(self, completion: Completion) -> None:
        """Record the latency and the throttle time."""
        self._report.add_request_latency(completion.latency)
        meter = self._report.recorder.brokers.of(completion.node)
        meter.throttle.add(completion.throttle_ms)

    def on_batch_response(
        self, batch: ProducerBatch, completion: Completion, response: PartitionResponse, action: str
    ) -> None:
        """Store the sequence after a failed batch."""
        del completion, action
        if response.code and batch.sequence >= 0:
            self._report.set_failed_sequence(*batch.topic_partition, batch.next_sequence)

    def on_throttled(self, pause_ms: int) -> None:
        """Add the throttle time."""
        self._report.add_throttle_time(pause_ms)

    def on_rejected(self, error: str) -> None:
        """Count the error."""
        self._report.count_error(error)

    def on_replaced(
        self, batch: ProducerBatch, pieces: Sequence[ProducerBatch], *, split_size: int | None
    ) -> None:
        """Count a batch that was too large for the broker."""
        del batch, pieces
        if split_size is not None:
            self._report.count_split()

    def on_sent(self, batch: ProducerBatch, node: Node, correlation_id: int, now: float) -> None:
        """Store the leader; record the times and sizes of a batch that is sent first."""
        del correlation_id
        report, (topic, partition) = self._report, batch.topic_partition
        report.set_leader(topic, partition, node.node_id)
        if batch.delivery.attempts > 1:
            return
        report.add_queue_latency(now - batch.created_at)
        sent = BatchSent(
            topic=topic,
            records=batch.records,
            bytes_uncompressed=batch.raw_size,
            bytes_sent=batch.size,
            queue_times=[(now - arrived, records) for arrived, records, _ in batch.arrivals],
            fill_time=batch.closed_at - batch.created_at,
            close_reason=batch.close_reason if batch.closed_at else None,
            compression=batch.compression_s,
        )
        report.recorder.add_batch(sent, report.recorder.brokers.of(node))

    def on_acknowledged(
        self, batch: ProducerBatch, status: DeliveryStatus, response: PartitionResponse | None
    ) -> None:
        """Count the records with their offsets, if known."""
        topic, partition = batch.topic_partition
        finished = FinishedBatch(
            topic=topic,
            partition=partition,
            records=batch.records,
            bytes_uncompressed=batch.raw_size,
            bytes_sent=batch.size,
            next_sequence=batch.next_sequence if batch.sequence >= 0 else None,
            append_time=None if response is None else _append_time(batch, response),
        )
        match status:
            case DeliveryStatus.SENT:
                self._report.count_sent(finished)
            case DeliveryStatus.WOULD_BE_WRITTEN:
                self._report.count_would_be_written(finished)
            case _:
                self._report.count_acknowledged(finished, response and response.base_offset)

    def on_retried(self, batch: ProducerBatch, error: str) -> None:
        """Count the retry."""
        self._report.count_retry(error)
        self._report.recorder.count_retried(batch.topic_partition.topic, batch.records)

    def on_failed(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Count the records by their status and error."""
        self._report.count_failed(*batch.topic_partition, batch.records, status, error)


def _append_time(batch: ProducerBatch, response: PartitionResponse) -> int | None:
    """Return the time at which the broker appended the batch, if the response contains it.

    For a duplicate batch, a broker returns the timestamp in the log, which the producer set if the
    topic uses CreateTime. Source: ``BatchMetadata.timestamp``.
    """
    repeated = batch.delivery.attempts > 1 and response.append_time == batch.max_timestamp
    return None if repeated else response.append_time
