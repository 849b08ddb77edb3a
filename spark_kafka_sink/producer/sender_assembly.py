"""Assemble the sender of a session from its parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.producer.producer_id import ProducerIdRequester
from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
from spark_kafka_sink.producer.send.drainer import Drainer
from spark_kafka_sink.producer.send.librdkafka_statistics import Statistics
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
    completer = BatchCompleter(
        client=client,
        producer_state=producer_state,
        accumulator=accumulator,
        listeners=context.listeners,
        failures=context.report.failures,
        written=context.written,
        acls=acls,
        transaction_manager=transaction_manager,
    )
    responses = ResponseHandler(
        client=client,
        producer_state=producer_state,
        accumulator=accumulator,
        completer=completer,
        record_errors=_record_errors(context),
        breakers=context.breakers,
        listeners=context.listeners,
        acls=acls,
    )
    statistics = Statistics(
        name=context.events.session,
        path=context.settings.statistics_path,
        client=client,
        accumulator=accumulator,
        producer_state=producer_state,
        report=context.report,
        partitions=completer.partitions,
        transaction_manager=transaction_manager,
    )
    make: Callable[..., Sender] = Sender
    if context.settings.dry_run:
        from spark_kafka_sink.producer.dry_run import CodecSampler, DryRunSender  # rarely needed

        sampler = CodecSampler(client.config, context.report)
        make = partial(DryRunSender, report=context.report, sampler=sampler)
    return make(
        client=client,
        accumulator=accumulator,
        completer=completer,
        drainer=Drainer(
            client,
            accumulator=accumulator,
            breakers=context.breakers,
            partitions=completer.partitions,
            transaction_manager=transaction_manager,
        ),
        responses=responses,
        producer_id=ProducerIdRequester(client, producer_state, acls),
        transaction_manager=transaction_manager,
        listeners=context.listeners,
        broker_meters=context.report.meters.brokers,
        statistics=statistics,
    )


def _record_errors(context: SessionContext) -> RecordErrorHandler:
    return RecordErrorHandler(
        config=context.client.config,
        clock=context.client.clock,
        bad_rows=context.bad_rows,
        dead_letters=context.dead_letters,
        acls=context.acls,
    )
