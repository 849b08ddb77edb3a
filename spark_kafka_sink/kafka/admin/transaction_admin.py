"""Start, end, describe, list and fence transactions of any producer, from any process.

A coordinator only requires the transactional id, the producer id and the epoch. The driver can
therefore end transactions that its tasks have left open. InitProducerId, EndTxn,
DescribeTransactions and ListTransactions are sent to coordinators, DescribeProducers to partition
leaders.

Source: ``TransactionManager``, ``KafkaAdminClient``, ``FenceProducersHandler``,
``DescribeTransactionsHandler``, ``ListTransactionsHandler``; KIP-98, KIP-360, KIP-664, KIP-890.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common import errors
from spark_kafka_sink.kafka.admin.api_driver import (
    MANY_KEYS,
    ApiDriver,
    ApiHandler,
    CoordinatorHandler,
    CoordinatorStrategy,
    KeyResult,
    LeaderHandler,
    request_one,
)
from spark_kafka_sink.kafka.admin.blocking_client import denied, on_topic, on_transactional_id
from spark_kafka_sink.kafka.admin.lookups import BrokerLookup, Lookup
from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import (
    CONNECTION_LOST,
    COORDINATOR_MOVED,
    FATAL_TO_PRODUCER,
    FENCED,
    ClientErrorCode,
    ErrorCode,
    error_name,
)
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import (
    OPEN_STATES,
    OpenTransaction,
    TransactionState,
    by_topic,
    end_txn,
    init_producer_id,
)
from spark_kafka_sink.kafka.protocol.versions import ApiKey, UnsupportedApiError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from spark_kafka_sink.kafka.admin.api_driver import NextStep
    from spark_kafka_sink.kafka.admin.blocking_client import BlockingClient, CallOutcome
    from spark_kafka_sink.kafka.protocol.messages import Values
    from spark_kafka_sink.kafka.protocol.transactions import TransactionVersion

_FENCING_TIMEOUT_MS = 10_000
"""transaction.timeout.ms for fencing. The new producers never start a transaction."""
MAX_CONNECTIONS = 4
"""Maximum connections per coordinator for ending many transactions."""
IDS_PER_CONNECTION = 100
_EPOCH_BUMP = 3
"""The first version of InitProducerId that can bump a given epoch (KIP-360)."""
_UNCLEAR = (COORDINATOR_MOVED | {ErrorCode.request_timed_out}) - {ClientErrorCode.not_sent}
"""Codes after which the coordinator might have ended the transaction anyway."""
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """The state of a transactional id at its coordinator."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int | None
    """Start of the transaction by the coordinator's clock, in milliseconds since 1970; None if
    there is no transaction."""
    topics: tuple[tuple[str, Sequence[int]], ...] = ()
    """Partitions of the transaction by topic, only for topics that this client is authorized to
    describe. The format is compact, because a driver stores the partitions of all tasks at once.
    """

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions in `topics`, sorted."""
        result = (
            TopicPartition(topic, number) for topic, numbers in self.topics for number in numbers
        )
        return tuple(sorted(result))

    def is_of(self, transaction: OpenTransaction) -> bool:
        """Return True if `transaction` has the same producer id and epoch."""
        return (self.producer_id, self.epoch) == (transaction.producer_id, transaction.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transaction in a ListTransactions response; `coordinator` is a broker id."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """An active producer of a partition, as reported by the leader.

    `last_sequence` and `coordinator_epoch` are -1 if they are not set. `last_timestamp_ms` is in
    milliseconds since 1970. `transaction_start` is the first offset of the open transaction, or
    None if no transaction is open.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


class InitProducerIdHandler(CoordinatorHandler[OpenTransaction]):
    """Returns producer ids for transactional ids, and fences earlier producers.

    Args:
        timeout_ms: transaction.timeout.ms.
        current: producers whose epoch is bumped (KIP-360); the request fails if there is a newer
            producer.
    """

    api = ApiKey.INIT_PRODUCER_ID

    def __init__(
        self, timeout_ms: int, current: Mapping[str, OpenTransaction] | None = None
    ) -> None:
        self._timeout_ms = timeout_ms
        self._current = current or {}

    def values(self, keys: Sequence[str], version: int) -> Values:
        """See `ApiHandler`."""
        current = self._current.get(keys[0])
        if current is not None and version < _EPOCH_BUMP:
            raise errors.ProtocolError(
                "the broker cannot bump the epoch of an existing producer",
                hint="Upgrade it to Kafka 2.5 or later.",
            )
        return init_producer_id(keys[0], self._timeout_ms, current=current)

    def result(self, key: str, outcome: CallOutcome) -> KeyResult[OpenTransaction]:
        """See `ApiHandler`."""
        result = _producer(key, outcome.response, outcome.transaction_version)
        if result.value is not None and result.value.producer_id < 0:
            raise errors.ProtocolError(
                f"InitProducerId of {key} returned no producer id", broker=str(outcome.node)
            )
        return result


class EndTxnHandler(CoordinatorHandler[OpenTransaction]):
    """Commits or aborts transactions; the result is the producer for the next transaction.

    Retries are safe: a coordinator that has already ended the transaction returns success and, with
    transactions V2, the same bumped epoch.
    """

    api = ApiKey.END_TXN
    retries_rejected_connections = True  # A decided transaction must be committed.

    def __init__(self, transactions: Sequence[OpenTransaction], *, commit: bool) -> None:
        self.has_lost_responses = False
        """True if a lost request might reach its coordinator after the response to a later request.
        """
        self.may_have_ended = False
        """True if a request without a final response might have ended its transaction."""
        self._transactions = {
            transaction.transactional_id: transaction for transaction in transactions
        }
        self._commit = commit

    def cap(self, keys: Sequence[str]) -> int | None:
        """See `ApiHandler`."""
        return self._transactions[keys[0]].version.cap(ApiKey.END_TXN)

    def values(self, keys: Sequence[str], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return end_txn(self._transactions[keys[0]], commit=self._commit)

    def result(self, key: str, outcome: CallOutcome) -> KeyResult[OpenTransaction]:
        """See `ApiHandler`."""
        ended = self._transactions[key]
        result = _producer(key, outcome.response, ended.version)
        producer = result.value
        if producer is not None and (producer.producer_id < 0 or not ended.version.bumps_epoch):
            result.value = ended  # As in Java, without a producer id the epoch is unchanged.
        return result

    def action(self, code: int) -> NextStep:
        """See `ApiHandler`."""
        self.has_lost_responses |= code == ClientErrorCode.disconnected
        self.may_have_ended |= code in _UNCLEAR
        return super().action(code)


def _producer(
    transactional_id: str, response: Any, version: TransactionVersion
) -> KeyResult[OpenTransaction]:
    """Return the producer id and epoch of a response, or its error code."""
    if code := int(response.error_code):
        return KeyResult(code=code)
    producer = OpenTransaction(
        transactional_id=transactional_id,
        producer_id=int(getattr(response, "producer_id", -1)),
        epoch=int(getattr(response, "producer_epoch", -1)),
        version=version,
    )
    return KeyResult(code=0, value=producer)


class DescribeTransactionsHandler(CoordinatorHandler[TransactionDescription]):
    """Returns the states of transactional ids."""

    api = ApiKey.DESCRIBE_TRANSACTIONS
    max_keys = MANY_KEYS

    def values(self, keys: Sequence[str], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return {"transactional_ids": keys}

    def results(
        self,
        keys: Sequence[str],  # noqa: ARG002
        outcome: CallOutcome,
    ) -> Mapping[str, KeyResult[TransactionDescription]]:
        """See `ApiHandler`."""
        return {
            state.transactional_id: KeyResult(
                code=int(state.error_code), value=None if state.error_code else _description(state)
            )
            for state in outcome.response.transaction_states
        }


def _description(state: Any) -> TransactionDescription:
    started = round(state.transaction_start_time.timestamp() * 1000)
    return TransactionDescription(
        transactional_id=state.transactional_id,
        state=TransactionState(state.transaction_state),
        producer_id=int(state.producer_id),
        epoch=int(state.producer_epoch),
        timeout_ms=round(state.transaction_timeout.total_seconds() * 1000),
        started_ms=started if started > 0 else None,
        topics=tuple((topic.topic, array("i", topic.partitions)) for topic in state.topics),
    )


class ListTransactionsHandler(ApiHandler[int, list[ListedTransaction]]):
    """Lists the transactions of each coordinator. The keys are broker ids.

    Args:
        states: the states to list; empty for all.
        pattern: a regular expression that must match the whole id, or None for all ids. Brokers
            without KIP-1152 ignore the pattern and list all ids.
    """

    api = ApiKey.LIST_TRANSACTIONS
    retried = CoordinatorHandler.retried
    looked_up = CoordinatorHandler.looked_up

    def __init__(self, states: Sequence[TransactionState], pattern: str | None) -> None:
        self._states = states
        self._pattern = pattern

    def lookup(self, client: BlockingClient) -> Lookup[int]:
        """See `ApiHandler`."""
        return BrokerLookup(client)

    def values(self, keys: Sequence[int], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return {
            "state_filters": [state.value for state in self._states],
            "producer_id_filters": [],
            "transactional_id_pattern": self._pattern,
        }

    def result(self, key: int, outcome: CallOutcome) -> KeyResult[list[ListedTransaction]]:
        """See `ApiHandler`."""
        response = outcome.response
        if unknown := response.unknown_state_filters:
            raise errors.ProtocolError(
                f"ListTransactions ignores the states {', '.join(unknown)}",
                broker=str(outcome.node),
            )
        listed = [
            ListedTransaction(
                transactional_id=state.transactional_id,
                state=TransactionState(state.transaction_state),
                producer_id=int(state.producer_id),
                coordinator=key,
            )
            for state in response.transaction_states
        ]
        return KeyResult(code=int(response.error_code), value=listed)


class ListBrokersHandler(ApiHandler[str, frozenset[int]]):
    """Returns the ids of all brokers. The key is arbitrary.

    The client's metadata can be minutes old, and might lack brokers that were started since then.
    """

    api = ApiKey.METADATA
    looked_up = CONNECTION_LOST

    def values(self, keys: Sequence[str], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return {"topics": [], "allow_auto_topic_creation": False}

    def result(self, key: str, outcome: CallOutcome) -> KeyResult[frozenset[int]]:  # noqa: ARG002
        """See `ApiHandler`."""
        brokers = frozenset(int(broker.node_id) for broker in outcome.response.brokers)
        return KeyResult(code=0, value=brokers)


class DescribeProducersHandler(LeaderHandler[tuple[ActiveProducer, ...]]):
    """Returns the active producers of partitions, from the leaders."""

    api = ApiKey.DESCRIBE_PRODUCERS
    max_keys = MANY_KEYS

    def values(self, keys: Sequence[TopicPartition], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return {"topics": by_topic(keys, "partition_indexes")}

    def results(
        self,
        keys: Sequence[TopicPartition],  # noqa: ARG002
        outcome: CallOutcome,
    ) -> Mapping[TopicPartition, KeyResult[tuple[ActiveProducer, ...]]]:
        """See `ApiHandler`."""
        return {
            TopicPartition(topic.name, int(partition.partition_index)): KeyResult(
                code=int(partition.error_code),
                value=tuple(map(_active_producer, partition.active_producers)),
                message=partition.error_message,
            )
            for topic in outcome.response.topics
            for partition in topic.partitions
        }


def _active_producer(producer: Any) -> ActiveProducer:
    start = int(producer.current_txn_start_offset)
    return ActiveProducer(
        producer_id=int(producer.producer_id),
        epoch=int(producer.producer_epoch),
        last_sequence=int(producer.last_sequence),
        last_timestamp_ms=int(producer.last_timestamp),
        coordinator_epoch=int(producer.coordinator_epoch),
        transaction_start=None if start == _NO_OFFSET else start,
    )


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
        current: OpenTransaction | None = None,
    ) -> OpenTransaction:
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
        known = None if current is None else {transactional_id: current}
        handler, what = (
            InitProducerIdHandler(timeout_ms, known),
            f"InitProducerId of {transactional_id}",
        )
        result = request_one(self._client, handler, transactional_id, deadline, what)
        if result.value is not None:
            return result.value
        if result.code == ErrorCode.invalid_transaction_timeout:
            raise errors.ConfigError(
                f"transaction.timeout.ms = {timeout_ms} exceeds the brokers' maximum",
                error=error_name(result.code),
                hint="Lower it, or raise transaction.max.timeout.ms on the brokers.",
            )
        raise self.rejection("InitProducerId", transactional_id, result.code)

    def end(
        self, transactions: Sequence[OpenTransaction], *, commit: bool, deadline: float | None
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
        return {key: result.code for key, result in self.end_all(transactions, commit, deadline)}

    def end_all(
        self, transactions: Sequence[OpenTransaction], commit: bool, deadline: float | None
    ) -> list[tuple[str, KeyResult[OpenTransaction]]]:
        """Commit or abort like `end`. Each result is the producer for the next transaction."""
        ids = [transaction.transactional_id for transaction in transactions]
        lookup = CoordinatorStrategy(
            self._client, connections=min(MAX_CONNECTIONS, 1 + len(ids) // IDS_PER_CONNECTION)
        )
        driver = ApiDriver(self._client, EndTxnHandler(transactions, commit=commit), ids, lookup)
        results = _run(driver, deadline)
        return [(name, results[name]) for name in dict.fromkeys(ids)]

    def fence(self, transactional_ids: Collection[str], deadline: float | None) -> dict[str, int]:
        """Abort open transactions with InitProducerId in parallel; return error codes like `end`.

        Earlier producers with these ids are fenced. If a coordinator has already started to commit
        a transaction, the transaction is committed. Some brokers fence the producer, but leave its
        transaction open: it is aborted with EndTxn. The code of a transaction that nevertheless
        stays open is CONCURRENT_TRANSACTIONS.
        """
        handler = InitProducerIdHandler(_FENCING_TIMEOUT_MS)
        results = _run(ApiDriver(self._client, handler, transactional_ids), deadline)
        codes = {key: result.code for key, result in results.items()}
        fenced = [result.value for result in results.values() if result.value is not None]
        if still_open := self._still_open(fenced, deadline):
            codes |= self.end(still_open, commit=False, deadline=deadline)
            for left in self._still_open(still_open, deadline):
                codes[left.transactional_id] = int(ErrorCode.concurrent_transactions)
        return codes

    def _still_open(
        self, fenced: Sequence[OpenTransaction], deadline: float | None
    ) -> list[OpenTransaction]:
        """Return the producers whose transaction is open although InitProducerId has fenced it."""
        try:
            described = self.describe(
                [producer_fenced.transactional_id for producer_fenced in fenced], deadline
            )
        except UnsupportedApiError:  # Kafka before 3.0 ends the transaction.
            return []
        states = [
            (producer_fenced, described.get(producer_fenced.transactional_id))
            for producer_fenced in fenced
        ]
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
        what = "DescribeTransactions"
        driver = ApiDriver(self._client, DescribeTransactionsHandler(), transactional_ids)
        coordinators = {}
        for name, result in driver.complete(deadline, what).items():
            if result.value is not None:
                coordinators[name] = result.value
            elif result.code != ErrorCode.transactional_id_not_found:
                raise self.rejection(what, name, result.code, AclOperation.DESCRIBE)
        return coordinators

    def list(
        self,
        pattern: str | None,
        deadline: float | None,
        states: Sequence[TransactionState] = OPEN_STATES,
    ) -> list[ListedTransaction]:
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
            listed = self._list(brokers, states, pattern, deadline)
            if listed is None:
                listed = self._list(brokers, states, None, deadline)
            if listed is None:
                raise errors.ProtocolError(
                    "ListTransactions was rejected, although it contained no pattern",
                    error=error_name(ErrorCode.invalid_regular_expression),
                )
            current = self._brokers(deadline)
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
        return {key: self._producers(key, result) for key, result in results.items()}

    def rejection(
        self,
        what: str,
        transactional_id: str,
        code: int,
        operation: AclOperation = AclOperation.WRITE,
    ) -> errors.KafkaProdError:
        """Return an error for a final error code of a transactional id.

        Args:
            what: the request, such as "EndTxn".
            transactional_id: the transactional id.
            code: Kafka's error code, not 0.
            operation: the operation of the missing ACL, if the code is an authorization error.
        """
        if code == ErrorCode.transactional_id_authorization_failed:
            acl = on_transactional_id(operation, transactional_id, self._prefix)
            return denied(self._client, what, code, acl)
        if code in FENCED:
            return errors.FencedError(
                f"{what} of {transactional_id}: a newer producer with this id has fenced this "
                f"producer",
                error=error_name(code),
            )
        fatal = ", and all further requests will also be rejected" * (code in FATAL_TO_PRODUCER)
        return errors.TransactionError(
            f"{what} of {transactional_id} was rejected{fatal}", error=error_name(code)
        )

    def _list(
        self,
        brokers: Collection[int],
        states: Sequence[TransactionState],
        pattern: str | None,
        deadline: float | None,
    ) -> Sequence[ListedTransaction] | None:
        """Return the transactions that brokers list, or None if a broker rejects the pattern."""
        what = "ListTransactions"
        handler = ListTransactionsHandler(states, pattern)
        driver = ApiDriver(self._client, handler, brokers)
        results = driver.complete(deadline, what).values()
        if any(result.code == ErrorCode.invalid_regular_expression for result in results):
            return None
        for result in results:
            if result.code not in {0, ErrorCode.broker_not_available}:
                raise errors.TransactionError(
                    f"{what} was rejected", broker=str(result.node), error=error_name(result.code)
                )
        return [listing for result in results for listing in result.value or ()]

    def _brokers(self, deadline: float | None) -> frozenset[int]:
        """Return the ids of all brokers, as reported by one broker."""
        what = "Metadata"
        result = request_one(self._client, ListBrokersHandler(), what, deadline, what)
        if result.code or not result.value:
            raise errors.ProtocolError(
                "the broker listed no brokers in its response to Metadata",
                broker=str(result.node),
                error=error_name(result.code) if result.code else None,
            )
        return result.value

    def _producers(
        self, topic_partition: TopicPartition, result: KeyResult[tuple[ActiveProducer, ...]]
    ) -> tuple[ActiveProducer, ...]:
        what = "DescribeProducers"
        if result.code == ErrorCode.topic_authorization_failed:
            raise denied(
                self._client, what, result.code, on_topic(AclOperation.READ, topic_partition.topic)
            )
        if result.code:
            raise errors.UnknownTopicError(
                f"{what} was rejected: {result.message or 'the partition does not exist'}",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                error=error_name(result.code),
            )
        return result.value or ()


def _run(
    driver: ApiDriver[str, OpenTransaction], deadline: float | None
) -> dict[str, KeyResult[OpenTransaction]]:
    """Return the results by id. The result of an unfinished id has the latest error code."""
    driver.run(deadline)
    unsettled: dict[str, KeyResult[OpenTransaction]] = {
        key: KeyResult(code=ClientErrorCode.disconnected if code is None else code)
        for key, code in driver.unsettled.items()
    }
    return driver.results | unsettled
