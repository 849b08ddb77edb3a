"""Carrying out what `outcomes.decide` decides about each batch that was answered, lost or late.

Sender thread only. The first failure for good ends the session: nothing new is sent, what is
under way is waited for, and the error then says of every record what became of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.backoff import full_jitter
from spark_kafka_sink.client.batch_size_limits import half
from spark_kafka_sink.client.cluster import NO_LEADER, Node
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.producer.buffer.circuit_breaker import BatchOutcome
from spark_kafka_sink.producer.send.batch_failure import batch_error, timeout_error, vanished_error
from spark_kafka_sink.producer.send.batch_result import batch_done
from spark_kafka_sink.producer.send.error_policy import (
    Action,
    Decision,
    Facts,
    decide,
    is_unclear,
)
from spark_kafka_sink.producer.send.produce import PartitionAnswer, Pick, read_answers
from spark_kafka_sink.producer.send.record_errors import Fault, RecordErrorHandler, Remedy
from spark_kafka_sink.producer.send.splitter import split
from spark_kafka_sink.protocol.error_codes import ClientErrorCode, ErrorCode, error_name

if TYPE_CHECKING:
    from spark_kafka_sink.client.network import Completion
    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.common.errors import ProtocolError
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches

_LOST = PartitionAnswer(code=ClientErrorCode.disconnected)
_UNSENT = PartitionAnswer(code=ClientErrorCode.not_sent)
_MISSING = PartitionAnswer(
    code=ErrorCode.unknown_server_error, message="the response does not mention the partition"
)
_OUTCOMES = {
    Action.COMPLETE: BatchOutcome.DELIVERED,
    Action.RETRY: BatchOutcome.RETRIED,
    Action.REFRESH_AND_RETRY: BatchOutcome.RETRIED,
    Action.BUMP_AND_RETRY: BatchOutcome.RETRIED,
    Action.FAIL: BatchOutcome.FAILED,
    Action.FATAL: BatchOutcome.FAILED,
}
_CLIENT_THROTTLES = 6
"""Version of Produce: before, the broker has waited itself when it answers (KIP-219)."""
_EXPIRED = "DELIVERY_TIMEOUT"
_ABANDONED = "SESSION_FAILED"
_VANISHED = error_name(ErrorCode.unknown_topic_or_partition)


class ResponseHandler:
    """Settles batches, or sends them back to their lanes."""

    def __init__(
        self,
        context: SessionContext,
        accumulator: Accumulator,
        lanes: dict[TopicPartition, InFlightBatches],
    ) -> None:
        self.failure: DeliveryError | None = None
        """The first failure for good; its statuses are filled in by `finish_failure`."""
        self._client = context.client
        self._config = context.config
        self._accumulator = accumulator
        self._report = context.report
        self._lanes = lanes
        self._identity = context.producer_state
        self._trace = context.events
        self._refusals = RecordErrorHandler(context)
        self._context = context

    def take(self, completion: Completion, picks: list[Pick], now: float) -> None:
        """Act on the answer to a Produce request, or on its loss."""
        response = completion.response
        answers: dict[tuple[str, int], PartitionAnswer] = {}
        if response is not None:
            self._report.request_latency(completion.latency)
            self._obey_throttling(completion, now)
            self._learn_nodes(response)
            answers = read_answers(response, picks)
        lost = _LOST if completion.written else _UNSENT
        default = lost if response is None else _MISSING
        for lane, batch in picks:
            if batch in lane.in_flight:
                answer = answers.get(batch.partition, default)
                self._act(lane, batch, answer, completion, now)
            self.renumber(lane)

    def unsendable(self, picks: list[Pick], error: ProtocolError) -> None:
        """The broker speaks no version of Produce that these batches could be sent in."""
        name = error.error or error_name(ErrorCode.unsupported_version)
        for lane, batch in picks:
            lane.settled(batch)
            self._fail_batch(batch, _status(batch), name)
        self.fail(DeliveryError(error.message, error=name, hint=error.hint))

    def written(self, picks: list[Pick]) -> None:
        """acks=0: the batches are on the wire, and that is all that will be known."""
        for lane, batch in picks:
            if batch in lane.in_flight:
                lane.settled(batch)
                self._report.sent(batch_done(batch))
                self._accumulator.complete(batch)

    def expire(self, now: float) -> None:
        """Fail what delivery.timeout.ms has overtaken, wherever it is."""
        born_before = now - self._config.delivery_timeout_ms / 1000
        reasons = self._client.network.failures
        for lane in self._lanes.values():
            late = [batch for batch in lane.in_flight if batch.created <= born_before]
            for batch in late:
                batch.ambiguous = True
                lane.settled(batch)
            again = [batch for batch in lane.again if batch.created <= born_before]
            for batch in again:
                lane.again.remove(batch)
            for batch in again + late:
                self._fail_batch(batch, _status(batch), _EXPIRED)
                self.fail(timeout_error(batch, self._config.delivery_timeout_ms, reasons))
        for batch in self._accumulator.take_while(lambda batch: batch.created <= born_before):
            self._fail_batch(batch, DeliveryStatus.NOT_PERSISTED, _EXPIRED)
            self.fail(timeout_error(batch, self._config.delivery_timeout_ms, reasons))

    def give_up_vanished(self, now: float) -> None:
        """Fail what waits for partitions that a topic has no more since it was made anew."""
        vanished = self._client.metadata.removed_partitions
        if not vanished:
            return
        lost = [
            batch
            for place, lane in self._lanes.items()
            if lane.again and vanished.remaining(*place, now)
            for batch in lane.again
        ]
        for batch in lost:
            self._lanes[batch.partition].again.remove(batch)
        lost += self._accumulator.take_while(
            lambda batch: vanished.remaining(*batch.partition, now) is not None
        )
        for batch in lost:
            self._fail_batch(batch, _status(batch), _VANISHED)
            self.fail(vanished_error(batch, vanished.remaining(*batch.partition, now) or 0))

    def renumber(self, lane: InFlightBatches) -> None:
        """Give a partition the new epoch that it needs, once nothing of it is under way.

        A batch that may be in the log can't be sent again under a new epoch.
        """
        if not lane.must_start_over:
            return
        lane.renumber = lane.recreated = lane.proven = False
        self._identity.bump(lane.partition)
        self._trace.renumbered(lane.partition, self._identity)
        for batch in list(lane.again):
            if batch.ambiguous:
                lane.again.remove(batch)
                self._fail_batch(
                    batch,
                    DeliveryStatus.POSSIBLY_PERSISTED,
                    error_name(ErrorCode.unknown_producer_id),
                )
                self.fail(batch_error(batch, PartitionAnswer(code=ErrorCode.unknown_producer_id)))
            else:
                batch.unnumber()

    def fail(self, error: DeliveryError) -> None:
        """Remember the first failure for good."""
        self._accumulator.state.mark_failed()
        self.failure = self.failure or error

    def finish_failure(self) -> None:
        """Once nothing is under way after a failure, settle the rest and tell the writer."""
        if self.failure is None or self._accumulator.state.error is not None:
            return
        if any(lane.in_flight for lane in self._lanes.values()):
            return
        for lane in self._lanes.values():
            for batch in lane.again:
                self._fail_batch(batch, _status(batch), _ABANDONED)
            lane.again.clear()
        with self._accumulator.lock:  # the writer must not add a batch between these two
            for batch in self._accumulator.take_all():
                self._fail_batch(batch, DeliveryStatus.NOT_PERSISTED, _ABANDONED)
            self.failure.statuses = self._report.failures()
            self._accumulator.state.fail(self.failure)

    def abandon(self, error: DeliveryError) -> None:
        """No answer will be taken any more: what is under way may be in the log or not."""
        self.fail(error)
        for lane in self._lanes.values():
            for batch in list(lane.in_flight):
                lane.settled(batch)
                self._fail_batch(batch, DeliveryStatus.POSSIBLY_PERSISTED, _ABANDONED)
        self.finish_failure()

    def _act(
        self,
        lane: InFlightBatches,
        batch: ProducerBatch,
        answer: PartitionAnswer,
        completion: Completion,
        now: float,
    ) -> None:
        decision = decide(answer.code, self._facts(lane, batch, now))
        self._note(batch, answer, completion, decision.action)
        if is_unclear(answer.code):
            lane.doubt(batch)
        match decision.action:
            case Action.COMPLETE:
                lane.settled(batch)
                self._report.acknowledged(batch_done(batch, answer), answer.base_offset)
                self._accumulator.complete(batch)
            case Action.RETRY | Action.REFRESH_AND_RETRY | Action.BUMP_AND_RETRY:
                self._retry(lane, batch, answer, decision, now)
            case Action.SPLIT:
                self._report.refused(error_name(answer.code))
                ceilings, topic = self._client.batch_size_limits, batch.partition.topic
                self._split(lane, batch, ceilings.refused(topic, batch.raw_size, now))
            case Action.FAIL | Action.FATAL:
                self._fail_or_refuse(lane, batch, answer, decision)
        if outcome := _OUTCOMES.get(decision.action):
            self._watch(batch, outcome, completion, answer, now)

    def _watch(
        self,
        batch: ProducerBatch,
        outcome: BatchOutcome,
        completion: Completion,
        answer: PartitionAnswer,
        now: float,
    ) -> None:
        """Tell the circuit breakers of what is to blame, and stop if the job's has opened."""
        fault = Fault.of(answer) if outcome is BatchOutcome.FAILED else Fault.OTHER
        if fault is Fault.RECORDS:
            return
        node_id = None if fault is Fault.TOPIC else completion.node.node_id
        error = error_name(answer.code)
        breakers = self._context.breakers
        if reason := breakers.record(batch.partition, node_id, outcome, error, now):
            self.fail(reason)

    def _fail_or_refuse(
        self,
        lane: InFlightBatches,
        batch: ProducerBatch,
        answer: PartitionAnswer,
        decision: Decision,
    ) -> None:
        """Set the records aside that the broker refused, where that is asked for; else fail."""
        remedy = self._refusals.remedy(batch, answer)
        if decision.action is Action.FATAL:
            remedy = Remedy.NONE
        if remedy is not Remedy.NONE:
            self._report.refused(error_name(answer.code))
        if remedy is Remedy.SET_ASIDE:
            self._refuse(lane, batch, answer)
            return
        if remedy is Remedy.HALVE:
            self._split(lane, batch, half(batch.raw_size))
            return
        if remedy is Remedy.SHRINK and (piece := self._refusals.shrunk(batch)):
            self._replace(lane, batch, [piece])
            return
        if remedy is Remedy.RESTAMP and (piece := self._refusals.restamped(batch, answer)):
            self._replace(lane, batch, [piece])
            return
        error = batch_error(batch, answer)
        lane.settled(batch)
        self._fail_batch(batch, decision.status, error_name(answer.code))
        self.fail(error)

    def _refuse(self, lane: InFlightBatches, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        """The refused records become dead letters, the others go again.

        The batch's sequences were never used up, so what follows it must be numbered anew.
        """
        rest, refused = self._refusals.divide(batch, answer)
        lane.split(batch, rest)
        lane.renumber = self._config.enable_idempotence
        for letter in self._refusals.letters(batch, refused, answer):
            self._accumulator.add_closed(letter)
        try:
            self._context.bad_rows.check_ratio()
        except DeliveryError as error:
            self.fail(error)
        self._accumulator.replace(batch, rest)

    def _note(
        self, batch: ProducerBatch, answer: PartitionAnswer, completion: Completion, action: Action
    ) -> None:
        """What was answered, for the report and for whoever follows the batch."""
        if answer.code and batch.sequence >= 0:
            self._report.erred(*batch.partition, batch.next_sequence)
        error = error_name(answer.code)
        self._trace.answered(batch, completion, error, action, answer.base_offset)

    def _facts(self, lane: InFlightBatches, batch: ProducerBatch, now: float) -> Facts:
        return Facts(
            idempotent=self._config.enable_idempotence,
            head=lane.is_head(batch),
            records=batch.records,
            ambiguous=batch.ambiguous,
            expired=now >= batch.created + self._config.delivery_timeout_ms / 1000,
            attempts_left=batch.attempts <= self._config.retries,
            gapless=self._config.enable_gapless_guarantee,
        )

    def _retry(
        self,
        lane: InFlightBatches,
        batch: ProducerBatch,
        answer: PartitionAnswer,
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
        if decision.action is Action.REFRESH_AND_RETRY and self._moved(lane, answer):
            at = now
        elif decision.action is Action.REFRESH_AND_RETRY:
            self._client.metadata.refresh()
        elif decision.action is Action.BUMP_AND_RETRY:
            lane.renumber = True
        lane.retry(batch, at)
        batch.refused = max(answer.code, 0) or batch.refused
        self._report.retried(error_name(answer.code))
        self._report.meters.retried(batch.partition.topic, batch.records)

    def _moved(self, lane: InFlightBatches, answer: PartitionAnswer) -> bool:
        """Use the leader that the response names (KIP-951); whether to go elsewhere now."""
        metadata, place = self._client.metadata, lane.partition
        metadata.cluster = metadata.cluster.with_leader(*place, answer.leader, answer.leader_epoch)
        return metadata.cluster.leader(*place) not in {NO_LEADER, lane.leader}

    def _learn_nodes(self, response: Any) -> None:
        endpoints = getattr(response, "node_endpoints", ())
        if endpoints:
            nodes = {int(e.node_id): Node(int(e.node_id), e.host, int(e.port)) for e in endpoints}
            self._client.metadata.cluster = self._client.metadata.cluster.with_nodes(nodes)

    def _split(self, lane: InFlightBatches, batch: ProducerBatch, size: int) -> None:
        pieces = split(batch, size, self._config.compression_level)
        self._report.split()
        self._replace(lane, batch, pieces)

    def _replace(
        self, lane: InFlightBatches, batch: ProducerBatch, pieces: list[ProducerBatch]
    ) -> None:
        self._trace.split(batch, pieces)
        lane.split(batch, pieces)
        self._accumulator.replace(batch, pieces)

    def _obey_throttling(self, completion: Completion, now: float) -> None:
        pause = getattr(completion.response, "throttle_time", None)
        seconds = pause.total_seconds() if pause else 0.0
        meter = self._report.meters.brokers.of(completion.node)
        meter.throttle.add(int(seconds * 1000))
        if seconds:
            self._report.throttled(int(seconds * 1000))
            self._context.breakers.throttled(now)
            if completion.request.version >= _CLIENT_THROTTLES:
                self._client.network.throttle(completion.node.node_id, seconds, now)

    def _fail_batch(self, batch: ProducerBatch, status: DeliveryStatus, error: str) -> None:
        topic, partition = batch.partition
        self._accumulator.state.mark_failed()  # first: flush may wait for the batch
        self._report.failed(topic, partition, batch.records, status, error)
        self._trace.failed(batch, status, error)
        self._accumulator.complete(batch)


def _status(batch: ProducerBatch) -> DeliveryStatus:
    if batch.ambiguous:
        return DeliveryStatus.POSSIBLY_PERSISTED
    return DeliveryStatus.NOT_PERSISTED
