"""The sender: drains batches into Produce requests and acts on the answers, one turn at a time.

Each turn is close, drain, send, poll, complete; nothing in it blocks but the poll. Runs in the
client's thread, or in a test that turns the clock. Source: Kafka's ``Sender.runOnce``;
"Producer throughput improvement".
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.client.metadata import Metadata
from spark_kafka_sink.common.errors import (
    DeliveryError,
    KafkaProdError,
    ProtocolError,
    text_of,
)
from spark_kafka_sink.config.enums import Acks
from spark_kafka_sink.metrics.recorder import BatchSent
from spark_kafka_sink.producer.producer_state import ProducerIdState
from spark_kafka_sink.producer.send.backlog import Backlog
from spark_kafka_sink.producer.send.drainer import Drainer
from spark_kafka_sink.producer.send.init_producer_id import ProducerIdRequester
from spark_kafka_sink.producer.send.produce import produce_request
from spark_kafka_sink.producer.send.response_handler import ResponseHandler
from spark_kafka_sink.producer.send.statistics import Statistics

if TYPE_CHECKING:
    from spark_kafka_sink.client.network import Completion
    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.metrics.recorder import BrokerMeters
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches
    from spark_kafka_sink.producer.send.produce import Pick

_LOG = logging.getLogger(__name__)
_LONGEST_WAIT = 0.1
"""Seconds: how late an expiry may be noticed."""


class Sender:
    """One session's sender; everything here belongs to the thread that calls `run_once`."""

    def __init__(self, context: SessionContext, accumulator: Accumulator) -> None:
        client, identity = context.client, context.producer_state
        self._client = client
        self._network = client.network
        self._metadata = client.metadata
        self._config = client.config
        self._accumulator = accumulator
        self._report = context.report
        self._trace = context.events
        self._ids = ProducerIdRequester(client, identity)
        self._identity = identity
        self._lanes: dict[TopicPartition, InFlightBatches] = {}
        self._backlog = Backlog(client, accumulator, self._lanes)
        self._answers = ResponseHandler(context, accumulator, self._lanes)
        self._picker = Drainer(context, accumulator, self._lanes, self._answers)
        self._statistics = Statistics(
            name=context.events.session,
            client=client,
            accumulator=accumulator,
            identity=identity,
            report=context.report,
            lanes=self._lanes,
        )
        self._expiry_due = 0.0
        self._metadata_seen = 0

    def run_once(self) -> None:
        """One turn of the loop."""
        now = self._client.clock.monotonic()
        self._accumulator.close_due(now)
        self._take_late()
        self._take_failure()
        if self._answers.failure is None:
            self._drain(now)
        self._expire(now)
        self._metadata.maybe_send(self._network, now)
        for completion in self._network.poll(self._wait(now), self._client.clock.monotonic):
            self._complete(completion)
        if self._metadata.updates != self._metadata_seen:
            self._metadata_seen = self._metadata.updates
            self._accumulator.state.notify()
        self._answers.finish_failure()
        self._statistics.pump(now)

    @property
    def broker_meters(self) -> BrokerMeters:
        """What the connections count while this session runs."""
        return self._report.meters.brokers

    def backlog(self, node_id: int, now: float) -> str:
        """A sentence on what waits for a broker."""
        return self._backlog.sentence(node_id, now)

    def crashed(self, error: BaseException) -> None:
        """The loop is dead: the writer must not wait for it."""
        failure = error if isinstance(error, KafkaProdError) else _crash(error)
        try:
            if failure is not error:
                _LOG.error("the sender crashed", exc_info=error)
            if isinstance(failure, DeliveryError):
                self._answers.abandon(failure)
        finally:
            self._accumulator.state.fail(failure)

    def finished(self) -> None:
        """No turn will come any more: the last statistics."""
        self._statistics.emit(self._client.clock.monotonic())

    def is_idle(self) -> bool:
        """Nothing is under way or waiting to go again."""
        return not any(lane.in_flight or lane.again for lane in self._lanes.values())

    def _drain(self, now: float) -> None:
        if self._config.enable_idempotence:
            self._ids.pump(now)
            if self._identity.state is not ProducerIdState.KNOWN:
                return
        more = True
        while more:
            picked, more = self._picker.pick(now)
            for node_id, picks in picked.items():
                self._send(node_id, picks, now)

    def _send(self, node_id: int, picks: list[Pick], now: float) -> None:
        for lane, batch in picks:
            if self._config.enable_idempotence and batch.sequence < 0:
                self._identity.number(batch)
                self._identity.sequences[batch.partition].topic_id = lane.topic_id
                self._trace.numbered(batch)
            if not batch.attempts:
                self._measure(node_id, batch, now)
            batch.attempts += 1
            batch.sent_at = now
        self._report.meters.request(sum(batch.records for _, batch in picks))
        connection = self._network.broker(node_id).connection
        try:
            request = produce_request(self._config, connection, self._metadata.cluster, picks)
        except ProtocolError as error:
            self._answers.unsendable(picks, error)
            return
        correlation = self._network.send(node_id, request, now)
        for _, batch in picks:
            self._trace.sent(batch, node_id, correlation)

    def _measure(self, node_id: int, batch: ProducerBatch, now: float) -> None:
        """Note how a batch came to its first request."""
        place, report = batch.partition, self._report
        report.queue_latency(now - batch.created)
        report.led_by(place.topic, place.partition, node_id)
        report.meters.batch(
            BatchSent(
                topic=place.topic,
                records=batch.records,
                raw_bytes=batch.raw_size,
                wire_bytes=batch.size,
                queued=[(now - arrived, records) for arrived, records in batch.arrivals],
                filled=batch.closed - batch.created,
                closed=batch.reason,
                compression=batch.compression,
            ),
            report.meters.brokers.of(self._metadata.cluster.nodes[node_id]),
        )

    def _complete(self, completion: Completion) -> None:
        now = self._client.clock.monotonic()
        context = completion.request.context
        if isinstance(context, Metadata):
            context.handle_response(completion, now)
        elif isinstance(context, ProducerIdRequester):
            self._complete_producer_id(completion, context, now)
        elif completion.failure is None and self._config.acks is Acks.NONE:
            self._answers.written(context)
        else:
            self._answers.take(completion, context, now)

    def _complete_producer_id(
        self, completion: Completion, requester: ProducerIdRequester, now: float
    ) -> None:
        try:
            # Also what an earlier session asked for: it may have handed its identity on.
            requester.take(completion, now)
            self._trace.identified(requester.identity)
        except DeliveryError as error:
            if requester is self._ids:
                self._answers.fail(error)

    def _take_late(self) -> None:
        """A producer id that an earlier task asked for may have come after its end."""
        while self._client.late:
            completion = self._client.late.popleft()
            if isinstance(completion.request.context, ProducerIdRequester):
                self._complete(completion)

    def _take_failure(self) -> None:
        """Compression or the metadata has failed: as if a broker had refused a batch."""
        error = self._accumulator.take_compressed()
        if error is not None:
            failure = DeliveryError(f"compression failed: {text_of(error)}")
            failure.__cause__ = error
            self._answers.fail(failure)
        if self._metadata.failure is not None:
            self._answers.fail(self._metadata.failure)

    def _expire(self, now: float) -> None:
        if now >= self._expiry_due:
            self._expiry_due = now + _LONGEST_WAIT
            self._answers.expire(now)
            self._answers.give_up_vanished(now)

    def _wait(self, now: float) -> float:
        """Seconds that the poll may wait at most."""
        if self._answers.failure is not None:
            return 0.02
        waits = [
            _LONGEST_WAIT,
            max(self._accumulator.next_linger(now), 0.001),
            self._network.next_deadline(now),
            self._metadata.wait(now),
        ]
        if self._config.enable_idempotence:
            waits.append(self._ids.wait(now))
        waits += [lane.retry_at - now for lane in self._lanes.values() if lane.retry_at > now]
        return max(0.0, min(waits))


def _crash(error: BaseException) -> DeliveryError:
    failure = DeliveryError(
        f"the sender thread stopped: {type(error).__name__}: {text_of(error)}",
        hint="this is a bug in spark-kafka-sink; please report it with the log",
    )
    failure.__cause__ = error
    return failure
