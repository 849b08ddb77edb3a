"""Completes batches: acknowledged, failed, or expired by delivery.timeout.ms.

The first permanent failure ends the session: no new batch is sent, in-flight batches are awaited,
and then the error reports the delivery status of every record.

If a batch expires in flight, its records are POSSIBLY_PERSISTED, because the log may contain them.

Sender thread only. Source: ``ProducerBatch.complete``, ``Sender.failBatch``,
``Sender.getExpiredInflightBatches``, ``RecordAccumulator.expiredBatches`` (KIP-91).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.recreated_topics import recreated_topic_error
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
from spark_kafka_sink.producer.send import batch_failure
from spark_kafka_sink.producer.transactions.producer_transaction import mark_uncommittable

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from spark_kafka_sink.common.delivery_status import PartitionStatus
    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.common.recreated_topics import WrittenTopics
    from spark_kafka_sink.kafka.client.client import Client
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.producer_id import ProducerState
    from spark_kafka_sink.producer.send.delivery_timeout import DeliveryTimeout
    from spark_kafka_sink.producer.send.partition_state import PartitionState
    from spark_kafka_sink.producer.send.partition_states import PartitionStates
    from spark_kafka_sink.producer.send.record_errors import BatchResult
    from spark_kafka_sink.producer.transactions.manager import TransactionManager


_ABANDONED = "SESSION_FAILED"
_EXPIRED = "DELIVERY_TIMEOUT"
_REMOVED = error_name(ErrorCode.unknown_topic_or_partition)
_GAP = error_name(ErrorCode.out_of_order_sequence_number)
_UNKNOWN_PRODUCER = PartitionResponse(code=ErrorCode.unknown_producer_id)


@dataclass(kw_only=True, eq=False)
class BatchCompleter:
    """Completes batches: notifies the listeners, and frees the batches' memory."""

    client: Client
    producer_state: ProducerState
    accumulator: Accumulator
    listeners: BatchListener
    failures: Callable[[], tuple[PartitionStatus, ...]]
    """Returns the delivery statuses of the failed records."""
    written: WrittenTopics
    acls: AclAdvisor
    transaction_manager: TransactionManager | None
    partitions: PartitionStates
    delivery_timeout: DeliveryTimeout
    _failure: KafkaProdError | None = field(default=None, init=False)
    """The first permanent failure. `finish_failure` adds the delivery statuses."""

    @property
    def has_failed(self) -> bool:
        """True after the first permanent failure: no new batch may be sent."""
        return self._failure is not None

    def acknowledge(self, result: BatchResult, now: float) -> None:
        """Complete a batch that the broker has appended, in this attempt or an earlier attempt."""
        state, batch, response = result
        self.delivery_timeout.record_progress(state.leader)
        error = state.acknowledge(batch, response.base_offset, now)
        self._count_by_topic(batch)
        if error is not None:
            self.fail_session(error)
        if self.transaction_manager is not None:
            self.transaction_manager.on_acknowledged()
        self.listeners.on_acknowledged(batch, DeliveryStatus.PERSISTED, response)
        self.accumulator.complete(batch)

    def _count_by_topic(self, batch: ProducerBatch) -> None:
        topic, topic_id = batch.topic_partition.topic, batch.topic_id
        if topic_id is not None:
            self.written.add(topic, topic_id, batch.records, self.client.clock.wall_ms())
            self._check_recreated(topic, topic_id)

    def check_recreated_topics(self) -> None:
        """Fail the session if a topic was recreated, even if nothing is left to send.

        Otherwise a transaction could be committed although acknowledged records are lost.
        """
        for topic, topic_info in self.client.metadata.cluster.topics.items():
            if topic_info.topic_id:
                self._check_recreated(topic, topic_info.topic_id)

    def _check_recreated(self, topic: str, topic_id: uuid.UUID) -> None:
        if deleted := self.written.deleted_records(topic, topic_id):
            self.fail_session(recreated_topic_error(topic, deleted))

    def complete_unacknowledged(self, state: PartitionState, batch: ProducerBatch) -> None:
        """Complete a batch that was written to the socket with acks=0."""
        self.delivery_timeout.record_progress(state.leader)
        state.remove(batch)
        self.listeners.on_acknowledged(batch, DeliveryStatus.SENT, None)
        self.accumulator.complete(batch)

    def complete_dry_run(self, state: PartitionState, batch: ProducerBatch) -> None:
        """Complete a batch of a dry run without sending it."""
        state.remove(batch)
        self.listeners.on_acknowledged(batch, DeliveryStatus.WOULD_BE_WRITTEN, None)
        self.accumulator.complete(batch)

    def fail(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Fail a batch permanently; the batch must already be removed from all queues."""
        # Store the error first: flush may be waiting for this batch.
        self.accumulator.state.mark_failed()
        self.listeners.on_failed(batch, status, error)
        self.accumulator.complete(batch)

    def fail_removed_partitions(self, now: float) -> None:
        """Fail batches for partitions that no longer exist after their topic was recreated."""
        # Retries would fail forever, because the partition is gone (design.md: recreated-topic).
        removed = self.client.metadata.removed_partitions
        if not removed:
            return

        def is_removed(batch: ProducerBatch) -> bool:
            return removed.remaining(*batch.topic_partition, now) is not None

        waiting = self.partitions.take_retries(is_removed)
        for batch in waiting + self.accumulator.queues.take_first(is_removed):
            self.fail(batch, status_of(batch), _REMOVED)
            remaining = removed.remaining(*batch.topic_partition, now) or 0
            self.fail_session(batch_failure.removed_partition_error(batch, remaining))

    def fail_session(self, error: KafkaProdError) -> None:
        """Store the first permanent failure, which ends the session."""
        self.accumulator.state.mark_failed()
        if self._failure is not None:
            return
        self._failure = error
        if self.transaction_manager is not None:
            if self.transaction_manager.has_begun:
                mark_uncommittable(error, self.transaction_manager.settings)
            self.transaction_manager.fail()

    def renumber(self, state: PartitionState) -> None:
        """Assign new sequences to a partition's batches; fail batches for which this is unsafe."""
        renumbering = state.renumber(self.producer_state)
        if renumbering.is_past_gap:
            # The log may contain later batches of the epoch, and one-epoch forbids a new epoch.
            for batch in renumbering.lost:
                self.fail(batch, DeliveryStatus.POSSIBLY_PERSISTED, _GAP)
            self.fail_session(batch_failure.gap_error(state.topic_partition))
            return
        if renumbering.sequence is not None:
            self.listeners.on_renumbered(state.topic_partition, renumbering.sequence)
            return
        self.listeners.on_epoch_bumped(state.topic_partition, self.producer_state)
        # With new sequences, duplicates would not be detected (design.md: one-sequence).
        for batch in renumbering.lost:
            error = batch_failure.batch_error(batch, _UNKNOWN_PRODUCER, self.acls)
            code = error_name(_UNKNOWN_PRODUCER.code)
            self.fail(batch, DeliveryStatus.POSSIBLY_PERSISTED, code)
            self.fail_session(error)

    def expire(self, now: float) -> None:
        """Fail the expired batches: first retries, then batches in flight, then unsent batches."""

        def is_expired(batch: ProducerBatch) -> bool:
            return self.delivery_timeout.is_expired(batch, now)

        # The first failure becomes the session's error; a retry's latest response explains most.
        expired = self.partitions.take_retries(is_expired)
        # A late response finds no batch; these batches therefore become ambiguous.
        expired += self.partitions.take_in_flight(is_expired)
        expired += self.accumulator.queues.take_first(is_expired)
        if not expired:
            return
        failures = dict(self.client.network.failures.reasons)
        if self.transaction_manager and (problem := self.transaction_manager.problem):
            failures["the transaction's coordinator"] = problem
        throttled_ms = self.accumulator.state.throttled_ms
        timeout_ms = self.client.config.delivery_timeout_ms
        for batch in expired:
            self.fail(batch, status_of(batch), _EXPIRED)
            self.fail_session(
                batch_failure.timeout_error(batch, timeout_ms, failures, throttled_ms)
            )

    def finish_failure(self) -> None:
        """After a failure, fail the remaining batches and the session when nothing is in flight."""
        failure = self._failure
        if failure is None or self.accumulator.state.error is not None:
            return
        if any(state.is_busy for state in self.partitions):
            return

        def fail_undrained(batches: list[ProducerBatch]) -> None:
            for batch in batches:
                self.fail(batch, DeliveryStatus.NOT_PERSISTED, _ABANDONED)
            failure.statuses = self.failures()

        for batch in self.partitions.take_retries(lambda _: True):
            self.fail(batch, status_of(batch), _ABANDONED)
        self.accumulator.fail(failure, fail_undrained)

    def abandon(self, error: KafkaProdError) -> None:
        """Fail the session without waiting for responses: in-flight batches may be in the log."""
        self.fail_session(error)
        for batch in self.partitions.take_in_flight(lambda _: True):
            self.fail(batch, DeliveryStatus.POSSIBLY_PERSISTED, _ABANDONED)
        self.finish_failure()


def status_of(batch: ProducerBatch) -> DeliveryStatus:
    """Return the delivery status of a batch that will not be sent again."""
    if batch.is_ambiguous:
        return DeliveryStatus.POSSIBLY_PERSISTED
    return DeliveryStatus.NOT_PERSISTED
