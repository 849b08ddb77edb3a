"""The sender: drains batches into Produce requests and acts on the responses.

Each iteration closes batches, drains them, sends requests, polls and completes batches; only the
poll blocks. The sender runs in the client's thread, or in a test that advances the clock.

Source: Kafka's ``Sender.runOnce``; "Producer throughput improvement".
"""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.errors import DeliveryError, KafkaProdError, error_text
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.enums import Acks
from spark_kafka_sink.kafka.client.metadata import Metadata
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.producer_id import ProducerIdRequester

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
    from spark_kafka_sink.producer.send.drainer import Drainer, DrainResult
    from spark_kafka_sink.producer.send.failure_handler import FailureHandler
    from spark_kafka_sink.producer.send.identity_requests import IdentityRequests
    from spark_kafka_sink.producer.send.request_sender import RequestSender
    from spark_kafka_sink.producer.send.response_handler import ResponseHandler
    from spark_kafka_sink.producer.send.session_partitions import DrainedBatch, SessionPartitions


_LOG = logging.getLogger(__name__)
_MAX_POLL_S = 0.1
"""Maximum duration of a poll in seconds; expired batches are detected at most this late."""
_FAILED_WAIT_S = 0.02
"""Maximum duration of a poll in seconds while a failed session waits for in-flight batches."""


class StatisticsWriter(Protocol):
    """Writes statistics after iterations of the sender."""

    def maybe_emit(self, now: float) -> None:
        """Write the statistics if they are due; called after each iteration."""

    def finish(self, now: float) -> None:
        """Write the last statistics; called after the last iteration."""


@dataclass(kw_only=True, eq=False)
class Sender:
    """One session's sender; only the thread that calls `run_once` may call its methods.

    The exceptions are `handle_crash` and `finish`: the writer thread may call them at the end.
    """

    client: ProducerClient
    state: SessionState
    accumulator: Accumulator
    partitions: SessionPartitions
    completer: BatchCompleter
    failures: FailureHandler
    identity_requests: IdentityRequests
    drainer: Drainer
    requests: RequestSender
    responses: ResponseHandler
    statistics: StatisticsWriter
    broker_meters: BrokerMeters
    """The brokers' meters for this session."""
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
        self.identity_requests.advance_transaction(now)
        if not self.failures.has_failed:
            self._drain(now)
        # After draining, as in Kafka's Sender.sendProducerData.
        self._expire_batches(now)
        self.client.metadata.maybe_send(self.client.network, now)
        # The only call that blocks (design.md: one-blocking-call).
        for completion in self.client.network.poll(
            self._max_poll_seconds(now), self.client.clock.monotonic
        ):
            self._complete(completion)
        if self.client.metadata.updates != self._metadata_seen:
            self._metadata_seen = self.client.metadata.updates
            self.responses.handle_metadata()
            # The writer may wait for a topic's metadata.
            self.state.wake_writer()
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
            return _describe_waiting(waiting, "the metadata of their topics", timeout, now)
        return _describe_waiting(self.partitions.waiting_for(node_id, cluster), "it", timeout, now)

    def handle_crash(self, error: BaseException) -> None:
        """Fail the session after the loop has crashed, so that the writer stops waiting."""
        failure = error if isinstance(error, KafkaProdError) else _crash_error(error)
        try:
            if failure is not error:
                _LOG.error("the sender crashed", exc_info=error)
            if isinstance(failure, DeliveryError):
                self.completer.abandon(failure)
        finally:
            self.failures.crash(failure)

    def finish(self) -> None:
        """Write the last statistics after the last iteration."""
        self.statistics.finish(self.client.clock.monotonic())

    # The methods below drain batches and act on completed requests.

    def _drain(self, now: float) -> None:
        self.identity_requests.request_producer_id(now)
        has_more = True
        while has_more and self.identity_requests.may_send and not self.failures.has_failed:
            result = self.drainer.drain(now)
            for node_id, batches in result.requests.items():
                self.requests.send(node_id, batches, now)
            self._act_on(result, now)
            has_more = result.has_more or bool(result.to_renumber)

    def _act_on(self, result: DrainResult, now: float) -> None:
        """Refresh metadata, renumber and add partitions, and connect, as the drain requires."""
        if result.needs_metadata:
            self.client.metadata.request_refresh()
        for state in result.to_renumber.values():
            self.completer.renumber(state)
        self.identity_requests.add_partitions(result.new_partitions, now)
        for node_id in result.unready:
            self.requests.connect(node_id, now)

    def _complete(self, completion: Completion) -> None:
        now = self.client.clock.monotonic()
        request = completion.request
        self.responses.apply_throttling(completion, now)
        if request.api is ApiKey.PRODUCE:
            self._complete_produce(completion, request.context, now)
            return
        if isinstance(request.context, Metadata):
            request.context.handle_response(completion, now)
        else:
            self.identity_requests.complete(completion, now)

    def _complete_produce(
        self, completion: Completion, batches: list[DrainedBatch], now: float
    ) -> None:
        if completion.failure is None and self.client.config.acks is Acks.NONE:
            self.responses.handle_written(batches)
        else:
            self.responses.handle_response(completion, batches, now)

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
            failure = DeliveryError(f"compression failed: {error_text(error)}")
            failure.__cause__ = error
            self.failures.record_failure(failure)
        if (other_cluster := self.client.metadata.failure) is not None:
            self.failures.record_failure(
                DeliveryError(
                    f"{other_cluster.message}, which might treat batches of this producer id as "
                    "duplicates",
                    hint=other_cluster.hint,
                )
            )
        if (fatal := self.client.network.failures.fatal) is not None:
            self.failures.record_failure(copy(fatal))

    def _expire_batches(self, now: float) -> None:
        if now >= self._expiry_due:
            self._expiry_due = now + _MAX_POLL_S
            self.completer.expire(now)
            self.completer.fail_removed_partitions(now)

    def _max_poll_seconds(self, now: float) -> float:
        """Return the maximum wait of the poll in seconds."""
        if self.failures.has_failed:
            return _FAILED_WAIT_S
        wait = min(
            _MAX_POLL_S,
            max(self.accumulator.seconds_until_due(now), 0.001),
            self.client.network.seconds_until_due(now),
            self.client.metadata.seconds_until_due(now),
            self.identity_requests.seconds_until_due(now),
            self.partitions.seconds_until_retry(now),
        )
        return max(0.0, wait)


def _describe_waiting(batches: list[ProducerBatch], resource: str, timeout: str, now: float) -> str:
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


def _crash_error(error: BaseException) -> DeliveryError:
    failure = DeliveryError(
        f"the sender thread stopped: {type(error).__name__}: {error_text(error)}",
        hint="This is a bug in spark-kafka-sink; please report it with the log.",
    )
    failure.__cause__ = error
    return failure
