"""Completes batches: acknowledged, failed, or expired by delivery.timeout.ms.

If a batch expires in flight, its records are POSSIBLY_PERSISTED, because the log may contain them.

Sender thread only, except in `Sender.handle_crash`.

Source: ``ProducerBatch.complete``, ``Sender.failBatch``, ``Sender.getExpiredInflightBatches``,
``RecordAccumulator.expiredBatches`` (KIP-91).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.producer.send import batch_failure

if TYPE_CHECKING:
    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.send.batch_result import BatchResult
    from spark_kafka_sink.producer.send.delivery_timeout import DeliveryTimeout
    from spark_kafka_sink.producer.send.failure_handler import FailureHandler
    from spark_kafka_sink.producer.send.partition_state import PartitionState
    from spark_kafka_sink.producer.send.session_partitions import SessionPartitions


_ABANDONED = "SESSION_FAILED"
_EXPIRED = "DELIVERY_TIMEOUT"
_REMOVED = error_name(ErrorCode.unknown_topic_or_partition)
_GAP = error_name(ErrorCode.out_of_order_sequence_number)
_UNKNOWN_PRODUCER = error_name(ErrorCode.unknown_producer_id)


@dataclass(kw_only=True, eq=False)
class BatchCompleter:
    """Completes batches, or replaces them.

    It notifies the listeners, and frees the batches' memory.
    """

    client: ProducerClient
    accumulator: Accumulator
    partitions: SessionPartitions
    delivery_timeout: DeliveryTimeout
    identity: ProducerIdentity
    listeners: BatchListener
    failures: FailureHandler

    def acknowledge(self, result: BatchResult, now: float) -> None:
        """Complete a batch that the broker has appended, in this attempt or an earlier attempt."""
        state, batch, response = result
        self.delivery_timeout.record_acknowledgement(state.leader)
        error = state.acknowledge(batch, response.base_offset, now)
        self.failures.record_acknowledged(batch, self.client.clock.wall_ms())
        if error is not None:
            self.failures.record_failure(error)
        self.listeners.on_acknowledged(batch, DeliveryStatus.PERSISTED, response)
        self.accumulator.complete(batch)

    def complete_unacknowledged(self, state: PartitionState, batch: ProducerBatch) -> None:
        """Complete a batch that was written to the socket with acks=0."""
        self.delivery_timeout.record_acknowledgement(state.leader)
        state.remove(batch)
        self.listeners.on_acknowledged(batch, DeliveryStatus.SENT, None)
        self.accumulator.complete(batch)

    def complete_dry_run(self, state: PartitionState, batch: ProducerBatch) -> None:
        """Complete a batch of a dry run without sending it."""
        state.remove(batch)
        self.listeners.on_acknowledged(batch, DeliveryStatus.WOULD_BE_WRITTEN, None)
        self.accumulator.complete(batch)

    def fail_batch(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Fail a batch permanently; the batch must already be removed from all queues."""
        # Before the batch is complete: flush may be waiting for it, and must not return normally.
        self.failures.expect_error()
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

        for batch in self.partitions.take_waiting(is_removed):
            self.fail_batch(batch, status_of(batch), _REMOVED)
            remaining = removed.remaining(*batch.topic_partition, now) or 0
            self.failures.record_failure(batch_failure.removed_partition_error(batch, remaining))

    def replace(
        self, result: BatchResult, pieces: list[ProducerBatch], *, split_size: int | None = None
    ) -> None:
        """Retry a rejected batch as these pieces: a split to a size, or a corrected batch."""
        state, batch, _ = result
        self.listeners.on_rejected(result.error)
        self.listeners.on_replaced(batch, pieces, split_size=split_size)
        state.replace(batch, pieces)
        self.accumulator.replace(batch, pieces)

    def remove_rejected(
        self, result: BatchResult, remaining: list[ProducerBatch], dead_letters: list[ProducerBatch]
    ) -> None:
        """Retry the remaining records of a rejected batch, and queue its dead letters.

        Some of the batch's sequences stay unused, so later batches need new sequences.
        """
        state, batch, _ = result
        if state.is_in_flight(batch):  # otherwise, the batch is in no queue
            self.listeners.on_rejected(result.error)
            state.replace(batch, remaining)
        state.leave_gap(batch)
        for letter in dead_letters:
            self.accumulator.add_closed(letter)
        self.accumulator.replace(batch, remaining)

    def renumber(self, state: PartitionState) -> None:
        """Assign new sequences to a partition's batches; fail batches for which this is unsafe."""
        renumbering = state.renumber(self.identity)
        if renumbering.is_past_gap:
            # The log may contain later batches of the epoch, and one-epoch forbids a new epoch.
            for batch in renumbering.unsafe_batches:
                self.fail_batch(batch, DeliveryStatus.POSSIBLY_PERSISTED, _GAP)
            self.failures.record_failure(batch_failure.gap_error(state.topic_partition))
            return
        if renumbering.sequence is not None:
            self.listeners.on_renumbered(state.topic_partition, renumbering.sequence)
            return
        self.listeners.on_epoch_bumped(state.topic_partition, self.identity)
        # With new sequences, duplicates would not be detected (design.md: one-sequence).
        for batch in renumbering.unsafe_batches:
            error = batch_failure.unknown_producer_error(batch)
            self.fail_batch(batch, DeliveryStatus.POSSIBLY_PERSISTED, _UNKNOWN_PRODUCER)
            self.failures.record_failure(error)

    def expire(self, now: float) -> None:
        """Fail the expired batches: first retries, then batches in flight, then unsent batches."""

        def is_expired(batch: ProducerBatch) -> bool:
            return self.delivery_timeout.is_expired(batch, now)

        # The first failure becomes the session's error; a retry's latest response explains most.
        expired = self.partitions.abandon(is_expired)
        reasons = self.client.network.failures.reasons if expired else {}
        for batch in expired:
            self.fail_batch(batch, status_of(batch), _EXPIRED)
            timeout_ms = self.client.config.delivery_timeout_ms
            self.failures.record_failure(self.failures.timeout_error(batch, timeout_ms, reasons))

    def finish_failure(self) -> None:
        """After a failure, fail the remaining batches and the session when nothing is in flight."""
        failure = self.failures.unreported_failure
        if failure is None or any(state.is_busy for state in self.partitions):
            return

        def fail_undrained(batches: list[ProducerBatch]) -> None:
            for batch in batches:
                self.fail_batch(batch, DeliveryStatus.NOT_PERSISTED, _ABANDONED)
            self.failures.add_statuses()

        for batch in self.partitions.take_retries(lambda _: True):
            self.fail_batch(batch, status_of(batch), _ABANDONED)
        self.accumulator.end_session(failure, fail_undrained)

    def abandon(self, error: KafkaProdError) -> None:
        """Fail the session without waiting for responses: in-flight batches may be in the log."""
        self.failures.record_failure(error)
        for batch in self.partitions.abandon_in_flight(lambda _: True):
            self.fail_batch(batch, DeliveryStatus.POSSIBLY_PERSISTED, _ABANDONED)
        self.finish_failure()


def status_of(batch: ProducerBatch) -> DeliveryStatus:
    """Return the delivery status of a batch that will not be sent again."""
    if batch.delivery.is_possibly_persisted:
        return DeliveryStatus.POSSIBLY_PERSISTED
    return DeliveryStatus.NOT_PERSISTED
