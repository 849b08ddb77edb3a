"""Carry out the next step after the response to a batch: complete, retry, split or fail.

Sender thread only. Source: ``Sender.handleProduceResponse``, KIP-219, KIP-951.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.client.backoff import retry_delay
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER
from spark_kafka_sink.kafka.protocol.versions import PRODUCE_WITH_TOPIC_IDS, ApiKey
from spark_kafka_sink.producer.limits.breaker import BatchOutcome
from spark_kafka_sink.producer.send.batch_completer import status_of
from spark_kafka_sink.producer.send.batch_result import BatchResult, RejectionCause
from spark_kafka_sink.producer.send.error_policy import (
    BatchAction,
    BatchStep,
    RejectionFacts,
    may_be_persisted_after,
    next_step,
)

if TYPE_CHECKING:
    from spark_kafka_sink.common.errors import ProtocolError
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.kafka.protocol.produce import ProduceResponse, TopicKey
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.limits.circuit_breakers import CircuitBreakers
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
    from spark_kafka_sink.producer.send.delivery_timeout import DeliveryTimeout
    from spark_kafka_sink.producer.send.failure_handler import FailureHandler
    from spark_kafka_sink.producer.send.rejection_handler import RejectionHandler
    from spark_kafka_sink.producer.send.session_partitions import DrainedBatch


_LOST = PartitionResponse(code=ClientErrorCode.disconnected)
_UNSENT = PartitionResponse(code=ClientErrorCode.not_sent)
_MISSING = PartitionResponse(
    code=ErrorCode.unknown_server_error, message="the response does not contain the partition"
)
_OUTCOMES = {
    BatchAction.COMPLETE: BatchOutcome.DELIVERED,
    BatchAction.RETRY: BatchOutcome.RETRIED,
    BatchAction.REFRESH_AND_RETRY: BatchOutcome.RETRIED,
    BatchAction.BUMP_AND_RETRY: BatchOutcome.RETRIED,
    BatchAction.FAIL: BatchOutcome.FAILED,
    BatchAction.FATAL: BatchOutcome.FAILED,
}
_COMPLETED = BatchStep(BatchAction.COMPLETE, DeliveryStatus.PERSISTED)
"""The step for successful batches, for which `next_step` is not called."""
_CLIENT_THROTTLES_VERSION = 6
"""First Produce version for which the client must pause; with older versions, the broker delays its
response (KIP-219).
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResponseHandler:
    """Completes batches, returns them to their partition's retry queue, or rejects them."""

    client: ProducerClient
    identity: ProducerIdentity
    delivery_timeout: DeliveryTimeout
    completer: BatchCompleter
    failures: FailureHandler
    rejections: RejectionHandler
    breakers: CircuitBreakers
    listeners: BatchListener

    def handle_response(
        self, completion: Completion, batches: list[DrainedBatch], now: float
    ) -> None:
        """Apply the response to a Produce request, or its loss, to the batches."""
        response: ProduceResponse | None = completion.response
        partition_responses: dict[tuple[TopicKey, int], PartitionResponse] = {}
        default = _LOST if completion.is_written else _UNSENT
        if response is not None:
            self.client.metadata.learn_nodes(response.nodes)
            partition_responses, default = response.partitions, _MISSING
        else:
            self.client.request_size_limit.record_lost(sum(batch.size for _, batch in batches), now)
        has_ids = completion.request.version >= PRODUCE_WITH_TOPIC_IDS
        for state, batch in batches:
            if state.is_in_flight(batch):  # otherwise, the batch has expired
                # Use the topic id that was sent: the metadata might no longer contain it.
                topic, partition = batch.topic_partition
                key = (batch.delivery.topic_id if has_ids else None) or topic
                partition_response = partition_responses.get((key, partition), default)
                self._handle_batch(BatchResult(state, batch, partition_response), completion, now)
            if state.can_renumber:
                self.completer.renumber(state)
        if response is not None:
            self.listeners.on_produce_response(completion)

    def handle_metadata(self) -> None:
        """Reject batches of unauthorized topics; in a transaction, detect recreated topics."""
        cluster = self.client.metadata.cluster
        if cluster.unauthorized:
            self.rejections.reject_unauthorized(cluster.unauthorized)
        if self.failures.is_transactional:
            self.failures.check_recreated_topics(cluster)

    def handle_written(self, batches: list[DrainedBatch]) -> None:
        """Complete the batches of a request with acks=0, which has no response."""
        for state, batch in batches:
            if state.is_in_flight(batch):
                self.completer.complete_unacknowledged(state, batch)

    def handle_unsendable(self, batches: list[DrainedBatch], error: ProtocolError) -> None:
        """Fail batches that cannot be sent in any Produce version that the broker supports."""
        name = error.kafka_error or error_name(ErrorCode.unsupported_version)
        for state, batch in batches:
            state.remove(batch)
            self.completer.fail_batch(batch, status_of(batch), name)
        self.failures.record_failure(
            DeliveryError(error.message, kafka_error=name, hint=error.hint)
        )

    def apply_throttling(self, completion: Completion, now: float) -> None:
        """Send nothing to the broker until the throttle time in its response has passed."""
        pause_ms = completion.throttle_ms
        if not pause_ms:
            return
        self.listeners.on_throttled(pause_ms)
        self.breakers.on_throttled(now)
        request, node_id = completion.request, completion.node.node_id
        by_produce = request.api is ApiKey.PRODUCE
        if not by_produce or request.version >= _CLIENT_THROTTLES_VERSION:
            self.delivery_timeout.record_pause(node_id, now, pause_ms, by_produce=by_produce)
            self.client.network.throttle(node_id, pause_ms / 1000, now)

    def _handle_batch(self, result: BatchResult, completion: Completion, now: float) -> None:
        batch, code, step = result.batch, result.response.code, _COMPLETED
        batch.delivery.loss = completion.failure or ""
        if code != ErrorCode.none:
            step = next_step(code, self._facts(result, now))
            if may_be_persisted_after(code):
                batch.delivery.is_possibly_persisted = True
        self.listeners.on_batch_response(batch, completion, result.response, step.action.name)
        match step.action:
            case BatchAction.COMPLETE:
                self.completer.acknowledge(result, now)
            case BatchAction.RETRY | BatchAction.REFRESH_AND_RETRY | BatchAction.BUMP_AND_RETRY:
                self._retry(result, step.action, now)
            case BatchAction.SPLIT:
                limits, topic = self.client.batch_size_limits, batch.topic_partition.topic
                size = limits.record_rejected(topic, batch.raw_size, now)
                self.rejections.split(result, size)
            case BatchAction.FAIL | BatchAction.FATAL:
                is_fatal = step.action is BatchAction.FATAL
                if is_fatal or not self.rejections.repair(result):
                    self.rejections.fail_rejected(result, step.status)
        if outcome := _OUTCOMES.get(step.action):
            self._record_outcome(result, outcome, completion.node.node_id, now)

    def _facts(self, result: BatchResult, now: float) -> RejectionFacts:
        batch = result.batch
        return RejectionFacts(
            is_idempotent=self.client.config.enable_idempotence,
            is_head=result.state.is_head(batch),
            records=batch.records,
            is_possibly_persisted=batch.delivery.is_possibly_persisted,
            is_expired=self.delivery_timeout.is_expired(batch, now),
            has_attempts_left=batch.delivery.attempts <= self.client.config.retries,
            is_gapless=self.client.config.enable_gapless_guarantee,
            is_transactional=self.failures.is_transactional,
            has_client_bumped_epoch=self.identity.is_client_bumped(batch.producer_id, batch.epoch),
        )

    def _record_outcome(
        self, result: BatchResult, outcome: BatchOutcome, leader: int, now: float
    ) -> None:
        """Record the outcome in the circuit breakers; fail the session if the job breaker opens."""
        cause = result.cause if outcome is BatchOutcome.FAILED else RejectionCause.OTHER
        if cause is RejectionCause.RECORDS:
            return
        node_id = None if cause is RejectionCause.TOPIC else leader
        topic_partition = result.batch.topic_partition
        if error := self.breakers.record(topic_partition, node_id, outcome, result.error, now):
            self.failures.record_failure(error)

    def _retry(self, result: BatchResult, action: BatchAction, now: float) -> None:
        state, batch, response = result
        if response.code in error_codes.FENCED:
            self.identity.may_bump_epoch = False
        retries = batch.delivery.attempts - 1
        retry_at = now + retry_delay(self.client.config, retries, self.client.random)
        if action is BatchAction.REFRESH_AND_RETRY:
            metadata, topic_partition = self.client.metadata, batch.topic_partition
            # KIP-951
            metadata.learn_leader(topic_partition, response.leader, response.leader_epoch)
            if metadata.cluster.leader(*topic_partition) in {NO_LEADER, state.leader}:
                metadata.request_refresh()
            else:
                retry_at = now
        state.retry(batch, retry_at, in_new_epoch=action is BatchAction.BUMP_AND_RETRY)
        batch.delivery.record_retry(max(response.code, 0), self.delivery_timeout.start_of(batch))
        self.listeners.on_retried(batch, result.error)
