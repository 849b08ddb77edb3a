"""The driver's basic operations on Kafka: fence, end, describe, and checks of the brokers."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError, FencedError, TransactionError
from spark_kafka_sink.common.recreated_topics import check_topic_ids
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once.decision_log import DRIVER_TIMEOUT_MS
from spark_kafka_sink.exactly_once.steps.call_timer import CallTimer
from spark_kafka_sink.exactly_once.steps.scope_log import MARKER_TIMEOUT_S, ScopeLog
from spark_kafka_sink.exactly_once.steps.transaction_checks import check_committable
from spark_kafka_sink.exactly_once.task_transaction import ids_of
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    abort_flag_id,
    driver_transactional_id,
    nonces_of,
)
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, borrowed_client
from spark_kafka_sink.kafka.protocol.error_codes import TRANSACTION_ENDED, ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey, UnsupportedApiError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from spark_kafka_sink.common.recreated_topics import WrittenTopic
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

ABORT_TIMEOUT_S = 15.0
"""Time limit in seconds for each request of an abort; max.block.ms may be shorter."""
_TOPIC_PAUSE_S = 0.1
_APIS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.PRODUCE,
    ApiKey.END_TXN,
    ApiKey.LIST_OFFSETS,
    ApiKey.FETCH,
)
"""APIs without which no batch can be decided; AddPartitionsToTxn only with transactions V1."""
_LOG = logging.getLogger(__name__)


class ScopeClient:
    """The Kafka operations of Spark's driver for one scope; used for one plan, commit or abort.

    Args:
        client: sends the requests; it is not closed.
        config: the sink's settings, with a transactionalIdPrefix.
        scope: the scope whose epochs, decisions and transactions are changed.
        deadline: for all steps before a decision, in seconds of the client's clock; by default it
            follows from max.block.ms.
    """

    def __init__(
        self,
        client: BlockingClient,
        config: SinkConfig,
        scope: Scope,
        deadline: float | None = None,
    ) -> None:
        self.scope = scope
        self.timer = CallTimer(client.clock, config.producer.max_block_ms / 1000, deadline)
        self.client = client
        self.admin = TransactionAdmin(client, acl_prefix(scope.prefix))
        self.log = ScopeLog(client, self.admin, config.exactly_once, scope, self.timer)
        self._config = config

    def for_scope(self, scope: Scope, deadline: float | None = None) -> ScopeClient:
        """Return the client of another scope, with the same connections.

        The default deadline is max.block.ms.
        """
        return ScopeClient(self.client, self._config, scope, deadline)

    def fence(self, timeout_ms: int = DRIVER_TIMEOUT_MS) -> TransactionalProducer:
        """Begin a new epoch for this driver; earlier drivers of the scope can no longer append.

        `timeout_ms` is the timeout of the transaction, by default of one append to the log.
        """
        name = driver_transactional_id(self.scope)
        return self.admin.init_producer_id(name, timeout_ms, self.timer.deadline)

    def end_epoch(self, owner: TransactionalProducer) -> None:
        """Abort the open transaction of an epoch, and end the epoch.

        The epoch of a newer driver is not affected: its EndTxn is rejected, whereas InitProducerId
        would abort the open transaction of any epoch.

        Raises:
            BrokerUnavailableError: the coordinator has not confirmed the abort.
        """
        codes = self.admin.end([owner], commit=False, deadline=self.timer.deadline)
        code = codes[owner.transactional_id]
        if code not in TRANSACTION_ENDED:
            raise self.client.unavailable_error(f"aborting {owner.transactional_id}", code)
        is_current = code in {ErrorCode.none, ErrorCode.invalid_txn_state}
        if is_current and not owner.version.bumps_epoch:
            with suppress(FencedError):
                self.admin.init_producer_id(
                    owner.transactional_id, DRIVER_TIMEOUT_MS, self.timer.deadline, owner
                )

    def commit(
        self, transactions: Sequence[TransactionalProducer], deadline: float
    ) -> dict[str, int]:
        """Commit transactions in parallel; see `TransactionAdmin.end`."""
        return self.admin.end(transactions, commit=True, deadline=deadline)

    def create_abort_flags(self, nonces: Collection[str]) -> None:
        """Create the abort flags of these plannings; raise a KafkaProdError on failure.

        Once the flags exist, no task of these plannings begins a transaction.
        """
        for nonce in nonces:
            deadline = self.timer.deadline_in(ABORT_TIMEOUT_S)
            flag = abort_flag_id(self.scope, nonce)
            self.admin.init_producer_id(flag, DRIVER_TIMEOUT_MS, deadline)

    def check_can_describe_producers(self) -> None:
        """Raise a ConfigError if the decision log's leader is too old for atomicBatch."""
        log = TopicPartition(self._config.exactly_once.decision_log_topic, 0)
        try:
            self.admin.describe_producers((log,), self.timer.deadline)
        except UnsupportedApiError as error:
            raise ConfigError(
                "option atomicBatch requires brokers that support DescribeProducers",
                broker=error.broker,
                kafka_error=error.kafka_error,
                hint="Use Kafka 2.8 or later, or remove the option.",
            ) from error

    def check_apis(self) -> None:
        """Raise a ConfigError unless the brokers support all APIs of transactions."""
        self.client.await_metadata(self.timer.deadline)
        for broker in self.client.brokers():
            if not broker.is_ready:
                continue
            version = broker.versions.transaction_version
            needed = [*_APIS]
            if version.needs_add_partitions:
                needed.append(ApiKey.ADD_PARTITIONS_TO_TXN)
            for api in needed:
                try:
                    broker.versions.latest_usable(api)
                except UnsupportedApiError as error:
                    raise ConfigError(
                        f"deliveryGuarantee=exactly-once requires {api.name}: {error.message}",
                        broker=str(broker.node),
                        kafka_error=error.kafka_error,
                        hint="Use brokers that support Kafka's transactions, or "
                        "deliveryGuarantee=at-least-once.",
                    ) from error

    def check_not_recreated(self, written: Sequence[WrittenTopic]) -> None:
        """Raise a DeliveryError if a topic was deleted or recreated after a task had written to it.

        The task's transaction can still be committed, although its records are lost.
        """
        if not written:
            return
        names = sorted({written_topic.topic for written_topic in written})
        deadline = self.timer.deadline_in(MARKER_TIMEOUT_S)
        current = TopicAdmin(self.client).ids(names, self.timer.deadline)
        # A broker may not know a new topic yet.
        while None in current.values() and self.timer.now() < deadline:
            self.client.pause(_TOPIC_PAUSE_S, None)
            current = TopicAdmin(self.client).ids(names, self.timer.deadline)
        check_topic_ids(written, current)

    def check_committable(
        self, transactions: Sequence[TaskTransaction], seconds: float | None = None
    ) -> None:
        """Raise a TransactionError unless all transactions can still be committed.

        An abort flag of their planning also fails the check. abort() creates the flag before it
        reads the log and aborts, and the last check follows the append of the decision, so at least
        one side detects the other.

        `seconds` is the time limit; None means the rest of max.block.ms.
        """
        deadline = self.timer.deadline
        if seconds is not None:
            deadline = min(deadline, self.timer.now() + seconds)
        flags = {abort_flag_id(self.scope, nonce) for nonce in nonces_of(transactions)}
        described = self.describe([*ids_of(transactions), *flags], deadline)
        check_committable(transactions, described, self.timer.wall_ms())
        if flags.intersection(described or ()):
            raise TransactionError(
                "abort() was called for these tasks: the batch is not decided",
                hint="Start the query or the job again.",
            )

    def describe(
        self, ids: Collection[str], deadline: float
    ) -> dict[str, TransactionDescription] | None:
        """Return the coordinators' descriptions of these ids; None if brokers predate Kafka 3.0."""
        try:
            return self.admin.describe(ids, deadline)
        except UnsupportedApiError as error:
            _LOG.debug("transactions cannot be described: %s", error)
            return None

    def describe_tasks(
        self, tasks: Iterable[TaskTransaction]
    ) -> Mapping[str, TransactionDescription]:
        """Describe the tasks' transactions within max.block.ms; empty before Kafka 3.0."""
        return self.describe(ids_of(tasks), self.timer.deadline) or {}


@contextmanager
def connected_scope_client(config: SinkConfig, scope: Scope) -> Iterator[ScopeClient]:
    """Yield the client of a scope, with connections that this process has kept, or new ones."""
    with borrowed_client(config.producer) as client:
        yield ScopeClient(client, config, scope)
