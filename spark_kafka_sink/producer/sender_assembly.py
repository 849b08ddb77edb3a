"""Assemble the sender of a session from its parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.producer.producer_id import ProducerIdRequester
from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
from spark_kafka_sink.producer.send.dead_letter_batches import DeadLetterBatches
from spark_kafka_sink.producer.send.delivery_timeout import DeliveryTimeout
from spark_kafka_sink.producer.send.drainer import Drainer
from spark_kafka_sink.producer.send.identity_requests import IdentityRequests
from spark_kafka_sink.producer.send.librdkafka_statistics import Statistics
from spark_kafka_sink.producer.send.rejection_handler import RejectionHandler
from spark_kafka_sink.producer.send.request_sender import RequestSender
from spark_kafka_sink.producer.send.response_handler import ResponseHandler
from spark_kafka_sink.producer.send.sender import Sender
from spark_kafka_sink.producer.send.session_outcome import SessionOutcome
from spark_kafka_sink.producer.send.session_partitions import SessionPartitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.producer.session_context import SessionContext


def make_sender(context: SessionContext) -> Sender:
    """Create the session's sender; in a dry run, its requests are not sent."""
    client, report, listeners = context.client, context.report_builder, context.listeners
    partitions = SessionPartitions(context.queues)
    delivery_timeout = DeliveryTimeout(client, context.state)
    outcome = SessionOutcome(
        state=context.state,
        written=context.written,
        transaction_manager=context.transaction_manager,
        statuses=report.failures,
    )
    completer = BatchCompleter(
        client=client,
        accumulator=context.accumulator,
        partitions=partitions,
        delivery_timeout=delivery_timeout,
        identity=context.identity,
        listeners=listeners,
        outcome=outcome,
    )
    rejections = _rejections(context, partitions, completer, outcome)
    responses = ResponseHandler(
        client=client,
        identity=context.identity,
        delivery_timeout=delivery_timeout,
        completer=completer,
        outcome=outcome,
        rejections=rejections,
        breakers=context.breakers,
        listeners=listeners,
    )
    return Sender(
        client=client,
        state=context.state,
        accumulator=context.accumulator,
        partitions=partitions,
        completer=completer,
        outcome=outcome,
        identity_requests=_identity_requests(context, rejections, outcome),
        drainer=_drainer(context, partitions),
        requests=_request_sender(context, completer)(
            client=client,
            identity=context.identity,
            delivery_timeout=delivery_timeout,
            responses=responses,
            transaction_manager=context.transaction_manager,
            listeners=listeners,
        ),
        responses=responses,
        statistics=_statistics(context, partitions),
        broker_meters=report.recorder.brokers,
    )


def _rejections(
    context: SessionContext,
    partitions: SessionPartitions,
    completer: BatchCompleter,
    outcome: SessionOutcome,
) -> RejectionHandler:
    config, topic = context.client.config, context.dead_letter_topic
    clock = context.client.clock
    return RejectionHandler(
        config=config,
        partitions=partitions,
        completer=completer,
        outcome=outcome,
        bad_rows=context.bad_rows,
        dead_letters=None if topic is None else DeadLetterBatches(config, clock, topic),
        acls=context.acls,
    )


def _identity_requests(
    context: SessionContext, rejections: RejectionHandler, outcome: SessionOutcome
) -> IdentityRequests:
    client = context.client
    requester = ProducerIdRequester(client, context.identity, context.acls)
    return IdentityRequests(
        requester=requester if client.config.enable_idempotence else None,
        transaction_manager=context.transaction_manager,
        state=context.state,
        rejections=rejections,
        outcome=outcome,
        listeners=context.listeners,
    )


def _drainer(context: SessionContext, partitions: SessionPartitions) -> Drainer:
    return Drainer(
        client=context.client,
        accumulator=context.accumulator,
        assigned_topics=context.assigned_topics,
        queues=context.queues,
        breakers=context.breakers,
        partitions=partitions,
        transaction_manager=context.transaction_manager,
    )


def _request_sender(
    context: SessionContext, completer: BatchCompleter
) -> Callable[..., RequestSender]:
    if not context.settings.dry_run:
        return RequestSender
    from spark_kafka_sink.producer.dry_run import CodecSampler, DryRunRequestSender  # rarely needed

    sampler = CodecSampler(context.client.config, context.report_builder)
    report = context.report_builder
    return partial(DryRunRequestSender, completer=completer, report=report, sampler=sampler)


def _statistics(context: SessionContext, partitions: SessionPartitions) -> Statistics:
    return Statistics(
        name=context.events.session,
        path=context.settings.statistics_path,
        client=context.client,
        accumulator=context.accumulator,
        pool=context.pool,
        identity=context.identity,
        report_builder=context.report_builder,
        partitions=partitions,
        transaction_manager=context.transaction_manager,
    )
