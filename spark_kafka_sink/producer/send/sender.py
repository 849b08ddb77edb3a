"""The sender: drains batches into Produce requests and acts on the responses.

Each iteration closes batches, drains them, sends requests, polls and completes batches; only the
poll blocks. The sender runs in the client's thread, or in a test that advances the clock.

Source: Kafka's ``Sender.runOnce``; "Producer throughput improvement".
"""

from __future__ import annotations

import logging
from copy import copy
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError, KafkaProdError, ProtocolError, text_of
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.enums import Acks
from spark_kafka_sink.kafka.client.metadata_updater import Metadata
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.producer_id import ProducerIdRequester, ProducerIdState
from spark_kafka_sink.producer.send.batch_completion import BatchCompletion
from spark_kafka_sink.producer.send.drainer import Drainer
from spark_kafka_sink.producer.send.librdkafka_statistics import Statistics
from spark_kafka_sink.producer.send.produce_request import produce_request
from spark_kafka_sink.producer.send.response_handler import ResponseHandler
from spark_kafka_sink.producer.transactions.manager import TransactionManager
from spark_kafka_sink.producer.transactions.state import cancelled_error
from spark_kafka_sink.report.recreated_topics import recreated_topic_error

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.request import Completion, Request
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.send.drainer import Drained
    from spark_kafka_sink.producer.send.partition_state import DrainedBatch
    from spark_kafka_sink.report.metrics.producer_metrics import BrokerMeters


_LOG = logging.getLogger(__name__)
_LONGEST_WAIT = 0.1
"""Maximum duration of a poll in seconds; expired batches are detected at most this late."""
_FAILED_WAIT = 0.02
"""Maximum duration of a poll in seconds while a failed session waits for in-flight batches."""


class Sender:
    """One session's sender; only the thread that calls `run_once` may call its methods.

    As an exception, the writer thread may call `crashed` and `finished` after the last iteration.
    """

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._accumulator = session.accumulator
        self._client = session.client
        self._network = session.client.network
        self._metadata = session.client.metadata
        self._config = session.config
        self._report = session.report
        self._listeners = session.listeners
        self._producer_state = session.producer_state
        self._transactions = session.transactions
        self._completion = BatchCompletion(session)
        self._partitions = self._completion.partitions
        self._drainer = Drainer(
            session.client,
            session.accumulator,
            session.breakers,
            self._partitions,
            session.transactions,
        )
        self._producer_id = ProducerIdRequester(
            session.client, session.producer_state, session.acls
        )
        self._responses = ResponseHandler(session, self._completion)
        self._statistics = Statistics(session, self._partitions)
        self._connect_attempts: dict[int, int] = {}
        """The number of failed connection attempts to each broker since the last request to it, at
        the time of the latest metadata refresh that such a failure caused.
        """
        self._expiry_due = 0.0
        self._metadata_seen = 0

    def run_once(self) -> None:
        """Run one iteration of the loop."""
        now = self._client.clock.monotonic()
        self._accumulator.close_due(now)
        self._handle_late_responses()
        self._check_failures()
        if self._transactions is not None:
            self._advance_transaction(self._transactions, now)
        if self._completion.failure is None:
            self._drain(now)
        self._expire(now)
        self._metadata.maybe_send(self._network, now)
        for completion in self._network.poll(self._wait(now), self._client.clock.monotonic):
            self._complete(completion)
        if self._metadata.updates != self._metadata_seen:
            self._metadata_seen = self._metadata.updates
            if refused := self._metadata.cluster.unauthorized:
                self._responses.reject_waiting(refused)
            if self._transactions is not None:
                self._check_topics()
            self._accumulator.state.notify()
        self._completion.finish_failure()
        self._statistics.maybe_emit(now)

    @property
    def broker_meters(self) -> BrokerMeters:
        """The brokers' meters for this session."""
        return self._report.meters.brokers

    def backlog(self, node_id: int, now: float) -> str:
        """Describe the batches that wait for a broker (count, age, timeout), or "" if none wait.

        Batches whose topic is still unknown wait for any bootstrap server (negative node id). The
        text is computed for each call.
        """
        cluster, config = self._metadata.cluster, self._config
        timeout = f"delivery.timeout.ms = {config.delivery_timeout_ms}"
        if node_id < 0:
            waiting = self._accumulator.queued(lambda place: place.topic not in cluster.topics)
            if config.max_block_ms <= config.delivery_timeout_ms:
                timeout = f"max.block.ms = {config.max_block_ms}"
            return _waiting(waiting, "the metadata of their topics", timeout, now)
        waiting = [
            batch
            for state in self._partitions
            if node_id in {state.leader, cluster.leader(*state.partition)}
            for batch in (*state.in_flight, *state.retries)
        ]
        waiting += self._accumulator.queued(lambda place: cluster.leader(*place) == node_id)
        return _waiting(waiting, "it", timeout, now)

    def crashed(self, error: BaseException) -> None:
        """Fail the session after the loop has crashed, so that the writer stops waiting."""
        failure = error if isinstance(error, KafkaProdError) else _crash(error)
        try:
            if failure is not error:
                _LOG.error("the sender crashed", exc_info=error)
            if isinstance(failure, DeliveryError):
                self._completion.abandon(failure)
        finally:
            self._accumulator.state.fail(failure)
            if self._transactions is not None:
                self._transactions.over.set()

    def finished(self) -> None:
        """Write the last statistics after the last iteration."""
        self._statistics.finish(self._client.clock.monotonic())

    # The methods below drain and send batches.

    def _drain(self, now: float) -> None:
        if self._config.enable_idempotence and self._transactions is None:
            self._producer_id.maybe_send(now)
        has_more = True
        while has_more and self._may_send():
            drained = self._drainer.drain(now)
            self._session.breakers.unavailable = drained.unavailable
            for node_id, batches in drained.requests.items():
                self._send(node_id, batches, now)
            self._act_on(drained, now)
            has_more = drained.more or bool(drained.to_renumber)

    def _may_send(self) -> bool:
        if self._completion.failure is not None:
            return False
        known = self._producer_state.state is ProducerIdState.KNOWN
        return known or not self._config.enable_idempotence

    def _act_on(self, drained: Drained, now: float) -> None:
        """Handle the drainer's findings other than batches."""
        if drained.stale:
            self._metadata.refresh()
        for state in drained.to_renumber.values():
            self._completion.renumber(state)
        if self._transactions is not None and drained.new_partitions:
            self._transactions.partitions.want(drained.new_partitions)
            self._advance_transaction(self._transactions, now)
        for node_id in drained.unready:
            self._connect(node_id, now)

    def _connect(self, node_id: int, now: float) -> None:
        """Connect to a leader; refresh the metadata after each failed attempt.

        If a broker cannot be reached, the leader may have changed.
        """
        node = self._metadata.cluster.nodes[node_id]
        self._network.connect(node, now)
        attempts = self._network.attempts(node)
        if attempts > self._connect_attempts.get(node_id, 0):
            self._metadata.refresh()
        self._connect_attempts[node_id] = attempts

    def _send(self, node_id: int, drained: list[DrainedBatch], now: float) -> None:
        for state, batch in drained:
            if self._config.enable_idempotence and state.assign_sequence(
                batch, self._producer_state
            ):
                self._session.events.sequence_assigned(batch)
            if not batch.attempts:
                batch.timed_from = self._completion.timeout.start_of(batch)
            batch.attempts += 1
            batch.sent_at = now
        self._connect_attempts.pop(node_id, None)
        connection = self._network.broker(node_id).connection
        try:
            request = produce_request(
                self._config, connection, self._metadata.cluster, drained, self._transactions
            )
        except ProtocolError as error:
            self._responses.handle_unsendable(drained, error)
            return
        if self._transactions is not None:
            self._transactions.sending([batch.partition for _, batch in drained], now)
        self._transmit(node_id, request, drained, now)

    def _transmit(
        self, node_id: int, request: Request, drained: list[DrainedBatch], now: float
    ) -> None:
        """Send the request and update the metrics; a dry run overrides this method."""
        correlation = self._network.send(node_id, request, now)
        if correlation:
            self._count_request(node_id, drained)
        node = self._metadata.cluster.nodes[node_id]
        for _, batch in drained:
            self._listeners.sent(batch, node, correlation, now)

    def _count_request(self, node_id: int, drained: list[DrainedBatch]) -> None:
        meters = self._report.meters
        meters.request(sum(batch.records for _, batch in drained))
        broker = meters.brokers.of(self._metadata.cluster.nodes[node_id])
        broker.retries += any(batch.attempts > 1 for _, batch in drained)

    # The methods below process completed requests.

    def _complete(self, completion: Completion) -> None:
        now = self._client.clock.monotonic()
        request = completion.request
        self._responses.apply_throttling(completion, now)
        if request.api is ApiKey.PRODUCE:
            self._complete_produce(completion, request.context, now)
            return
        match request.context:
            case Metadata() as metadata:
                metadata.handle_response(completion, now)
            case ProducerIdRequester() as requester:
                self._complete_producer_id(completion, requester, now)
            case TransactionManager() as transactions:
                self._complete_transaction(completion, transactions, now)
            case _:
                raise AssertionError(f"unexpected response to {request.api.name}")

    def _complete_produce(
        self, completion: Completion, drained: list[DrainedBatch], now: float
    ) -> None:
        if completion.failure is None and self._config.acks is Acks.NONE:
            self._responses.handle_written(drained)
        else:
            self._responses.handle_response(completion, drained, now)

    def _complete_producer_id(
        self, completion: Completion, requester: ProducerIdRequester, now: float
    ) -> None:
        try:
            # This includes requests of an earlier session whose producer state this session uses.
            requester.handle_response(completion, now)
            self._session.events.producer_id_received(requester.producer_state)
        except DeliveryError as error:
            if requester is self._producer_id:
                self._completion.fail_session(error)

    # The methods below drive the transaction and detect failures.

    def _advance_transaction(self, transactions: TransactionManager, now: float) -> None:
        """Send the next request to the coordinator; fail the session if the writer aborts."""
        if transactions.aborting and self._completion.failure is None:
            transactional_id = transactions.settings.transactional_id
            self._completion.fail_session(cancelled_error(transactional_id))
        try:
            transactions.maybe_send(now, has_records=self._accumulator.state.incomplete > 0)
        except KafkaProdError as error:
            self._completion.fail_session(error)

    def _complete_transaction(
        self, completion: Completion, transactions: TransactionManager, now: float
    ) -> None:
        if transactions is not self._transactions:
            return  # the request was sent for an earlier task, whose session has ended
        try:
            transactions.handle_response(completion, now)
        except KafkaProdError as error:
            self._completion.fail_session(error)
        if completion.request.api is ApiKey.INIT_PRODUCER_ID:
            self._session.events.producer_id_received(self._producer_state)
        if transactions.denied:
            denied = frozenset(transactions.denied)
            transactions.denied.clear()
            self._responses.reject_waiting(denied, self._session.acls.unauthorized_write)

    def _check_topics(self) -> None:
        """Fail the session if a topic was recreated, even if nothing is left to send.

        Otherwise a transaction could be committed although acknowledged records are lost.
        """
        written = self._session.written
        for topic, info in self._metadata.cluster.topics.items():
            if info.topic_id and (deleted := written.deleted_records(topic, info.topic_id)):
                self._completion.fail_session(recreated_topic_error(topic, deleted))

    def _handle_late_responses(self) -> None:
        """Handle producer id responses that arrived between two tasks."""
        while self._client.unclaimed_completions:
            completion = self._client.unclaimed_completions.popleft()
            if isinstance(completion.request.context, ProducerIdRequester):
                self._complete(completion)

    def _check_failures(self) -> None:
        """Fail the session if compression, metadata or the network has failed."""
        error = self._accumulator.take_compressed()
        if error is not None:
            failure = DeliveryError(f"compression failed: {text_of(error)}")
            failure.__cause__ = error
            self._completion.fail_session(failure)
        if self._metadata.failure is not None:
            self._completion.fail_session(self._metadata.failure)
        if (fatal := self._network.failures.fatal) is not None:
            self._completion.fail_session(copy(fatal))

    def _expire(self, now: float) -> None:
        if now >= self._expiry_due:
            self._expiry_due = now + _LONGEST_WAIT
            self._completion.expire(now)
            self._completion.fail_removed_partitions(now)

    def _wait(self, now: float) -> float:
        """Return the maximum wait of the poll in seconds."""
        if self._completion.failure is not None:
            return _FAILED_WAIT
        wait = min(
            _LONGEST_WAIT,
            max(self._accumulator.next_linger(now), 0.001),
            self._network.next_deadline(now),
            self._metadata.wait(now),
        )
        if self._transactions is not None:
            wait = min(wait, self._transactions.wait(now))
        elif self._config.enable_idempotence:
            wait = min(wait, self._producer_id.wait(now))
        return max(0.0, min(wait, self._partitions.wait(now)))


def _waiting(batches: list[ProducerBatch], what: str, timeout: str, now: float) -> str:
    """Return a text about these batches; `timeout` is the option that limits the wait."""
    if not batches:
        return ""
    age = now - min(batch.created for batch in batches)
    records = sum(batch.records for batch in batches)
    return (
        f"; waiting for {what}: {plural(records, 'record')} in "
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
