"""The settings of a session, and the objects that the session's parts share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.debug_log import new_id
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.recreated_topics import WrittenTopics
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
from spark_kafka_sink.config.sink_config import DEFAULT_CLIENT_ID
from spark_kafka_sink.config.throttling import ThrottlingConfig
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.producer.acl_advisor import AclAdvisor
from spark_kafka_sink.producer.bad_rows import BadRowCounter
from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.assigned_topics import AssignedTopics
from spark_kafka_sink.producer.buffer.batch_listener import BatchListeners
from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
from spark_kafka_sink.producer.buffer.buffer_quotas import BufferQuotas
from spark_kafka_sink.producer.buffer.circuit_breakers import CircuitBreakers
from spark_kafka_sink.producer.buffer.compressor import Compressor
from spark_kafka_sink.producer.buffer.producer_events import ProducerEvents
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.dead_letter import DeadLetterTopic
from spark_kafka_sink.producer.report_listener import ReportListener
from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager
from spark_kafka_sink.report.report_builder import ReportBuilder

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.client.client import Client
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.transactions.producer_transaction import TransactionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The sink's options for a session, and the number of the session's Spark task."""

    dead_letters: DeadLetterPolicy = field(default_factory=DeadLetterPolicy)
    throttling: ThrottlingConfig = field(default_factory=ThrottlingConfig)
    client_id: str = ""
    """The client id if client.id is not configured."""
    task_number: int = 0
    dry_run: bool = False
    """True for a dry run: batches are built but not sent."""
    assumed_topics: tuple[tuple[str, int], ...] = ()
    """Names and partition counts to assume for missing topics, in a dry run."""
    statistics_path: str | None = None
    """Path of the session's statistics files, without suffix; None to log the statistics."""
    arrow_batch_limits: tuple[tuple[str, str], ...] = ()
    """Spark's limits for the Arrow batches passed to the sink, by option name, for the advisor."""
    formats: tuple[tuple[str, str], ...] = ()
    """Formats, schema ids and subjects of the key and the value, by name, for the report."""


class SessionContext:
    """The shared objects of a new session on a client.

    Raises:
        ConfigError: a transaction was requested, but the producer is not idempotent.
    """

    def __init__(
        self,
        client: Client,
        *,
        identity: ProducerIdentity,
        settings: SessionSettings,
        transaction: TransactionSettings | None = None,
        executor: Executor | None = None,
    ) -> None:
        config, throttling = client.config, settings.throttling
        self.client = client
        self.identity = identity
        self.settings = settings
        self.report_builder = _report_builder(config, settings)
        self.written = WrittenTopics()
        self.events = ProducerEvents(new_id(), config.debug)
        self.listeners = BatchListeners(
            (ReportListener(self.report_builder), *((self.events,) if config.debug else ()))
        )
        """The report and the debug events, which follow the batches."""
        self.state = SessionState(client.clock, client.network.wakeup, client.check_thread)
        self.pool = BufferPool(config, self.state, self.listeners)
        self.quotas = BufferQuotas.of_percent(
            throttling.buffer_share, config.buffer_memory, self.state.lock
        )
        self.queues = BatchQueues(self.state.lock)
        self.compressor = Compressor(config, client.clock, client.network.wakeup, executor)
        self.accumulator = Accumulator(
            config,
            state=self.state,
            pool=self.pool,
            quotas=self.quotas,
            queues=self.queues,
            compressor=self.compressor,
            listeners=self.listeners,
        )
        self.assigned_topics = AssignedTopics(
            self.state, self.accumulator, self.queues, self.quotas
        )
        transaction_acl = None if transaction is None else transaction.acl
        self.acls = AclAdvisor(client, settings.dead_letters.dead_letter_topic, transaction_acl)
        self.bad_rows = BadRowCounter(settings.dead_letters, self.acls)
        self.dead_letter_topic = _dead_letter_topic(settings, config.max_record_size, self.acls)
        """None if dead letters are not written."""
        self.breakers = CircuitBreakers(throttling)
        self.transaction_manager = _transaction_manager(client, identity, transaction, self.acls)
        """None if the session does not write in a transaction."""


def _report_builder(config: ProducerConfig, settings: SessionSettings) -> ReportBuilder:
    client_id = config.client_id or settings.client_id or DEFAULT_CLIENT_ID
    options = (*config.pipeline(), *settings.arrow_batch_limits, *settings.formats)
    reported_settings = tuple(sorted((*options, ("client.id", client_id))))
    return ReportBuilder(reported_settings, dry_run=settings.dry_run)


def _transaction_manager(
    client: Client,
    identity: ProducerIdentity,
    transaction: TransactionSettings | None,
    acls: AclAdvisor,
) -> TransactionManager | None:
    if transaction is None:
        return None
    if not client.config.enable_idempotence:
        raise ConfigError(
            "a transaction needs an idempotent producer",
            hint="Set kafka.enable.idempotence=true and kafka.acks=all.",
        )
    return TransactionManager(client, identity, transaction, acls)


def _dead_letter_topic(
    settings: SessionSettings, largest: int, acls: AclAdvisor
) -> DeadLetterTopic | None:
    policy = settings.dead_letters
    if policy.dead_letter_topic is None:
        return None
    return DeadLetterTopic(
        name=policy.dead_letter_topic,
        context_headers=policy.context_headers,
        task=settings.task_number,
        largest=largest - HEADER_SIZE,
        acls=acls,
    )
