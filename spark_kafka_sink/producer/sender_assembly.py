"""Assemble the sender of a session from its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.producer.producer_id import ProducerIdRequester
from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
from spark_kafka_sink.producer.send.dead_letter_batches import DeadLetterBatches
from spark_kafka_sink.producer.send.delivery_timeout import DeliveryTimeout
from spark_kafka_sink.producer.send.drainer import Drainer
from spark_kafka_sink.producer.send.failure_handler import FailureHandler
from spark_kafka_sink.producer.send.identity_requests import IdentityRequests
from spark_kafka_sink.producer.send.rejection_handler import RejectionHandler
from spark_kafka_sink.producer.send.request_sender import RequestSender
from spark_kafka_sink.producer.send.response_handler import ResponseHandler
from spark_kafka_sink.producer.send.sender import Sender
from spark_kafka_sink.producer.send.session_partitions import SessionPartitions
from spark_kafka_sink.producer.statistics.librdkafka_statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.bad_rows.bad_row_counter import BadRowCounter
    from spark_kafka_sink.producer.bad_rows.dead_letter import DeadLetterTopic
    from spark_kafka_sink.producer.buffer.session_buffer import SessionBuffer
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.reporting.session_reporting import SessionReporting
    from spark_kafka_sink.producer.send.session_partitions import DrainedBatch
    from spark_kafka_sink.producer.session_settings import SessionSettings
    from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderAssembly:
    """The parts of a session that its sender uses."""

    client: ProducerClient
    settings: SessionSettings
    buffer: SessionBuffer
    reporting: SessionReporting
    identity: ProducerIdentity
    transaction_manager: TransactionManager | None
    bad_rows: BadRowCounter
    dead_letter_topic: DeadLetterTopic | None
    acls: AclAdvisor

    def make_sender(self) -> Sender:
        """Create the sender; in a dry run, its requests are not sent."""
        partitions = SessionPartitions(self.buffer.queues)
        delivery_timeout = DeliveryTimeout(self.client, self.buffer.state)
        failures = FailureHandler(
            state=self.buffer.state,
            written=self.reporting.written,
            transaction_manager=self.transaction_manager,
            statuses=self.reporting.builder.failures,
        )
        completer = BatchCompleter(
            client=self.client,
            accumulator=self.buffer.accumulator,
            partitions=partitions,
            delivery_timeout=delivery_timeout,
            identity=self.identity,
            listeners=self.reporting.listeners,
            failures=failures,
        )
        rejections = self._rejections(partitions, completer, failures)
        responses = ResponseHandler(
            client=self.client,
            identity=self.identity,
            delivery_timeout=delivery_timeout,
            completer=completer,
            failures=failures,
            rejections=rejections,
            breakers=self.buffer.breakers,
            listeners=self.reporting.listeners,
        )
        requests = RequestSender(
            client=self.client,
            identity=self.identity,
            delivery_timeout=delivery_timeout,
            responses=responses,
            transaction_manager=self.transaction_manager,
            listeners=self.reporting.listeners,
            complete_unsent=self._dry_run(completer) if self.settings.dry_run else None,
        )
        return Sender(
            client=self.client,
            state=self.buffer.state,
            accumulator=self.buffer.accumulator,
            partitions=partitions,
            completer=completer,
            failures=failures,
            identity_requests=self._identity_requests(rejections, failures),
            drainer=self._drainer(partitions),
            requests=requests,
            responses=responses,
            statistics=self._statistics(partitions),
            broker_meters=self.reporting.builder.recorder.brokers,
        )

    def _rejections(
        self, partitions: SessionPartitions, completer: BatchCompleter, failures: FailureHandler
    ) -> RejectionHandler:
        config, clock, topic = self.client.config, self.client.clock, self.dead_letter_topic
        return RejectionHandler(
            config=config,
            partitions=partitions,
            completer=completer,
            failures=failures,
            bad_rows=self.bad_rows,
            dead_letters=None if topic is None else DeadLetterBatches(config, clock, topic),
            acls=self.acls,
        )

    def _identity_requests(
        self, rejections: RejectionHandler, failures: FailureHandler
    ) -> IdentityRequests:
        requester = ProducerIdRequester(self.client, self.identity, self.acls)
        return IdentityRequests(
            requester=requester if self.client.config.enable_idempotence else None,
            transaction_manager=self.transaction_manager,
            state=self.buffer.state,
            rejections=rejections,
            failures=failures,
            listeners=self.reporting.listeners,
        )

    def _drainer(self, partitions: SessionPartitions) -> Drainer:
        return Drainer(
            client=self.client,
            accumulator=self.buffer.accumulator,
            assigned_topics=self.buffer.assigned_topics,
            queues=self.buffer.queues,
            breakers=self.buffer.breakers,
            partitions=partitions,
            transaction_manager=self.transaction_manager,
        )

    def _dry_run(
        self, completer: BatchCompleter
    ) -> Callable[[int, list[DrainedBatch], float], None]:
        from spark_kafka_sink.producer.send.dry_run import DryRun  # rarely needed

        dry_run = DryRun(
            client=self.client,
            listeners=self.reporting.listeners,
            report=self.reporting.builder,
            completer=completer,
        )
        return dry_run.complete

    def _statistics(self, partitions: SessionPartitions) -> Statistics:
        return Statistics(
            name=self.reporting.events.session,
            path=self.settings.statistics_path,
            client=self.client,
            accumulator=self.buffer.accumulator,
            pool=self.buffer.pool,
            identity=self.identity,
            report_builder=self.reporting.builder,
            partitions=partitions,
            transaction_manager=self.transaction_manager,
        )
