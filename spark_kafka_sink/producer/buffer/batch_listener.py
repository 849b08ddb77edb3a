"""The interface through which reports, metrics and debug events follow the batches of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.common.delivery_status import DeliveryStatus
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch


class BatchListener:
    """Is notified of the progress of batches; by default, it ignores everything.

    The writer thread calls `appended` with the session's lock held; the sender thread calls the
    other methods.
    """

    def appended(self, batch: ProducerBatch, records: int) -> None:
        """Handle records that were appended to an open batch."""

    def sent(self, batch: ProducerBatch, node: Node, correlation: int, now: float) -> None:
        """Handle a batch in a request to `node`; `correlation` is 0 if the connection was lost."""

    def acknowledged(
        self, batch: ProducerBatch, status: DeliveryStatus, response: PartitionResponse | None
    ) -> None:
        """Handle a successful batch; there is no response with acks=0 and in a dry run."""

    def retried(self, batch: ProducerBatch, error: str) -> None:
        """Handle a batch that will be sent again after this error."""

    def failed(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Handle a batch that will never be acknowledged."""


class BatchListeners(BatchListener):
    """Notifies several listeners, in order."""

    def __init__(self, listeners: Sequence[BatchListener] = ()) -> None:
        self._listeners = tuple(listeners)

    def appended(self, batch: ProducerBatch, records: int) -> None:
        """Notify all listeners."""
        for listener in self._listeners:
            listener.appended(batch, records)

    def sent(self, batch: ProducerBatch, node: Node, correlation: int, now: float) -> None:
        """Notify all listeners."""
        for listener in self._listeners:
            listener.sent(batch, node, correlation, now)

    def acknowledged(
        self, batch: ProducerBatch, status: DeliveryStatus, response: PartitionResponse | None
    ) -> None:
        """Notify all listeners."""
        for listener in self._listeners:
            listener.acknowledged(batch, status, response)

    def retried(self, batch: ProducerBatch, error: str) -> None:
        """Notify all listeners."""
        for listener in self._listeners:
            listener.retried(batch, error)

    def failed(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Notify all listeners."""
        for listener in self._listeners:
            listener.failed(batch, status, error)
