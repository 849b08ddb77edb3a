"""The interface through which reports, metrics and debug events follow a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.common.delivery_status import DeliveryStatus
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.producer_id import ProducerIdentity


class BatchListener:
    """Receives the events of batches. By default, each method does nothing.

    The writer and the sender thread call `on_closed` with the session's lock held. The writer
    thread calls `on_appended`, also with the lock held, and `on_waited`; the sender thread calls
    the other methods.
    """

    def on_appended(self, batch: ProducerBatch, records: int) -> None:
        """Called when records are appended to an open batch."""

    def on_waited(self, size: int, seconds: float, used: int) -> None:
        """Called when the writer's wait for `size` bytes ends; `used` bytes are charged."""

    def on_closed(self, batch: ProducerBatch) -> None:
        """Called when a batch is closed."""

    def on_compressed(self, batch: ProducerBatch) -> None:
        """Called after the codec thread has processed a batch."""

    def on_partition_assigned(self, batch: ProducerBatch) -> None:
        """Called when an unassigned batch is assigned a partition."""

    def on_producer_id_received(self, identity: ProducerIdentity) -> None:
        """Called after an InitProducerId response."""

    def on_sequence_assigned(self, batch: ProducerBatch) -> None:
        """Called when a batch is assigned a sequence."""

    def on_renumbered(self, topic_partition: TopicPartition, sequence: int) -> None:
        """Called when the batches of a partition get new sequences, starting at `sequence`."""

    def on_epoch_bumped(self, topic_partition: TopicPartition, identity: ProducerIdentity) -> None:
        """Called when a partition restarts at sequence 0 in a new epoch."""

    def on_request_sent(self, batches: Sequence[ProducerBatch], node: Node) -> None:
        """Called when a Produce request with these batches is sent."""

    def on_sent(self, batch: ProducerBatch, node: Node, correlation_id: int, now: float) -> None:
        """Called when a batch is sent; `correlation_id` is 0 if the connection was lost."""

    def on_produce_response(self, completion: Completion) -> None:
        """Called after a Produce response, before the events of its batches."""

    def on_batch_response(
        self, batch: ProducerBatch, completion: Completion, response: PartitionResponse, action: str
    ) -> None:
        """Called after the response to a batch, or its loss; `action` is the resulting action."""

    def on_throttled(self, pause_ms: int) -> None:
        """Called when a response contains a throttle time."""

    def on_acknowledged(
        self, batch: ProducerBatch, status: DeliveryStatus, response: PartitionResponse | None
    ) -> None:
        """Called when a batch is complete. `response` is None with acks=0 and in a dry run."""

    def on_retried(self, batch: ProducerBatch, error: str) -> None:
        """Called when a batch will be sent again after this error."""

    def on_rejected(self, error: str) -> None:
        """Called when a rejected batch is replaced by other batches or by its remaining records."""

    def on_replaced(
        self, batch: ProducerBatch, pieces: Sequence[ProducerBatch], *, split_size: int | None
    ) -> None:
        """Called when a batch is replaced by `pieces`: a split, or a corrected batch.

        `split_size` is the maximum size of the pieces before compression in bytes, or None for a
        corrected batch.
        """

    def on_failed(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Called when a batch will never be acknowledged."""


class BatchListeners(BatchListener):
    """Notifies several listeners in order; calls a method that only one implements directly."""

    def __init__(self, listeners: Sequence[BatchListener] = ()) -> None:
        for name, default in vars(BatchListener).items():
            if name.startswith("_"):
                continue
            methods = [
                getattr(listener, name)
                for listener in listeners
                if getattr(type(listener), name) is not default
            ]
            if methods:
                setattr(self, name, methods[0] if len(methods) == 1 else _call_all(methods))


def _call_all(methods: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def notify(*args: Any, **kwargs: Any) -> None:
        for method in methods:
            method(*args, **kwargs)

    return notify
