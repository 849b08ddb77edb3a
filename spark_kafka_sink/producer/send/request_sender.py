"""Connects to leaders, and sends drained batches in Produce requests; sender thread only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.producer.send.produce_request import produce_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.kafka.client.request import Request
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.send.delivery_timeout import DeliveryTimeout
    from spark_kafka_sink.producer.send.partition_state import PartitionState
    from spark_kafka_sink.producer.send.response_handler import ResponseHandler
    from spark_kafka_sink.producer.send.session_partitions import DrainedBatch
    from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager


@dataclass(kw_only=True, eq=False)
class RequestSender:
    """Sends the Produce requests of one session."""

    client: ProducerClient
    identity: ProducerIdentity
    delivery_timeout: DeliveryTimeout
    responses: ResponseHandler
    transaction_manager: TransactionManager | None
    listeners: BatchListener
    complete_unsent: Callable[[int, list[DrainedBatch], float], None] | None
    """Completes the batches of a request instead of sending it; None unless this is a dry run."""
    _connect_attempts: dict[int, int] = field(default_factory=dict, init=False)
    """The number of failed connection attempts to each broker since the last request to it, at the
    time of the latest metadata refresh that such a failure caused.
    """

    def connect(self, node_id: int, now: float) -> None:
        """Connect to a leader; refresh the metadata after each failed attempt.

        If a broker cannot be reached, the leader may have changed.
        """
        node = self.client.metadata.cluster.nodes[node_id]
        self.client.network.connect(node, now)
        attempts = self.client.network.failed_attempts(node)
        if attempts > self._connect_attempts.get(node_id, 0):
            self.client.metadata.request_refresh()
        self._connect_attempts[node_id] = attempts

    def send(self, node_id: int, batches: list[DrainedBatch], now: float) -> None:
        """Send batches to their leader; fail them if the broker supports no suitable request."""
        for state, batch in batches:
            self._begin_attempt(state, batch, now)
        self._connect_attempts.pop(node_id, None)
        versions = self.client.network.broker(node_id).versions
        try:
            request = produce_request(
                self.client.config,
                versions,
                self.client.metadata.cluster,
                batches,
                self.transaction_manager,
            )
        except ProtocolError as error:
            self.responses.handle_unsendable(batches, error)
            return
        if self.transaction_manager is not None:
            # The request may begin the transaction, and with it transaction.timeout.ms.
            self.transaction_manager.on_sending(
                [batch.topic_partition for _, batch in batches], now
            )
        if self.complete_unsent is None:
            self._transmit(node_id, request, batches, now)
        else:
            self.complete_unsent(node_id, batches, now)

    def _begin_attempt(self, state: PartitionState, batch: ProducerBatch, now: float) -> None:
        """Record that a batch is being sent, with a new sequence if it is sent first."""
        # The first attempt fixes the sequence; retries keep it (design.md: one-sequence).
        if self.client.config.enable_idempotence and state.assign_sequence(batch, self.identity):
            self.listeners.on_sequence_assigned(batch)
        # After the first attempt, other batches' acknowledgements do not extend
        # delivery.timeout.ms.
        topic = self.client.metadata.cluster.topics[batch.topic_partition.topic]
        batch.delivery.record_attempt(now, self.delivery_timeout.start_of(batch), topic.topic_id)

    def _transmit(
        self, node_id: int, request: Request, batches: list[DrainedBatch], now: float
    ) -> None:
        """Send the request and update the metrics."""
        correlation_id = self.client.network.send(node_id, request, now)
        node = self.client.metadata.cluster.nodes[node_id]
        if correlation_id:
            self.listeners.on_request_sent([batch for _, batch in batches], node)
        for _, batch in batches:
            self.listeners.on_sent(batch, node, correlation_id, now)
