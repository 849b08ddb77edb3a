"""Create the parts of a session, and connect them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.producer.acl_advisor import AclAdvisor
from spark_kafka_sink.producer.append.admission_control import AdmissionControl
from spark_kafka_sink.producer.append.chunk_encoder import ChunkEncoder
from spark_kafka_sink.producer.append.partitioner import Partitioner
from spark_kafka_sink.producer.append.sticky_partitioner import StickyPartitioner
from spark_kafka_sink.producer.append.topic_metadata import TopicMetadata
from spark_kafka_sink.producer.append.validator import RowValidator
from spark_kafka_sink.producer.bad_rows.bad_row_counter import BadRowCounter
from spark_kafka_sink.producer.bad_rows.dead_letter import DeadLetterTopic
from spark_kafka_sink.producer.buffer.session_buffer import SessionBuffer
from spark_kafka_sink.producer.producer_id import ProducerIdentity, ProducerIdRequester
from spark_kafka_sink.producer.reporting.session_reporting import SessionReporting
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
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.producer.statistics.librdkafka_statistics import Statistics
from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.send.session_partitions import DrainedBatch
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings


class SessionAssembly:
    """Creates the parts of one session.

    The attributes are parts that several others use; `make_*` creates each of the others once.
    The arguments are those of `ProducerSession`.
    """

    def __init__(
        self,
        client: ProducerClient,
        identity: ProducerIdentity | None,
        settings: SessionSettings | None,
        executor: Executor | None,
        transaction: TransactionSettings | None,
    ) -> None:
        self.client = client
        if transaction is not None:
            identity = ProducerIdentity(transactional_id=transaction.transactional_id)
        self.identity = identity or ProducerIdentity()
        self.identity.begin_session()
        self.settings = settings or SessionSettings()
        self.reporting = SessionReporting(client.config, self.settings)
        self.buffer = SessionBuffer(
            client, self.settings.throttling, self.reporting.listeners, executor
        )
        policy = self.settings.dead_letters
        acl = None if transaction is None else transaction.acl
        self.acls = AclAdvisor(client, policy.dead_letter_topic, acl)
        self.bad_rows = BadRowCounter(policy, self.acls)
        self.dead_letter_topic = DeadLetterTopic.of(
            policy, self.settings.task_number, client.config.max_record_size, self.acls
        )
        self.transaction_manager: TransactionManager | None = None
        if transaction is not None:
            self.transaction_manager = TransactionManager(
                client, self.identity, transaction, self.acls
            )
        self.topics = TopicMetadata(client, self.acls, self.buffer.state)
        self.partitioner = Partitioner(client.config, client.random)

    # The parts of the writer thread.

    def make_validator(self) -> RowValidator:
        """Create the first stage of a chunk."""
        return RowValidator(
            config=self.client.config,
            bad_rows=self.bad_rows,
            dead_letter_topic=self.dead_letter_topic,
            topics=self.topics,
            partitioner=self.partitioner,
        )

    def make_admission_control(self) -> AdmissionControl:
        """Create the stage that delays chunks."""
        return AdmissionControl(
            config=self.client.config,
            metadata=self.client.metadata,
            rates=self.settings.throttling.rates,
            state=self.buffer.state,
            pool=self.buffer.pool,
            quotas=self.buffer.quotas,
            breakers=self.buffer.breakers,
            topics=self.topics,
        )

    def make_sticky_partitioner(self) -> StickyPartitioner:
        """Create the stage that chooses partitions of rows without a key."""
        return StickyPartitioner(
            config=self.client.config,
            clock=self.client.clock,
            random=self.client.random,
            learned_limits=self.client.batch_size_limits,
            accumulator=self.buffer.accumulator,
            assigned_topics=self.buffer.assigned_topics,
            queues=self.buffer.queues,
            breakers=self.buffer.breakers,
        )

    def make_encoder(self) -> ChunkEncoder:
        """Create the stage that encodes chunks."""
        client = self.client
        return ChunkEncoder(
            client.config, client.clock, client.batch_size_limits, self.buffer.accumulator
        )

    # The parts of the sender thread.

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
        rejections = self._make_rejections(partitions, completer, failures)
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
            complete_unsent=self._make_dry_run(completer) if self.settings.dry_run else None,
        )
        return Sender(
            client=self.client,
            state=self.buffer.state,
            accumulator=self.buffer.accumulator,
            partitions=partitions,
            completer=completer,
            failures=failures,
            identity_requests=self._make_identity_requests(rejections, failures),
            drainer=self._make_drainer(partitions),
            requests=requests,
            responses=responses,
            statistics=self._make_statistics(partitions),
            broker_meters=self.reporting.builder.recorder.brokers,
        )

    def _make_rejections(
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

    def _make_identity_requests(
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

    def _make_drainer(self, partitions: SessionPartitions) -> Drainer:
        return Drainer(
            client=self.client,
            accumulator=self.buffer.accumulator,
            assigned_topics=self.buffer.assigned_topics,
            queues=self.buffer.queues,
            breakers=self.buffer.breakers,
            partitions=partitions,
            transaction_manager=self.transaction_manager,
        )

    def _make_dry_run(
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

    def _make_statistics(self, partitions: SessionPartitions) -> Statistics:
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
