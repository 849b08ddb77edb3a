"""What the report is told of a batch that left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.report.builder import BatchDone

if TYPE_CHECKING:
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.produce import PartitionAnswer


def batch_done(batch: ProducerBatch, answer: PartitionAnswer | None = None) -> BatchDone:
    """A batch that was acknowledged, or that went out with acks=0 and has no answer."""
    topic, partition = batch.partition
    return BatchDone(
        topic=topic,
        partition=partition,
        records=batch.records,
        raw_bytes=batch.raw_size,
        wire_bytes=batch.size,
        next_sequence=batch.next_sequence if batch.sequence >= 0 else None,
        append_time=None if answer is None else _append_time(batch, answer),
    )


def _append_time(batch: ProducerBatch, answer: PartitionAnswer) -> int | None:
    """When the broker has appended the batch, where it says so.

    Of a batch that it had already, a broker names the time that is in the log: the producer's own
    where the topic keeps CreateTime. Source: ``BatchMetadata.timestamp``.
    """
    repeated = batch.attempts > 1 and answer.append_time == batch.max_timestamp
    return None if repeated else answer.append_time
