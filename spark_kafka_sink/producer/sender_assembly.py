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
from spark_kafka_sink.producer.send.record_errors import RecordErrorHandler
from spark_kafka_sink.producer.send.response_handler import ResponseHandler
from spark_kafka_sink.producer.send.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.producer.session_context import SessionContext


def make_sender(context: SessionContext) -> Sender:
    """Create the session's sender, which is a `DryRunSender` for a dry run."""
    client, accumulator, acls = context.client, context.accumulator, context.acls
    producer_state, transaction_manager = context.producer_state, context.transaction_manager
    partitions, delivery_timeout = PartitionStates(), DeliveryTimeout(client)
    completer = BatchCompleter(
        client=client,
        producer_state=producer_state,
        accumulator=accumulator,
        listeners=context.listeners,
        failures=context.report_builder.failures,
        written=context.written,
        acls=acls,
        transaction_manager=transaction_manager,
        partitions=partitions,
        delivery_timeout=delivery_timeout,
    )
    responses = ResponseHandler(
        client=client,
        producer_state=producer_state,
        accumulator=accumulator,
        partitions=partitions,
        delivery_timeout=delivery_timeout,
        transaction_manager=transaction_manager,
        completer=completer,
        record_errors=_record_errors(context),
        breakers=context.breakers,
        listeners=context.listeners,
        acls=acls,
    )
    make: Callable[..., Sender] = Sender
    if context.settings.dry_run:
        from spark_kafka_sink.producer.dry_run import CodecSampler, DryRunSender  # rarely needed

        sampler = CodecSampler(client.config, context.report_builder)
        make = partial(DryRunSender, report=context.report_builder, sampler=sampler)
    return make(
        client=client,
        accumulator=accumulator,
        partitions=partitions,
        delivery_timeout=delivery_timeout,
        completer=completer,
        drainer=Drainer(
            client,
            accumulator=accumulator,
            breakers=context.breakers,
            partitions=partitions,
            transaction_manager=transaction_manager,
        ),
        responses=responses,
        producer_id_requester=ProducerIdRequester(client, producer_state, acls),
        transaction_manager=transaction_manager,
        listeners=context.listeners,
        broker_meters=context.report_builder.meters.brokers,
        statistics=_statistics(context, partitions),
    )


def _statistics(context: SessionContext, partitions: PartitionStates) -> Statistics:
    return Statistics(
        name=context.events.session,
        path=context.settings.statistics_path,
        client=context.client,
        accumulator=context.accumulator,
        producer_state=context.producer_state,
        report=context.report_builder,
        partitions=partitions,
        transaction_manager=context.transaction_manager,
    )


def _record_errors(context: SessionContext) -> RecordErrorHandler:
    return RecordErrorHandler(
        config=context.client.config,
        clock=context.client.clock,
        bad_rows=context.bad_rows,
        dead_letters=context.dead_letters,
        acls=context.acls,
    )
