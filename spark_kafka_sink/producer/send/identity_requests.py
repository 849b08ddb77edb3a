"""The sender's requests for the producer id, and those of the transaction; sender thread only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.producer_id import ProducerIdRequester
from spark_kafka_sink.producer.transactions.transaction_errors import cancelled_error
from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.send.failure_handler import FailureHandler
    from spark_kafka_sink.producer.send.rejection_handler import RejectionHandler


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentityRequests:
    """Requests one session's producer id, or drives its transaction, and handles the responses."""

    requester: ProducerIdRequester | None
    """None if the producer is not idempotent."""
    transaction_manager: TransactionManager | None
    state: SessionState
    rejections: RejectionHandler
    failures: FailureHandler
    listeners: BatchListener

    @property
    def may_send(self) -> bool:
        """True if batches may be sent: the producer has an id, unless it needs none."""
        return self.requester is None or self.requester.has_producer_id

    def request_producer_id(self, now: float) -> None:
        """Request a producer id if it is missing; a transaction requests its own."""
        if self.requester is not None and self.transaction_manager is None:
            self.requester.maybe_send(now)

    def advance_transaction(self, now: float) -> None:
        """Send the next request to the coordinator; fail the session if the writer aborts."""
        transaction_manager = self.transaction_manager
        if transaction_manager is None:
            return
        if transaction_manager.must_abort and not self.failures.has_failed:
            self.failures.record_failure(
                cancelled_error(transaction_manager.settings.transactional_id)
            )
        try:
            has_records_to_send = self.state.incomplete_batches > 0
            transaction_manager.maybe_send(now, has_records_to_send=has_records_to_send)
        except KafkaProdError as error:
            self.failures.record_failure(error)

    def add_partitions(self, partitions: Collection[TopicPartition], now: float) -> None:
        """Add partitions to the transaction, if there are any."""
        if self.transaction_manager is not None and partitions:
            self.transaction_manager.partitions.request(partitions)
            self.advance_transaction(now)

    def complete(self, completion: Completion, now: float) -> None:
        """Handle the response to a request of this or an earlier session, or its loss."""
        match completion.request.context:
            case ProducerIdRequester() as requester:
                self._complete_producer_id(completion, requester, now)
            case TransactionManager() as transaction_manager:
                self._complete_transaction(completion, transaction_manager, now)
            case _:
                raise AssertionError(f"unexpected response to {completion.request.api.name}")

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until the next request may be due."""
        if self.transaction_manager is not None:
            return self.transaction_manager.seconds_until_due(now)
        return 1.0 if self.requester is None else self.requester.seconds_until_due(now)

    def _complete_producer_id(
        self, completion: Completion, requester: ProducerIdRequester, now: float
    ) -> None:
        try:
            # This includes requests of an earlier session whose identity this session uses.
            requester.handle_response(completion, now)
            self.listeners.on_producer_id_received(requester.identity)
        except KafkaProdError as error:
            if requester is self.requester:
                self.failures.record_failure(error)

    def _complete_transaction(
        self, completion: Completion, transaction_manager: TransactionManager, now: float
    ) -> None:
        if transaction_manager is not self.transaction_manager:
            return  # the request was sent for an earlier task, whose session has ended
        try:
            transaction_manager.handle_response(completion, now)
        except KafkaProdError as error:
            self.failures.record_failure(error)
        if completion.request.api is ApiKey.INIT_PRODUCER_ID:
            self.listeners.on_producer_id_received(transaction_manager.identity)
        if denied := transaction_manager.partitions.take_denied():
            self.rejections.reject_unwritable(denied)
