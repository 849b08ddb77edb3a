"""Start, end, describe, list and fence transactions of any producer, from any process.

A coordinator requires only transactional id, producer id and epoch, so the driver can end the
transactions that its tasks have left open. Source: ``TransactionManager``, ``KafkaAdminClient``;
KIP-98, KIP-360, KIP-664, KIP-890.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_kafka_sink.admin.api_driver import ApiDriver, K, KeyResult, V
from spark_kafka_sink.admin.blocking_client import denied, on_topic, on_transactional_id
from spark_kafka_sink.admin.handlers.transactions import (
    DescribeProducersHandler,
    DescribeTransactionsHandler,
    EndTxnHandler,
    InitProducerIdHandler,
    ListTransactionsHandler,
)
from spark_kafka_sink.admin.lookups import BrokerLookup, CoordinatorLookup, LeaderLookup
from spark_kafka_sink.common.errors import (
    ConfigError,
    FencedError,
    KafkaProdError,
    TransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.protocol.error_codes import (
    FATAL_TO_PRODUCER,
    FENCED,
    ClientErrorCode,
    ErrorCode,
    error_name,
)
from spark_kafka_sink.protocol.transactions import OPEN_STATES
from spark_kafka_sink.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.handlers.transactions import (
        ActiveProducer,
        ListedTransaction,
        TransactionDescription,
    )
    from spark_kafka_sink.client.cluster import TopicPartition
    from spark_kafka_sink.protocol.transactions import OpenTransaction, TransactionState

_FENCING_TIMEOUT_MS = 10_000
"""transaction.timeout.ms of fenced ids, which never start a transaction."""
MAX_LANES = 4
"""Maximum connections per coordinator when many transactions end."""
PER_LANE = 100
"""Number of transactions per connection."""
_DENIED = ErrorCode.transactional_id_authorization_failed


class TransactionAdmin:
    """Administration of transactions of any producer.

    Deadlines are in seconds of the client's clock; None for no deadline.

    Args:
        client: sends the requests; the caller closes it.
        prefix: prefix of the transactional ids, for the ACL that an error names.
    """

    def __init__(self, client: BlockingClient, prefix: str | None = None) -> None:
        self._client = client
        self._prefix = prefix

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        deadline: float | None,
        current: OpenTransaction | None = None,
    ) -> OpenTransaction:
        """Return a producer at a new epoch; fence earlier ones and end their open transaction.

        Args:
            transactional_id: the transactional id.
            timeout_ms: transaction.timeout.ms.
            deadline: when to give up; after a lost response, the request is retried.
            current: bump the epoch only if this is still the latest producer (KIP-360).

        Raises:
            FencedError: another producer has fenced `current`.
            AuthorizationError: an ACL is missing, which the error names.
            ConfigError: the brokers do not allow this timeout.
            TransactionError: the coordinator rejects the request for another reason.
            BrokerUnavailableError: the deadline has passed.
        """
        known = None if current is None else {transactional_id: current}
        handler = InitProducerIdHandler(timeout_ms, known)
        driver = ApiDriver(
            self._client, handler, CoordinatorLookup(self._client), (transactional_id,)
        )
        if not driver.run(deadline):
            raise self._too_late(f"InitProducerId of {transactional_id}", driver)
        result = driver.results[transactional_id]
        if result.value is not None:
            return result.value
        if result.code == ErrorCode.invalid_transaction_timeout:
            raise ConfigError(
                f"transaction.timeout.ms = {timeout_ms} is more than the brokers allow",
                error=error_name(result.code),
                hint="lower it, or raise transaction.max.timeout.ms on the brokers",
            )
        raise self.refusal("InitProducerId", transactional_id, result.code)

    def end(
        self, transactions: Sequence[OpenTransaction], *, commit: bool, deadline: float | None
    ) -> dict[str, int]:
        """Commit or abort transactions in parallel.

        Repeating a call is safe. COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR, CONCURRENT_TRANSACTIONS and lost connections are retried until the
        deadline.

        Returns:
            Kafka's error code for each transactional id, 0 for success. An id without a final
            answer has its latest error code, or `ClientErrorCode.disconnected` without any.
        """
        return {key: result.code for key, result in self.end_all(transactions, commit, deadline)}

    def end_all(
        self, transactions: Sequence[OpenTransaction], commit: bool, deadline: float | None
    ) -> list[tuple[str, KeyResult[OpenTransaction]]]:
        """Like `end`; the value of a result is the producer for the next transaction."""
        ids = [each.transactional_id for each in transactions]
        handler = EndTxnHandler(transactions, commit=commit)
        lanes = min(MAX_LANES, 1 + len(ids) // PER_LANE)
        driver = ApiDriver(self._client, handler, CoordinatorLookup(self._client, lanes), ids)
        driver.run(deadline)
        unsettled: dict[str, KeyResult[OpenTransaction]] = {
            key: KeyResult(code=ClientErrorCode.disconnected if code is None else code)
            for key, code in driver.unsettled.items()
        }
        results = driver.results | unsettled
        return [(name, results[name]) for name in dict.fromkeys(ids)]

    def fence(self, transactional_ids: Collection[str], deadline: float | None) -> dict[str, int]:
        """Abort open transactions with InitProducerId, in parallel; return codes like `end`.

        Earlier producers with these ids are fenced. A transaction whose commit was already decided
        is committed.
        """
        handler = InitProducerIdHandler(_FENCING_TIMEOUT_MS)
        driver = ApiDriver(
            self._client, handler, CoordinatorLookup(self._client), transactional_ids
        )
        driver.run(deadline)
        codes = {key: result.code for key, result in driver.results.items()}
        for key, code in driver.unsettled.items():
            codes[key] = int(ClientErrorCode.disconnected) if code is None else code
        return codes

    def describe(
        self, transactional_ids: Collection[str], deadline: float | None
    ) -> dict[str, TransactionDescription]:
        """Return the state of each transactional id that its coordinator knows.

        Raises:
            ProtocolError: a broker is older than Kafka 3.0, the first with DescribeTransactions.
            AuthorizationError: an ACL is missing, which the error names.
            BrokerUnavailableError: the deadline has passed.
        """
        driver = ApiDriver(
            self._client,
            DescribeTransactionsHandler(),
            CoordinatorLookup(self._client),
            transactional_ids,
        )
        if not driver.run(deadline):
            raise self._too_late("DescribeTransactions", driver)
        found = {}
        for name, result in driver.results.items():
            if result.value is not None:
                found[name] = result.value
            elif result.code != ErrorCode.transactional_id_not_found:
                operation = Operation.DESCRIBE
                raise self.refusal("DescribeTransactions", name, result.code, operation)
        return found

    def list(
        self,
        pattern: str | None,
        deadline: float | None,
        states: Sequence[TransactionState] = OPEN_STATES,
    ) -> list[ListedTransaction]:
        """Return the transactions of all brokers whose whole id matches a pattern, sorted by id.

        Transactions that this client may not describe are omitted.

        Args:
            pattern: a regular expression valid in both Python and RE2; None for all ids.
            deadline: when to give up.
            states: the states to list, by default all open ones; empty for all.

        Raises:
            ProtocolError: a broker is older than Kafka 3.0, the first with ListTransactions.
            BrokerUnavailableError: the deadline has passed.
        """
        matches = re.compile(pattern or ".*", re.DOTALL)
        while True:
            brokers = self._brokers(deadline)
            listed = self._list(brokers, states, pattern, deadline)
            if listed is None:
                listed = self._list(brokers, states, None, deadline) or []
            if brokers == frozenset(self._client.cluster.nodes):
                break  # Otherwise, coordinators may have moved in the meantime.
        wanted = {
            one.transactional_id: one for one in listed if matches.fullmatch(one.transactional_id)
        }
        return sorted(wanted.values(), key=lambda one: one.transactional_id)

    def describe_producers(
        self, partitions: Collection[TopicPartition], deadline: float | None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the active producers of each partition, with their open transactions.

        Raises:
            ProtocolError: a broker is older than Kafka 2.8, the first with DescribeProducers.
            AuthorizationError: an ACL is missing, which the error names.
            UnknownTopicError: the partition does not exist.
            BrokerUnavailableError: the deadline has passed.
        """
        driver = ApiDriver(
            self._client, DescribeProducersHandler(), LeaderLookup(self._client), partitions
        )
        if not driver.run(deadline):
            raise self._too_late("DescribeProducers", driver)
        return {key: self._producers(key, result) for key, result in driver.results.items()}

    def refusal(
        self,
        what: str,
        transactional_id: str,
        code: int,
        operation: Operation = Operation.WRITE,
    ) -> KafkaProdError:
        """Return the error for a final error code of a transactional id.

        Args:
            what: the request, such as "EndTxn".
            transactional_id: the transactional id.
            code: Kafka's error code, not 0.
            operation: the operation of the missing ACL, if the code is an authorization error.
        """
        if code == _DENIED:
            acl = on_transactional_id(operation, transactional_id, self._prefix)
            return denied(self._client, what, code, acl)
        if code in FENCED:
            return FencedError(
                f"{what} of {transactional_id}: another producer has taken over this id",
                error=error_name(code),
            )
        fatal = " and so will be all others of this producer" if code in FATAL_TO_PRODUCER else ""
        return TransactionError(
            f"{what} of {transactional_id} was refused{fatal}", error=error_name(code)
        )

    def _list(
        self,
        brokers: Collection[int],
        states: Sequence[TransactionState],
        pattern: str | None,
        deadline: float | None,
    ) -> Sequence[ListedTransaction] | None:
        """Return the transactions that these brokers list; None if one rejects the pattern."""
        handler = ListTransactionsHandler(states, pattern)
        driver = ApiDriver(self._client, handler, BrokerLookup(self._client), brokers)
        if not driver.run(deadline):
            raise self._too_late("ListTransactions", driver)
        codes = {result.code for result in driver.results.values()}
        if ErrorCode.invalid_regular_expression in codes:
            return None
        for result in driver.results.values():
            if result.code not in {0, ErrorCode.broker_not_available}:
                raise TransactionError(
                    "ListTransactions was refused",
                    broker=str(result.node),
                    error=error_name(result.code),
                )
        return [one for result in driver.results.values() for one in result.value or ()]

    def _brokers(self, deadline: float | None) -> frozenset[int]:
        """Return the ids of all brokers."""
        self._client.await_metadata(deadline)
        return frozenset(self._client.cluster.nodes)

    def _producers(
        self, key: TopicPartition, result: KeyResult[tuple[ActiveProducer, ...]]
    ) -> tuple[ActiveProducer, ...]:
        what = "DescribeProducers"
        if result.code == ErrorCode.topic_authorization_failed:
            raise denied(self._client, what, result.code, on_topic(Operation.READ, key.topic))
        if result.code:
            raise UnknownTopicError(
                f"{what} was refused: {result.message or 'there is no such partition'}",
                topic=key.topic,
                partition=key.partition,
                error=error_name(result.code),
            )
        return result.value or ()

    def _too_late(self, what: str, driver: ApiDriver[K, V]) -> KafkaProdError:
        return self._client.unavailable(what, driver.latest_code)
