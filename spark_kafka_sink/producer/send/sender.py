"""The sender: drains batches into Produce requests and acts on the responses.

Each iteration closes batches, drains them, sends requests, polls and completes batches; only the
poll blocks. The sender runs in the client's thread, or in a test that advances the clock.

Source: Kafka's ``Sender.runOnce``; "Producer throughput improvement".
"""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError, KafkaProdError, ProtocolError, text_of
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.enums import Acks
from spark_kafka_sink.kafka.client.metadata import Metadata
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.producer_id import ProducerIdRequester
from spark_kafka_sink.producer.send.produce_request import produce_request
from spark_kafka_sink.producer.transactions.manager import TransactionManager
from spark_kafka_sink.producer.transactions.producer_transaction import cancelled_error

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
    from spark_kafka_sink.kafka.client.client import Client
    from spark_kafka_sink.kafka.client.request import Completion, Request
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
    from spark_kafka_sink.producer.send.drainer import Drainer, DrainResult
    from spark_kafka_sink.producer.send.librdkafka_statistics import Statistics
    from spark_kafka_sink.producer.send.partition_states import DrainedBatch, PartitionStates
    from spark_kafka_sink.producer.send.rejection_handler import RejectionHandler
    from spark_kafka_sink.producer.send.response_handler import ResponseHandler
    from spark_kafka_sink.producer.send.session_outcome import SessionOutcome


_LOG = logging.getLogger(__name__)
_MAX_POLL_S = 0.1
"""Maximum duration of a poll in seconds; expired batches are detected at most this late."""
_FAILED_WAIT_S = 0.02
"""Maximum duration of a poll in seconds while a failed session waits for in-flight batches."""


@dataclass(kw_only=True, eq=False)
class Sender:
    """One session's sender; only the thread that calls `run_once` may call its methods.

    The exceptions are `handle_crash` and `finish`: the writer thread may call them at the end.
    """

    client: Client
    accumulator: Accumulator
    partitions: PartitionStates
    completer: BatchCompleter
    outcome: SessionOutcome
    drainer: Drainer
    responses: ResponseHandler
    rejections: RejectionHandler
    producer_id_requester: ProducerIdRequester
    transaction_manager: TransactionManager | None
    listeners: BatchListener
    broker_meters: BrokerMeters
    """The brokers' meters for this session."""
    statistics: Statistics
    _connect_attempts: dict[int, int] = field(default_factory=dict, init=False)
    """The number of failed connection attempts to each broker since the last request to it, at the
    time of the latest metadata refresh that such a failure caused.
    """
    _expiry_due: float = field(default=0.0, init=False)
    _metadata_seen: int = field(default=0, init=False)

    def run_once(self) -> None:
        """Run one iteration of the loop."""
        now = self.client.clock.monotonic()
        # Close first, so that this iteration also sends the batches that are now due.
        self.accumulator.close_due(now)
        # An earlier session's InitProducerId response may contain the id that `_drain` needs.
        self._handle_late_responses()
        # Check before draining: a failed session sends nothing, but waits for what is in flight.
        self._check_failures()
        if self.transaction_manager is not None:
            self._advance_transaction(self.transaction_manager, now)
        if not self.outcome.has_failed:
            self._drain(now)
        # After draining, as in Kafka's Sender.sendProducerData.
        self._expire(now)
        self.client.metadata.maybe_send(self.client.network, now)
        # The only call that blocks (design.md: one-blocking-call).
        for completion in self.client.network.poll(
            self._max_poll_seconds(now), self.client.clock.monotonic
        ):
            self._complete(completion)
        if self.client.metadata.updates != self._metadata_seen:
            self._metadata_seen = self.client.metadata.updates
            if unauthorized := self.client.metadata.cluster.unauthorized:
                self.rejections.reject_unauthorized(unauthorized)
            if self.transaction_manager is not None:
                self.outcome.check_recreated_topics(self.client.metadata.cluster)
            # The writer may wait for a topic's metadata.
            self.accumulator.wake_writer()
        # Last, because the responses above may have been the last ones in flight.
        self.completer.finish_failure()
        self.statistics.maybe_emit(now)

    def backlog(self, node_id: int, now: float) -> str:
        """Describe the batches that wait for a broker (count, age, timeout), or "" if none wait.

        Batches whose topic is still unknown wait for any bootstrap server (negative node id). The
        text is computed for each call.
        """
        cluster, config = self.client.metadata.cluster, self.client.config
        timeout = f"delivery.timeout.ms = {config.delivery_timeout_ms}"
        if node_id < 0:
            waiting = self.partitions.waiting_for_metadata(cluster)
            if config.max_block_ms <= config.delivery_timeout_ms:
                timeout = f"max.block.ms = {config.max_block_ms}"
            return _waiting(waiting, "the metadata of their topics", timeout, now)
        return _waiting(self.partitions.waiting_for(node_id, cluster), "it", timeout, now)

    def handle_crash(self, error: BaseException) -> None:
        """Fail the session after the loop has crashed, so that the writer stops waiting."""
        failure = error if isinstance(error, KafkaProdError) else _crash(error)
        try:
            if failure is not error:
                _LOG.error("the sender crashed", exc_info=error)
            if isinstance(failure, DeliveryError):
                self.completer.abandon(failure)
        finally:
            self.outcome.crash(failure)

    def finish(self) -> None:
        """Write the last statistics after the last iteration."""
        self.statistics.finish(self.client.clock.monotonic())

    # The methods below drain and send batches.

    def _drain(self, now: float) -> None:
        if self.client.config.enable_idempotence and self.transaction_manager is None:
            self.producer_id_requester.maybe_send(now)
        has_more = True
        while has_more and self._may_send():
            result = self.drainer.drain(now)
            for node_id, batches in result.requests.items():
                self._send(node_id, batches, now)
            self._act_on(result, now)
            has_more = result.has_more or bool(result.to_renumber)

    def _may_send(self) -> bool:
        if self.outcome.has_failed:
            return False
        has_id = self.producer_id_requester.has_producer_id
        return has_id or not self.client.config.enable_idempotence

    def _act_on(self, result: DrainResult, now: float) -> None:
        """Handle the drainer's findings other than batches."""
        if result.needs_metadata:
            self.client.metadata.request_refresh()
        for state in result.to_renumber.values():
            self.completer.renumber(state)
        if self.transaction_manager is not None and result.new_partitions:
            self.transaction_manager.request_partitions(result.new_partitions)
            self._advance_transaction(self.transaction_manager, now)
        for node_id in result.unready:
            self._connect(node_id, now)

    def _connect(self, node_id: int, now: float) -> None:
        """Connect to a leader; refresh the metadata after each failed attempt.

        If a broker cannot be reached, the leader may have changed.
        """
        node = self.client.metadata.cluster.nodes[node_id]
        self.client.network.connect(node, now)
        attempts = self.client.network.failed_attempts(node)
        if attempts > self._connect_attempts.get(node_id, 0):
            self.client.metadata.request_refresh()
        self._connect_attempts[node_id] = attempts

    def _send(self, node_id: int, batches: list[DrainedBatch], now: float) -> None:
        for state, batch in batches:
            self.completer.begin_attempt(state, batch, now)
        self._connect_attempts.pop(node_id, None)
        connection = self.client.network.broker(node_id).connection
        try:
            request = produce_request(
                self.client.config,
                connection,
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
        self._transmit(node_id, request, batches, now)

    def _transmit(
        self, node_id: int, request: Request, batches: list[DrainedBatch], now: float
    ) -> None:
        """Send the request and update the metrics; a dry run overrides this method."""
        correlation = self.client.network.send(node_id, request, now)
        node = self.client.metadata.cluster.nodes[node_id]
        if correlation:
            self.listeners.on_request_sent([batch for _, batch in batches], node)
        for _, batch in batches:
            self.listeners.on_sent(batch, node, correlation, now)

    # The methods below process completed requests.

    def _complete(self, completion: Completion) -> None:
        now = self.client.clock.monotonic()
        request = completion.request
        self.responses.apply_throttling(completion, now)
        if request.api is ApiKey.PRODUCE:
            self._complete_produce(completion, request.context, now)
            return
        match request.context:
            case Metadata() as metadata:
                metadata.handle_response(completion, now)
            case ProducerIdRequester() as requester:
                self._complete_producer_id(completion, requester, now)
            case TransactionManager() as transaction_manager:
                self._complete_transaction(completion, transaction_manager, now)
            case _:
                raise AssertionError(f"unexpected response to {request.api.name}")

    def _complete_produce(
        self, completion: Completion, batches: list[DrainedBatch], now: float
    ) -> None:
        if completion.failure is None and self.client.config.acks is Acks.NONE:
            self.responses.handle_written(batches)
        else:
            self.responses.handle_response(completion, batches, now)

    def _complete_producer_id(
        self, completion: Completion, requester: ProducerIdRequester, now: float
    ) -> None:
        try:
            # This includes requests of an earlier session whose identity this session uses.
            requester.handle_response(completion, now)
            self.listeners.on_producer_id_received(requester.identity)
        except KafkaProdError as error:
            if requester is self.producer_id_requester:
                self.outcome.fail(error)

    # The methods below drive the transaction and detect failures.

    def _advance_transaction(self, transaction_manager: TransactionManager, now: float) -> None:
        """Send the next request to the coordinator; fail the session if the writer aborts."""
        if transaction_manager.must_abort and not self.outcome.has_failed:
            self.outcome.fail(cancelled_error(transaction_manager.transactional_id))
        try:
            transaction_manager.maybe_send(now, has_records=self.accumulator.has_batches)
        except KafkaProdError as error:
            self.outcome.fail(error)

    def _complete_transaction(
        self, completion: Completion, transaction_manager: TransactionManager, now: float
    ) -> None:
        if transaction_manager is not self.transaction_manager:
            return  # the request was sent for an earlier task, whose session has ended
        try:
            transaction_manager.handle_response(completion, now)
        except KafkaProdError as error:
            self.outcome.fail(error)
        if completion.request.api is ApiKey.INIT_PRODUCER_ID:
            self.listeners.on_producer_id_received(self.producer_id_requester.identity)
        if denied := transaction_manager.take_denied():
            self.rejections.reject_unwritable(denied)

    def _handle_late_responses(self) -> None:
        """Handle producer id responses that arrived between two tasks."""
        while self.client.unclaimed_completions:
            completion = self.client.unclaimed_completions.popleft()
            if isinstance(completion.request.context, ProducerIdRequester):
                self._complete(completion)

    def _check_failures(self) -> None:
        """Fail the session if compression, metadata or the network has failed."""
        error = self.accumulator.store_compressed()
        if error is not None:
            failure = DeliveryError(f"compression failed: {text_of(error)}")
            failure.__cause__ = error
            self.outcome.fail(failure)
        if self.client.metadata.failure is not None:
            self.outcome.fail(copy(self.client.metadata.failure))
        if (fatal := self.client.network.failures.fatal) is not None:
            self.outcome.fail(copy(fatal))

    def _expire(self, now: float) -> None:
        if now >= self._expiry_due:
            self._expiry_due = now + _MAX_POLL_S
            self.completer.expire(now)
            self.completer.fail_removed_partitions(now)

    def _max_poll_seconds(self, now: float) -> float:
        """Return the maximum wait of the poll in seconds."""
        if self.outcome.has_failed:
            return _FAILED_WAIT_S
        wait = min(
            _MAX_POLL_S,
            max(self.accumulator.seconds_until_due(now), 0.001),
            self.client.network.seconds_until_due(now),
            self.client.metadata.seconds_until_due(now),
        )
        if self.transaction_manager is not None:
            wait = min(wait, self.transaction_manager.seconds_until_due(now))
        elif self.client.config.enable_idempotence:
            wait = min(wait, self.producer_id_requester.seconds_until_due(now))
        return max(0.0, min(wait, self.partitions.seconds_until_retry(now)))


def _waiting(batches: list[ProducerBatch], resource: str, timeout: str, now: float) -> str:
    """Return a text about these batches; `timeout` is the option that limits the wait."""
    if not batches:
        return ""
    age = now - min(batch.created_at for batch in batches)
    records = sum(batch.records for batch in batches)
    return (
        f"; waiting for {resource}: {plural(records, 'record')} in "
        f"{plural(len(batches), 'batch', 'batches')}, for up to {age:.1f} s; they fail after "
        f"{timeout}"
    )


def _crash(error: BaseException) -> DeliveryError:
    failure = DeliveryError(
        f"the sender thread stopped: {type(error).__name__}: {text_of(error)}",
        hint="This is a bug in spark-kafka-sink; please report it with the log.",
    )
    failure.__cause__ = error
    return failure
