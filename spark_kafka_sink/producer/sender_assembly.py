"""Assemble the sender of a session from its parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.producer.producer_id import ProducerIdRequester
from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
from spark_kafka_sink.producer.send.delivery_timeout import DeliveryTimeout
from spark_kafka_sink.producer.send.drainer import Drainer
from spark_kafka_sink.producer.send.librdkafka_statistics import Statistics
from spark_kafka_sink.producer.send.partition_states import PartitionStates
from spark_kafka_sink.producer.send.rejection_handler import RejectionHandler
from spark_kafka_sink.producer.send.response_handler import ResponseHandler
from spark_kafka_sink.producer.send.sender import Sender
from spark_kafka_sink.producer.send.session_outcome import SessionOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.producer.session_context import SessionContext


def make_sender(context: SessionContext) -> Sender:
    """Create the session's sender, which is a `DryRunSender` for a dry run."""
    client, report, listeners = context.client, context.report_builder, context.listeners
    partitions = PartitionStates(context.queues)
    delivery_timeout = DeliveryTimeout(client, context.state)
    outcome = SessionOutcome(
        context.state, context.written, context.transaction_manager, report.failures
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
    rejections = RejectionHandler(
        client=client,
        partitions=partitions,
        completer=completer,
        outcome=outcome,
        bad_rows=context.bad_rows,
        dead_letter_topic=context.dead_letter_topic,
        acls=context.acls,
    )
    return _sender_class(context)(
        client=client,
        accumulator=context.accumulator,
        partitions=partitions,
        completer=completer,
        outcome=outcome,
        drainer=Drainer(
            client,
            accumulator=context.accumulator,
            queues=context.queues,
            breakers=context.breakers,
            partitions=partitions,
            transaction_manager=context.transaction_manager,
        ),
        responses=ResponseHandler(
            client=client,
            identity=context.identity,
            delivery_timeout=delivery_timeout,
            completer=completer,
            outcome=outcome,
            rejections=rejections,
            breakers=context.breakers,
            listeners=listeners,
        ),
        rejections=rejections,
        producer_id_requester=ProducerIdRequester(client, context.identity, context.acls),
        transaction_manager=context.transaction_manager,
        listeners=listeners,
        broker_meters=report.meters.brokers,
        statistics=_statistics(context, partitions),
    )


def _sender_class(context: SessionContext) -> Callable[..., Sender]:
    if not context.settings.dry_run:
        return Sender
    from spark_kafka_sink.producer.dry_run import CodecSampler, DryRunSender  # rarely needed

    sampler = CodecSampler(context.client.config, context.report_builder)
    return partial(DryRunSender, report=context.report_builder, sampler=sampler)


def _statistics(context: SessionContext, partitions: PartitionStates) -> Statistics:
    return Statistics(
        name=context.events.session,
        path=context.settings.statistics_path,
        client=context.client,
        accumulator=context.accumulator,
        identity=context.identity,
        report=context.report_builder,
        partitions=partitions,
        transaction_manager=context.transaction_manager,
    )
