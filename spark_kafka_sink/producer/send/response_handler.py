"""Carry out the decision of `error_policy.decide` for each answered or lost batch.

Sender thread only. Source: ``Sender.handleProduceResponse``, ``Sender.completeBatch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.client.backoff import full_jitter
from spark_kafka_sink.client.client import half
from spark_kafka_sink.client.cluster_snapshot import NO_LEADER, Node
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.producer.buffer.breakers import BatchOutcome
from spark_kafka_sink.producer.send.batch_completion import status_of
from spark_kafka_sink.producer.send.batch_failure import batch_error
from spark_kafka_sink.producer.send.batch_split import Fault, RecordErrorHandler, Remedy, split
from spark_kafka_sink.producer.send.error_policy import Action, Decision, Facts, decide, is_unclear
from spark_kafka_sink.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.protocol.produce import TOPIC_IDS, PartitionResponse
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.common.errors import ProtocolError
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.send.batch_completion import BatchCompletion, DeliveryTimeout
    from spark_kafka_sink.producer.send.partition_state import (
        DrainedBatch,
        PartitionState,
        PartitionStates,
    )
    from spark_kafka_sink.protocol.produce import ProduceResponse, TopicKey
    from spark_kafka_sink.records.decoder import Record

_LOST = PartitionResponse(code=ClientErrorCode.disconnected)
_DENIED = PartitionResponse(code=ErrorCode.topic_authorization_failed)
_UNSENT = PartitionResponse(code=ClientErrorCode.not_sent)
_MISSING = PartitionResponse(
    code=ErrorCode.unknown_server_error, message="the response does not contain the partition"
)
_OUTCOMES = {
    Action.COMPLETE: BatchOutcome.DELIVERED,
    Action.RETRY: BatchOutcome.RETRIED,
    Action.REFRESH_AND_RETRY: BatchOutcome.RETRIED,
    Action.BUMP_AND_RETRY: BatchOutcome.RETRIED,
    Action.FAIL: BatchOutcome.FAILED,
    Action.FATAL: BatchOutcome.FAILED,
}
_COMPLETED = Decision(Action.COMPLETE, DeliveryStatus.PERSISTED)
"""The decision for successful batches, for which `decide` is not called."""
_CLIENT_THROTTLES = 6
"""First Produce version for which the client must pause; with older versions, the broker delays its
response (KIP-219).
"""


class ResponseHandler:
    """Completes batches, returns them to their partition's retry queue, or splits them."""

    def __init__(
        self,
        session: SessionContext,
        accumulator: Accumulator,
        partitions: PartitionStates,
        timeout: DeliveryTimeout,
        completion: BatchCompletion,
    ) -> None:
        self._session = session
        self._accumulator = accumulator
        self._partitions = partitions
        self._timeout = timeout
        self._completion = completion
        self._client = session.client
        self._config = session.config
        self._report = session.report
        self._events = session.events
        self._bad_rows = session.bad_rows
        self._breakers = session.breakers
        self._record_errors = RecordErrorHandler(session)

    def handle_response(
        self, completion: Completion, drained: list[DrainedBatch], now: float
    ) -> None:
        """Handle the response to a Produce request, or a lost response."""
        response: ProduceResponse | None = completion.response
        partition_responses: dict[tuple[TopicKey, int], PartitionResponse] = {}
        default = _LOST if completion.written else _UNSENT
        if response is not None:
            self._store_nodes(response)
            partition_responses, default = response.partitions, _MISSING
        else:
            self._client.request_size_limit.lost(sum(batch.size for _, batch in drained), now)
        has_ids = completion.request.version >= TOPIC_IDS
        for state, batch in drained:
            if state.contains(batch):  # otherwise, the batch has expired
                # Use the topic id that was sent: the metadata might no longer contain it.
                key = batch.topic_id if has_ids and batch.topic_id else batch.partition.topic
                partition_response = partition_responses.get(
                    (key, batch.partition.partition), default
                )
                self._apply(state, batch, partition_response, completion, now)
            if state.can_renumber:
                self._completion.renumber(state)
        if response is not None:
            self._report.request_latency(completion.latency)
            self._report.meters.brokers.of(completion.node).throttle.add(response.throttle_ms)

    def handle_written(self, drained: list[DrainedBatch]) -> None:
        """Complete the batches of a request with acks=0, which has no response."""
        for state, batch in drained:
            if state.contains(batch):
                self._completion.complete_unacknowledged(state, batch)

    def handle_unsendable(self, drained: list[DrainedBatch], error: ProtocolError) -> None:
        """Fail batches that cannot be sent in any Produce version that the broker supports."""
        name = error.error or error_name(ErrorCode.unsupported_version)
        for state, batch in drained:
            state.remove(batch)
            self._completion.fail(batch, status_of(batch), name)
        self._completion.fail_session(DeliveryError(error.message, error=name, hint=error.hint))

    def _apply(
        self,
        state: PartitionState,
        batch: ProducerBatch,
        response: PartitionResponse,
        completion: Completion,
        now: float,
    ) -> None:
        decision = _COMPLETED
        if response.code != ErrorCode.none:
            decision = decide(response.code, self._facts(state, batch, now))
            if is_unclear(response.code):
                batch.ambiguous = True
        self._log(batch, response, completion, decision.action)
        match decision.action:
            case Action.COMPLETE:
                self._completion.acknowledge(state, batch, response, now)
            case Action.RETRY | Action.REFRESH_AND_RETRY | Action.BUMP_AND_RETRY:
                self._retry(state, batch, response, decision, now)
            case Action.SPLIT:
                self._report.refused(error_name(response.code))
                limits, topic = self._client.batch_size_limits, batch.partition.topic
                self._split(state, batch, limits.refused(topic, batch.raw_size, now))
            case Action.FAIL | Action.FATAL:
                self._fail_or_remedy(state, batch, response, decision)
        if outcome := _OUTCOMES.get(decision.action):
            self._record_outcome(batch, outcome, completion, response, now)

    def _facts(self, state: PartitionState, batch: ProducerBatch, now: float) -> Facts:
        return Facts(
            idempotent=self._config.enable_idempotence,
            head=state.is_head(batch),
            records=batch.records,
            ambiguous=batch.ambiguous,
            expired=self._timeout.is_expired(batch, now),
            attempts_left=batch.attempts <= self._config.retries,
            gapless=self._config.enable_gapless_guarantee,
            transactional=self._session.transactions is not None,
        )

    def _log(
        self,
        batch: ProducerBatch,
        response: PartitionResponse,
        completion: Completion,
        action: Action,
    ) -> None:
        """Add the response to the report and to the events."""
        if response.code and batch.sequence >= 0:
            self._report.set_failed_sequence(*batch.partition, batch.next_sequence)
        error = error_name(response.code)
        self._events.answered(batch, completion, error, action.name, response.base_offset)

    def _record_outcome(
        self,
        batch: ProducerBatch,
        outcome: BatchOutcome,
        completion: Completion,
        response: PartitionResponse,
        now: float,
    ) -> None:
        """Record the outcome in the circuit breakers; fail the session if the job breaker opens."""
        fault = Fault.of(response) if outcome is BatchOutcome.FAILED else Fault.OTHER
        if fault is Fault.RECORDS:
            return
        node_id = None if fault is Fault.TOPIC else completion.node.node_id
        error = error_name(response.code)
        if reason := self._breakers.record(batch.partition, node_id, outcome, error, now):
            self._completion.fail_session(reason)

    # The methods below retry batches.

    def _retry(
        self,
        state: PartitionState,
        batch: ProducerBatch,
        response: PartitionResponse,
        decision: Decision,
        now: float,
    ) -> None:
        config = self._config
        at = now + full_jitter(
            batch.attempts - 1,
            config.retry_backoff_ms,
            config.retry_backoff_max_ms,
            self._client.random,
        )
        if decision.action is Action.REFRESH_AND_RETRY:
            metadata, partition = self._client.metadata, batch.partition
            metadata.learn_leader(partition, response.leader, response.leader_epoch)  # KIP-951
            if metadata.cluster.leader(*partition) in {NO_LEADER, state.leader}:
                metadata.refresh()
            else:
                at = now
        state.retry(batch, at, in_new_epoch=decision.action is Action.BUMP_AND_RETRY)
        batch.timed_from = self._timeout.start_of(batch)
        batch.retried, batch.refused = True, max(response.code, 0) or batch.refused
        self._report.retried(error_name(response.code))
        self._report.meters.retried(batch.partition.topic, batch.records)

    def _store_nodes(self, response: ProduceResponse) -> None:
        if response.nodes:
            nodes = {node_id: Node(node_id, host, port) for node_id, host, port in response.nodes}
            self._client.metadata.learn_nodes(nodes)

    def apply_throttling(self, completion: Completion, now: float) -> None:
        """Send nothing to the broker until the throttle time in its response has passed."""
        pause_ms = completion.throttle_ms
        if not pause_ms:
            return
        self._report.throttled(pause_ms)
        self._breakers.throttled(now)
        request, node_id, seconds = completion.request, completion.node.node_id, pause_ms / 1000
        by_produce = request.api is ApiKey.PRODUCE
        if not by_produce or request.version >= _CLIENT_THROTTLES:
            self._timeout.paused(node_id, now, seconds, by_produce=by_produce)
            self._client.network.throttle(node_id, seconds, now)
            self._accumulator.state.throttled(pause_ms)

    # The methods below handle topics that are rejected while batches wait for them.

    def reject_waiting(
        self, topics: frozenset[str], error: Callable[[str], DeliveryError] | None = None
    ) -> None:
        """Treat waiting batches as rejected by their leaders if the metadata rejects their topics.

        Batches in flight wait for their responses; batches being compressed wait for the next
        metadata. `error` creates the error for a topic that was rejected for a different reason.
        """
        error = error or self._session.acls.unauthorized_topic

        def is_refused(batch: ProducerBatch) -> bool:
            return batch.partition.topic in topics and batch.ready

        waiting = self._partitions.take_retries(is_refused)
        for batch in waiting + self._accumulator.take_while(is_refused):
            if self._record_errors.remedy(batch, _DENIED) is Remedy.SET_ASIDE:
                self._make_letters(batch, _DENIED)
                continue
            self._completion.fail(batch, status_of(batch), error_name(_DENIED.code))
            self._completion.fail_session(error(batch.partition.topic))

    def _make_letters(self, batch: ProducerBatch, response: PartitionResponse) -> None:
        """Convert all records of a batch to dead letters; the batch must not be in a queue."""
        _, refused = self._record_errors.divide(batch, response)
        if batch.sequence >= 0:
            self._partitions.of(batch.partition).leave_gap(batch)
        self._add_letters(batch, refused, response)
        self._accumulator.replace(batch, [])

    # The methods below handle batches that are too large or contain rejected records.

    def _fail_or_remedy(
        self,
        state: PartitionState,
        batch: ProducerBatch,
        response: PartitionResponse,
        decision: Decision,
    ) -> None:
        """If errors are tolerated, separate the rejected records; otherwise fail the batch."""
        remedy: Remedy | ProducerBatch = Remedy.NONE
        if decision.action is not Action.FATAL:
            remedy = self._record_errors.remedy(batch, response)
        if remedy is not Remedy.NONE:
            self._report.refused(error_name(response.code))
        match remedy:
            case Remedy.SET_ASIDE:
                self._set_aside(state, batch, response)
            case Remedy.HALVE:
                self._split(state, batch, half(batch.raw_size))
            case Remedy.NONE:
                self._fail(state, batch, response, decision.status)
            case replacement:
                self._replace(state, batch, [replacement])

    def _fail(
        self,
        state: PartitionState,
        batch: ProducerBatch,
        response: PartitionResponse,
        status: DeliveryStatus,
    ) -> None:
        error = batch_error(batch, response, self._session.acls)
        state.remove(batch)
        self._completion.fail(batch, status, error_name(response.code))
        self._completion.fail_session(error)

    def _set_aside(
        self, state: PartitionState, batch: ProducerBatch, response: PartitionResponse
    ) -> None:
        """Convert the rejected records to dead letters, and retry the other records.

        Some of the batch's sequences stay unused, so later batches need new sequences.
        """
        rest, refused = self._record_errors.divide(batch, response)
        state.replace(batch, rest)
        state.leave_gap(batch)
        self._add_letters(batch, refused, response)
        self._accumulator.replace(batch, rest)

    def _add_letters(
        self, batch: ProducerBatch, refused: list[Record], response: PartitionResponse
    ) -> None:
        """Queue dead letters for rejected records; fail the session if too many rows are bad."""
        for letter in self._record_errors.letters(batch, refused, response):
            self._accumulator.add_closed(letter)
        try:
            self._bad_rows.check_ratio()
        except DeliveryError as error:
            self._completion.fail_session(error)

    def _split(self, state: PartitionState, batch: ProducerBatch, size: int) -> None:
        pieces = split(batch, size, self._config.compression_level)
        self._report.split()
        self._replace(state, batch, pieces)

    def _replace(
        self, state: PartitionState, batch: ProducerBatch, pieces: list[ProducerBatch]
    ) -> None:
        self._events.split(batch, pieces)
        state.replace(batch, pieces)
        self._accumulator.replace(batch, pieces)
