"""Completes batches: acknowledged, failed, or expired by delivery.timeout.ms.

The first permanent failure ends the session: no new batch is sent, in-flight batches are awaited,
and then the error reports the delivery status of every record.

A batch expires wherever it waits. Its delivery.timeout.ms begins when it is created. Until the
batch is first sent, the timeout restarts whenever a broker that the batch waits for acknowledges
another batch, and at the end of each throttle pause of such a broker (KIP-219): the buffer may hold
more than a slow or throttled broker accepts within delivery.timeout.ms. No caller waits for a
single record of a task, and a broker that accepts nothing is still detected after
delivery.timeout.ms. Once the batch was sent, only throttle pauses restart the timeout, and no pause
after a broker has refused it or a response was lost, because a quota may throttle every other
request (see `SendContext.paused`). A batch in flight may be in the log, so its records are
POSSIBLY_PERSISTED.

Sender thread only. Source: ``ProducerBatch.complete``, ``Sender.failBatch``,
``Sender.getExpiredInflightBatches``, ``RecordAccumulator.expiredBatches`` (KIP-91).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.client.cluster import UNASSIGNED
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.producer.send.batch_failure import removed_partition_error, timeout_error
from spark_kafka_sink.producer.transactions.state import poison
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.report.builder import BatchDone
from spark_kafka_sink.report.written_topics import recreated_topic_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches
    from spark_kafka_sink.producer.send.send_context import SendContext
    from spark_kafka_sink.protocol.produce_response import PartitionResponse


_ABANDONED = "SESSION_FAILED"
_REMOVED = error_name(ErrorCode.unknown_topic_or_partition)


class BatchCompletion:
    """Completes batches: updates the report, the events and the accumulator, which frees them."""

    def __init__(self, context: SendContext) -> None:
        self.failure: KafkaProdError | None = None
        """The first permanent failure; `finish_failure` fills in its delivery statuses."""
        self._context = context
        self._accumulator = context.accumulator
        self._in_flight = context.in_flight
        self._made_progress = context.progress
        self._client = context.session.client
        self._events = context.session.events
        self._report = context.session.report
        self._transactions = context.session.transactions

    def acknowledge(
        self,
        batches: InFlightBatches,
        batch: ProducerBatch,
        response: PartitionResponse,
        now: float,
    ) -> None:
        """Complete a batch that the broker has appended, now or in an earlier attempt."""
        self._progress(batches)
        error = batches.acknowledged(batch, response.base_offset, now)
        self._count_by_topic(batch)
        if error is not None:
            self.fail_session(error)
        if self._transactions is not None:
            self._transactions.acknowledged()
        self._report.acknowledged(batch_done(batch, response), response.base_offset)
        self._accumulator.complete(batch)

    def _count_by_topic(self, batch: ProducerBatch) -> None:
        topic, session = batch.partition.topic, self._context.session
        if batch.topic_id is None:
            return
        session.written.add(topic, batch.topic_id, batch.records, session.clock.wall_ms())
        if deleted := session.written.deleted_records(topic, batch.topic_id):
            self.fail_session(recreated_topic_error(topic, deleted))

    def complete_unacknowledged(self, batches: InFlightBatches, batch: ProducerBatch) -> None:
        """Complete a batch that was written to the socket with acks=0."""
        self._progress(batches)
        batches.completed(batch)
        self._report.sent(batch_done(batch))
        self._accumulator.complete(batch)

    def _progress(self, batches: InFlightBatches) -> None:
        """Record that the partition's leader accepts batches."""
        self._made_progress[batches.leader] = self._client.clock.monotonic()

    def complete_dry_run(self, batches: InFlightBatches, batch: ProducerBatch) -> None:
        """Complete a batch of a dry run, which is not sent."""
        batches.completed(batch)
        self._report.would_be_written(batch_done(batch))
        self._accumulator.complete(batch)

    def fail(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        """Fail a batch permanently; it must already be removed from all queues."""
        self._accumulator.state.mark_failed()  # first: flush may wait for this batch
        self._report.failed(*batch.partition, batch.records, status, error)
        self._events.failed(batch, status, error)
        self._accumulator.complete(batch)

    def fail_removed_partitions(self, now: float) -> None:
        """Fail batches for partitions that no longer exist after their topic was recreated."""
        removed = self._client.metadata.removed_partitions
        if not removed:
            return

        def is_removed(batch: ProducerBatch) -> bool:
            return removed.remaining(*batch.partition, now) is not None

        waiting = self._context.take_retries(is_removed)
        for batch in waiting + self._accumulator.take_while(is_removed):
            self.fail(batch, status_of(batch), _REMOVED)
            remaining = removed.remaining(*batch.partition, now) or 0
            self.fail_session(removed_partition_error(batch, remaining))

    def fail_session(self, error: KafkaProdError) -> None:
        """Store the first permanent failure, which ends the session."""
        self._accumulator.state.mark_failed()
        if self.failure is not None:
            return
        self.failure = error
        if self._transactions is not None:
            if self._transactions.begun:
                poison(error, self._transactions.settings)
            self._transactions.fail()

    def finish_failure(self) -> None:
        """Fail the remaining batches and the session, once nothing is in flight after a failure."""
        if self.failure is None or self._accumulator.state.error is not None:
            return
        if any(batches.in_flight for batches in self._in_flight.values()):
            return
        for batch in self._context.take_retries(lambda _: True):
            self.fail(batch, status_of(batch), _ABANDONED)
        with self._accumulator.lock:  # the writer must not add a batch in between
            for batch in self._accumulator.take_all():
                self.fail(batch, DeliveryStatus.NOT_PERSISTED, _ABANDONED)
            self.failure.statuses = self._report.failures()
            self._accumulator.state.fail(self.failure)

    def abandon(self, error: KafkaProdError) -> None:
        """Fail the session without waiting for responses: in-flight batches may be in the log."""
        self.fail_session(error)
        for batches in self._in_flight.values():
            for batch in list(batches.in_flight):
                batches.completed(batch)
                self.fail(batch, DeliveryStatus.POSSIBLY_PERSISTED, _ABANDONED)
        self.finish_failure()


def status_of(batch: ProducerBatch) -> DeliveryStatus:
    """Return the delivery status of a batch that will not be sent again."""
    if batch.ambiguous:
        return DeliveryStatus.POSSIBLY_PERSISTED
    return DeliveryStatus.NOT_PERSISTED


def batch_done(batch: ProducerBatch, response: PartitionResponse | None = None) -> BatchDone:
    """Return the report entry of a batch that was acknowledged, or sent with acks=0."""
    topic, partition = batch.partition
    return BatchDone(
        topic=topic,
        partition=partition,
        records=batch.records,
        raw_bytes=batch.raw_size,
        wire_bytes=batch.size,
        next_sequence=batch.next_sequence if batch.sequence >= 0 else None,
        append_time=None if response is None else _append_time(batch, response),
    )


def _append_time(batch: ProducerBatch, response: PartitionResponse) -> int | None:
    """Return the broker's append time of the batch, if the response has one.

    For a batch that it had already, a broker returns the timestamp in the log, which is the
    producer's own if the topic uses CreateTime. Source: ``BatchMetadata.timestamp``.
    """
    repeated = batch.attempts > 1 and response.append_time == batch.max_timestamp
    return None if repeated else response.append_time


_EXPIRED = "DELIVERY_TIMEOUT"


def is_expired(context: SendContext, batch: ProducerBatch, now: float) -> bool:
    """Return True if delivery.timeout.ms has passed for a batch; `now` is monotonic time."""
    born_before = now - context.session.config.delivery_timeout_ms / 1000
    return batch.created <= born_before and timed_from(context, batch) <= born_before


def timed_from(context: SendContext, batch: ProducerBatch) -> float:
    """Return when delivery.timeout.ms of a batch began, in seconds of the monotonic clock."""
    times = [batch.created, batch.timed_from]
    for leader in _leaders(context, batch):
        if not batch.attempts:
            times.append(context.progress.get(leader, 0.0))
        if not batch.retried:
            times.append(context.paused_until(leader))
    return max(times)


def _leaders(context: SendContext, batch: ProducerBatch) -> Collection[int]:
    """Return the brokers that a batch waits for; all of the topic's if it is unassigned."""
    topic = context.metadata.cluster.topics.get(batch.partition.topic)
    if topic is None:
        return ()
    if batch.partition.partition == UNASSIGNED:
        return set(topic.leaders)
    return topic.leaders[batch.partition.partition : batch.partition.partition + 1]


def expire_batches(context: SendContext, completion: BatchCompletion, now: float) -> None:
    """Fail expired batches: retries, then batches in flight, then batches never sent.

    `now` in seconds of the monotonic clock.
    """

    def is_late(batch: ProducerBatch) -> bool:
        return is_expired(context, batch, now)

    late = context.take_retries(is_late)
    for batches in context.in_flight.values():
        for batch in [batch for batch in batches.in_flight if is_late(batch)]:
            batch.ambiguous = True
            batches.completed(batch)
            late.append(batch)
    late += context.accumulator.take_while(is_late)
    if not late:
        return
    failures = dict(context.session.client.network.failures.reasons)
    if (transactions := context.session.transactions) and (problem := transactions.problem):
        failures["the transaction's coordinator"] = problem
    throttled_ms = context.accumulator.state.throttled_ms
    timeout_ms = context.session.config.delivery_timeout_ms
    for batch in late:
        completion.fail(batch, status_of(batch), _EXPIRED)
        completion.fail_session(timeout_error(batch, timeout_ms, failures, throttled_ms))
