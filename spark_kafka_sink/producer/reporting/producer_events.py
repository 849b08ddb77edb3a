"""Events of batches and of the producer id, logged if kafka.debug enables their context.

Each method logs one event, and returns immediately if the event's debug context is disabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.debug_log import DebugLog
from spark_kafka_sink.kafka.protocol.error_codes import error_name
from spark_kafka_sink.producer.buffer.batch_listener import BatchListener

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_kafka_sink.common.debug_log import DebugContext
    from spark_kafka_sink.common.delivery_status import DeliveryStatus
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.producer_id import ProducerIdentity


class ProducerEvents(BatchListener):
    """Logs the events of one session.

    Args:
        session: the session's name.
        contexts: the debug contexts that are enabled.
    """

    __slots__ = ("_debug", "session")

    def __init__(self, session: str = "", contexts: Iterable[DebugContext] = ()) -> None:
        self.session = session
        self._debug = DebugLog(contexts, session=session)

    def on_opened(self, client: str, limit: int) -> None:
        """Log the start of the session with its client and its buffer size in bytes."""
        if (log_event := self._debug.queue) is not None:
            log_event("open", client=client, buffer_bytes=limit)

    def on_appended(self, batch: ProducerBatch, records: int) -> None:
        """Log that records were appended to an open batch."""
        if (log_event := self._debug.msg) is not None:
            log_event(
                "append",
                **_batch_fields(batch),
                records=f"+{records}",
                batch_records=batch.records,
                batch_bytes=batch.raw_size,
            )

    def on_closed(self, batch: ProducerBatch) -> None:
        """Log that the batch was closed."""
        if (log_event := self._debug.msg) is not None:
            log_event(
                "close",
                **_batch_fields(batch),
                reason=batch.close_reason,
                records=batch.records,
                bytes=batch.raw_size,
                open_ms=_milliseconds(batch.closed_at - batch.created_at),
            )

    def on_compressed(self, batch: ProducerBatch) -> None:
        """Log that the codec thread has processed the batch."""
        if (log_event := self._debug.queue) is not None:
            log_event(
                "compress",
                **_batch_fields(batch),
                codec=batch.codec.name.lower(),
                bytes=batch.raw_size,
                compressed=batch.size,
                took_ms=_milliseconds(batch.compression_s or 0.0),
            )

    def on_partition_assigned(self, batch: ProducerBatch) -> None:
        """Log that an unassigned batch was assigned a partition."""
        if (log_event := self._debug.msg) is not None:
            log_event("assign_partition", **_batch_fields(batch))

    def on_waited(self, size: int, seconds: float, used: int) -> None:
        """Log that the writer has waited for buffer space."""
        if (log_event := self._debug.queue) is not None:
            log_event("wait", wanted_bytes=size, took_ms=_milliseconds(seconds), used_bytes=used)

    def on_sent(self, batch: ProducerBatch, node: Node, correlation_id: int, now: float) -> None:
        """Log that the batch was sent in the request with this correlation id."""
        del now
        if (log_event := self._debug.msg) is not None:
            log_event(
                "send",
                **_batch_fields(batch),
                base_sequence=batch.sequence,
                producer_id=batch.producer_id,
                epoch=batch.epoch,
                broker=node.node_id,
                correlation=correlation_id,
                attempt=batch.delivery.attempts,
                records=batch.records,
                bytes=batch.size,
            )

    def on_batch_response(
        self, batch: ProducerBatch, completion: Completion, response: PartitionResponse, action: str
    ) -> None:
        """Log the response to the batch's request, or its loss, and the resulting action."""
        if (log_event := self._debug.msg) is not None:
            log_event(
                "response",
                **_batch_fields(batch),
                base_sequence=batch.sequence,
                broker=completion.node.node_id,
                correlation=completion.correlation_id,
                error=error_name(response.code),
                action=action,
                offset=response.base_offset,
                age_ms=_milliseconds(completion.latency),
            )

    def on_failed(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Log that the batch will never be acknowledged."""
        if (log_event := self._debug.msg) is not None:
            log_event(
                "fail", **_batch_fields(batch), status=status, error=error, records=batch.records
            )

    def on_replaced(
        self, batch: ProducerBatch, pieces: Sequence[ProducerBatch], *, split_size: int | None
    ) -> None:
        """Log that the batch was split, or replaced by a corrected batch."""
        if (log_event := self._debug.queue) is not None:
            into = ",".join(piece.name for piece in pieces)
            if split_size is None:
                log_event("correct", **_batch_fields(batch), into=into)
            else:
                log_event(
                    "split",
                    **_batch_fields(batch),
                    into=into,
                    bytes=batch.raw_size,
                    max_bytes=split_size,
                )

    def on_producer_id_received(self, identity: ProducerIdentity) -> None:
        """Log the producer id after an InitProducerId response."""
        if (log_event := self._debug.eos) is not None:
            log_event(
                "producer_id",
                state=identity.state.name,
                producer_id=identity.producer_id,
                epoch=identity.epoch,
            )

    def on_sequence_assigned(self, batch: ProducerBatch) -> None:
        """Log the sequence that the batch was assigned."""
        if (log_event := self._debug.eos) is not None:
            log_event(
                "assign_sequence",
                **_batch_fields(batch),
                producer_id=batch.producer_id,
                epoch=batch.epoch,
                base_sequence=batch.sequence,
                next_sequence=batch.next_sequence,
            )

    def on_epoch_bumped(self, topic_partition: TopicPartition, identity: ProducerIdentity) -> None:
        """Log that the partition restarts at sequence 0."""
        if (log_event := self._debug.eos) is not None:
            log_event(
                "bump_epoch",
                partition=topic_partition,
                state=identity.state.name,
                epoch=identity.epoch,
            )

    def on_renumbered(self, topic_partition: TopicPartition, sequence: int) -> None:
        """Log that the partition continues at this sequence, in the same epoch."""
        if (log_event := self._debug.eos) is not None:
            log_event("renumber", partition=topic_partition, sequence=sequence)


def _batch_fields(batch: ProducerBatch) -> dict[str, object]:
    return {"partition": batch.topic_partition, "batch": batch.name}


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"
