"""Start, end, describe, list and fence transactions of any producer, from any process.

A coordinator only requires the transactional id, the producer id and the epoch. The driver can
therefore end transactions that its tasks have left open.

Source: ``TransactionManager``, ``KafkaAdminClient``; KIP-98, KIP-360, KIP-664, KIP-890.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common import errors
from spark_kafka_sink.kafka.admin.transaction_handlers import (
    DescribeProducersHandler,
    DescribeTransactionsHandler,
    EndTxnHandler,
    InitProducerIdHandler,
    ListBrokersHandler,
    ListTransactionsHandler,
)
from spark_kafka_sink.kafka.blocking.api_driver import ApiDriver, KeyResult, request_one
from spark_kafka_sink.kafka.blocking.coordinator_lookup import TransactionCoordinatorLookup
from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import (
    FATAL_TO_PRODUCER,
    FENCED,
    ClientErrorCode,
    ErrorCode,
    error_name,
)
from spark_kafka_sink.kafka.protocol.transactions import (
    OPEN_STATES,
    TransactionalProducer,
    TransactionState,
)
from spark_kafka_sink.kafka.protocol.versions import UnsupportedApiError
from spark_kafka_sink.kafka.security.acl_errors import denied_error, topic_acl, transactional_id_acl

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spark_kafka_sink.kafka.admin.transaction_description import (
        ActiveProducer,
        TransactionDescription,
        TransactionListing,
    )
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_FENCING_TIMEOUT_MS = 10_000
"""transaction.timeout.ms for fencing. The new producers never start a transaction."""
MAX_CONNECTIONS = 4
"""Maximum connections per coordinator for ending many transactions."""
_IDS_PER_CONNECTION = 100


class TransactionAdmin:
    """Admin functions for transactions of any producer.

    Deadlines are in seconds of the client's clock; None for no deadline.

    Args:
        client: sends the requests; the caller closes it.
        prefix: prefix of the transactional ids; used for the missing ACL in errors.
    """

    def __init__(self, client: BlockingClient, prefix: str | None = None) -> None:
        self._client = client
        self._prefix = prefix

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        deadline: float | None,
        current: TransactionalProducer | None = None,
    ) -> TransactionalProducer:
        """Return a producer with a new epoch; fence earlier producers and end their transaction.

        Args:
            transactional_id: the transactional id.
            timeout_ms: transaction.timeout.ms.
            deadline: time limit; after a lost response, the request is retried.
            current: the producer whose epoch is bumped, if it is still the latest producer
                (KIP-360).

        Raises:
            FencedError: a newer producer has fenced `current`.
            AuthorizationError: an ACL is missing; the error contains it.
            ConfigError: the brokers do not allow this timeout.
            TransactionError: the coordinator rejects the request for a different reason.
            BrokerUnavailableError: the deadline has passed.
        """
        handler = InitProducerIdHandler(
            timeout_ms, None if current is None else {transactional_id: current}
        )
        action = f"InitProducerId of {transactional_id}"
        result = request_one(self._client, handler, transactional_id, deadline, action)
        if result.value is not None:
            return result.value
        if result.code == ErrorCode.invalid_transaction_timeout:
            raise errors.ConfigError(
                f"transaction.timeout.ms = {timeout_ms} exceeds the brokers' maximum",
                kafka_error=error_name(result.code),
                hint="Lower it, or raise transaction.max.timeout.ms on the brokers.",
            )
        raise self.rejection("InitProducerId", transactional_id, result.code)

    def end(
        self, transactions: Sequence[TransactionalProducer], *, commit: bool, deadline: float | None
    ) -> dict[str, int]:
        """Commit or abort transactions in parallel.

        Calls can safely be repeated. COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR, CONCURRENT_TRANSACTIONS and lost connections are retried until the
        deadline.

        Returns:
            Kafka's error code for each transactional id; 0 for success. Without a final response,
            this is the latest error code, or `ClientErrorCode.disconnected` if there was no
            response.
        """
        ids = [transaction.transactional_id for transaction in transactions]
        lookup = TransactionCoordinatorLookup(
            self._client, connections=min(MAX_CONNECTIONS, 1 + len(ids) // _IDS_PER_CONNECTION)
        )
        driver = ApiDriver(self._client, EndTxnHandler(transactions, commit=commit), ids, lookup)
        codes = _codes_by_id(driver, deadline)
        return {name: codes[name] for name in ids}

    def fence(self, transactional_ids: Collection[str], deadline: float | None) -> dict[str, int]:
        """Abort open transactions with InitProducerId in parallel; return error codes like `end`.

        Earlier producers with these ids are fenced. If a coordinator has already started to commit
        a transaction, the transaction is committed. Some brokers fence the producer, but leave its
        transaction open: it is aborted with EndTxn. The code of a transaction that nevertheless
        stays open is CONCURRENT_TRANSACTIONS.
        """
        handler = InitProducerIdHandler(_FENCING_TIMEOUT_MS)
        driver = ApiDriver(self._client, handler, transactional_ids)
        codes = _codes_by_id(driver, deadline)
        fenced = [result.value for result in driver.results.values() if result.value is not None]
        if still_open := self._still_open(fenced, deadline):
            codes |= self.end(still_open, commit=False, deadline=deadline)
            for producer in self._still_open(still_open, deadline):
                codes[producer.transactional_id] = int(ErrorCode.concurrent_transactions)
        return codes

    def _still_open(
        self, fenced: Sequence[TransactionalProducer], deadline: float | None
    ) -> list[TransactionalProducer]:
        """Return the producers whose transaction is open although InitProducerId has fenced it."""
        try:
            described = self.describe([producer.transactional_id for producer in fenced], deadline)
        except UnsupportedApiError:  # Kafka before 3.0 ends the transaction.
            return []
        states = [(producer, described.get(producer.transactional_id)) for producer in fenced]
        return [
            producer
            for producer, description in states
            if description is not None
            and description.state is TransactionState.ONGOING
            and description.is_of(producer)
        ]

    def describe(
        self, transactional_ids: Collection[str], deadline: float | None
    ) -> dict[str, TransactionDescription]:
        """Return the state of each transactional id that exists at its coordinator.

        Raises:
            ProtocolError: a broker is older than Kafka 3.0, which introduced DescribeTransactions.
            AuthorizationError: an ACL is missing; the error contains it.
            BrokerUnavailableError: the deadline has passed.
        """
        action = "DescribeTransactions"
        driver = ApiDriver(self._client, DescribeTransactionsHandler(), transactional_ids)
        coordinators = {}
        for name, result in driver.complete(deadline, action).items():
            if result.value is not None:
                coordinators[name] = result.value
            elif result.code != ErrorCode.transactional_id_not_found:
                raise self.rejection(action, name, result.code, AclOperation.DESCRIBE)
        return coordinators

    def list(
        self,
        pattern: str | None,
        deadline: float | None,
        states: Sequence[TransactionState] = OPEN_STATES,
    ) -> list[TransactionListing]:
        """Return the transactions whose entire id matches a pattern, sorted by id.

        Transactions that this client is not authorized to describe are omitted.

        Args:
            pattern: a regular expression that is valid in Python and RE2, or None for all ids.
            deadline: time limit.
            states: the states to list; empty for all states. By default, all open states.

        Raises:
            ProtocolError: a broker is older than Kafka 3.0, which introduced ListTransactions.
            BrokerUnavailableError: the deadline has passed.
        """
        matches = re.compile(pattern or ".*", re.DOTALL).fullmatch
        self._client.await_metadata(deadline)
        current = frozenset(self._client.cluster.nodes)
        while True:
            brokers = current
            listed = self._list_on_brokers(brokers, states, pattern, deadline)
            if listed is None:
                listed = self._list_on_brokers(brokers, states, None, deadline)
            if listed is None:
                raise errors.ProtocolError(
                    "ListTransactions was rejected, although it contained no pattern",
                    kafka_error=error_name(ErrorCode.invalid_regular_expression),
                )
            current = self._broker_ids(deadline)
            if brokers == current:
                break  # Otherwise, coordinators might have moved during the listing.
        listings = {
            listing.transactional_id: listing
            for listing in listed
            if matches(listing.transactional_id)
            and (not states or listing.state in {*states, TransactionState.UNKNOWN})
        }
        return [listings[name] for name in sorted(listings)]

    def describe_producers(
        self, partitions: Collection[TopicPartition], deadline: float | None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the active producers of each partition, with their open transactions.

        Raises:
            ProtocolError: a broker is older than Kafka 2.8, which introduced DescribeProducers.
            AuthorizationError: an ACL is missing; the error contains it.
            UnknownTopicError: the partition does not exist.
            BrokerUnavailableError: the deadline has passed.
        """
        driver = ApiDriver(self._client, DescribeProducersHandler(), partitions)
        results = driver.complete(deadline, "DescribeProducers")
        return {key: self._active_producers(key, result) for key, result in results.items()}

    def rejection(
        self,
        action: str,
        transactional_id: str,
        code: int,
        operation: AclOperation = AclOperation.WRITE,
    ) -> errors.KafkaProdError:
        """Return an error for a final error code of a transactional id.

        Args:
            action: the request, such as "EndTxn".
            transactional_id: the transactional id.
            code: Kafka's error code, not 0.
            operation: the operation of the missing ACL, if the code is an authorization error.
        """
        if code == ErrorCode.transactional_id_authorization_failed:
            acl = transactional_id_acl(operation, transactional_id, self._prefix)
            return denied_error(self._client.config, action, code, acl)
        if code in FENCED:
            return errors.FencedError(
                f"{action} of {transactional_id}: a newer producer with this id has fenced this "
                f"producer",
                kafka_error=error_name(code),
            )
        fatal = ", and all further requests will also be rejected" * (code in FATAL_TO_PRODUCER)
        return errors.TransactionError(
            f"{action} of {transactional_id} was rejected{fatal}", kafka_error=error_name(code)
        )

    def _list_on_brokers(
        self,
        brokers: Collection[int],
        states: Sequence[TransactionState],
        pattern: str | None,
        deadline: float | None,
    ) -> Sequence[TransactionListing] | None:
        """Return the transactions that brokers list, or None if a broker rejects the pattern."""
        action = "ListTransactions"
        handler = ListTransactionsHandler(states, pattern)
        driver = ApiDriver(self._client, handler, brokers)
        results = driver.complete(deadline, action).values()
        if any(result.code == ErrorCode.invalid_regular_expression for result in results):
            return None
        for result in results:
            if result.code not in {0, ErrorCode.broker_not_available}:
                raise errors.TransactionError(
                    f"{action} was rejected",
                    broker=str(result.node),
                    kafka_error=error_name(result.code),
                )
        return [listing for result in results for listing in result.value or ()]

    def _broker_ids(self, deadline: float | None) -> frozenset[int]:
        """Return the ids of all brokers, as reported by one broker."""
        action = "Metadata"
        result = request_one(self._client, ListBrokersHandler(), action, deadline, action)
        if result.code or not result.value:
            raise errors.ProtocolError(
                "the broker listed no brokers in its response to Metadata",
                broker=str(result.node),
                kafka_error=error_name(result.code) if result.code else None,
            )
        return result.value

    def _active_producers(
        self, topic_partition: TopicPartition, result: KeyResult[tuple[ActiveProducer, ...]]
    ) -> tuple[ActiveProducer, ...]:
        action = "DescribeProducers"
        if result.code == ErrorCode.topic_authorization_failed:
            raise denied_error(
                self._client.config,
                action,
                result.code,
                topic_acl(AclOperation.READ, topic_partition.topic),
            )
        if result.code:
            raise errors.UnknownTopicError(
                f"{action} was rejected: {result.message or 'the partition does not exist'}",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                kafka_error=error_name(result.code),
            )
        return result.value or ()


def _codes_by_id(driver: ApiDriver[str, Any], deadline: float | None) -> dict[str, int]:
    """Return the error codes by id: the latest code of an unfinished id."""
    driver.run(deadline)
    codes = {key: result.code for key, result in driver.results.items()}
    lost = int(ClientErrorCode.disconnected)
    return codes | {
        key: lost if code is None else code for key, code in driver.unfinished_codes.items()
    }
