"""Handles the failure of a session, also if acknowledged records of a recreated topic are lost.

The first permanent failure ends the session: no new batch is sent, in-flight batches are awaited,
and then the error reports the delivery status of every record.

Sender thread only, except that the writer thread ends the session if the sender thread has died or
stalled (`Client.check_thread`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.recreated_topics import recreated_topic_error
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.transactions import NO_COORDINATOR_HINT
from spark_kafka_sink.producer.send.batch_failure import timeout_error

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.common.delivery_status import PartitionStatus
    from spark_kafka_sink.common.errors import DeliveryError, KafkaProdError
    from spark_kafka_sink.common.recreated_topics import WrittenTopics
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager

_NO_COORDINATOR = error_name(ErrorCode.coordinator_not_available)


@dataclass(kw_only=True, eq=False)
class FailureHandler:
    """Ends the session and its transaction with the first permanent failure."""

    state: SessionState
    """Receives the error that ends the session, and wakes the writer."""
    written: WrittenTopics
    """Receives the topics with acknowledged records."""
    transaction_manager: TransactionManager | None
    """The session's transaction; None if the session has none."""
    statuses: Callable[[], tuple[PartitionStatus, ...]]
    """Returns the delivery statuses of the failed records."""
    _failure: KafkaProdError | None = field(default=None, init=False)
    """The first permanent failure; `add_statuses` adds the delivery statuses."""

    @property
    def has_failed(self) -> bool:
        """True after the first permanent failure: no new batch may be sent."""
        return self._failure is not None

    @property
    def is_transactional(self) -> bool:
        """True if the session writes in a transaction."""
        return self.transaction_manager is not None

    def record_failure(self, error: KafkaProdError) -> None:
        """Store the first permanent failure, which ends the session."""
        self.state.expect_error()
        if self._failure is not None:
            return
        self._failure = error
        if self.transaction_manager is not None:
            self.transaction_manager.mark_failed(error)

    def expect_error(self) -> None:
        """Make flush wait for the session's error, because a batch has failed."""
        self.state.expect_error()

    @property
    def unreported_failure(self) -> KafkaProdError | None:
        """The failure, until the session ends with it; None if there is none."""
        return self._failure if self.state.error is None else None

    def add_statuses(self) -> None:
        """Add the delivery statuses of the failed records to the failure."""
        if self._failure is not None:
            self._failure.statuses = self.statuses()

    def crash(self, error: KafkaProdError) -> None:
        """End the session immediately, because the sender has crashed."""
        self.state.end(error)
        if self.transaction_manager is not None:
            self.transaction_manager.ended.set()

    def timeout_error(
        self, batch: ProducerBatch, timeout_ms: int, reasons: Mapping[str, str]
    ) -> DeliveryError:
        """Return the error for an expired batch, including what else delays the session.

        Args:
            batch: the batch.
            timeout_ms: delivery.timeout.ms.
            reasons: the reasons for connection failures, by address.
        """
        problem = "" if self.transaction_manager is None else self.transaction_manager.problem
        if problem:
            reasons = {**reasons, "the transaction's coordinator": problem}
        error = timeout_error(batch, timeout_ms, reasons, self.state.throttled_ms)
        if problem == _NO_COORDINATOR:
            error.hint = NO_COORDINATOR_HINT
        return error

    def record_acknowledged(self, batch: ProducerBatch, now_ms: int) -> None:
        """Count the records of an acknowledged batch by the id of its topic."""
        topic, topic_id = batch.topic_partition.topic, batch.delivery.topic_id
        if topic_id is not None:
            self.written.add(topic, topic_id, batch.records, now_ms)
            self._check_recreated(topic, topic_id)
        if self.transaction_manager is not None:
            self.transaction_manager.on_acknowledged()

    def check_recreated_topics(self, cluster: ClusterSnapshot) -> None:
        """Fail the session if a topic was recreated, even if nothing is left to send.

        Otherwise a transaction could be committed although acknowledged records are lost.
        """
        for topic, cluster_topic in cluster.topics.items():
            if cluster_topic.topic_id:
                self._check_recreated(topic, cluster_topic.topic_id)

    def _check_recreated(self, topic: str, topic_id: uuid.UUID) -> None:
        if deleted := self.written.deleted_records(topic, topic_id):
            self.record_failure(recreated_topic_error(topic, deleted))
