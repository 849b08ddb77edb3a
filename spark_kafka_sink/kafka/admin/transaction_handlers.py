"""The requests about transactions, and their results.

InitProducerId, EndTxn, DescribeTransactions and ListTransactions are sent to coordinators,
DescribeProducers to partition leaders. Source: ``FenceProducersHandler``,
``DescribeTransactionsHandler``, ``ListTransactionsHandler``.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common import errors
from spark_kafka_sink.kafka.admin.transaction_description import (
    ActiveProducer,
    TransactionDescription,
    TransactionListing,
)
from spark_kafka_sink.kafka.blocking.api_driver import (
    MANY_KEYS,
    ApiHandler,
    KeyResult,
    LeaderHandler,
)
from spark_kafka_sink.kafka.blocking.coordinator_lookup import CoordinatorHandler
from spark_kafka_sink.kafka.blocking.lookups import BrokerLookup, Lookup
from spark_kafka_sink.kafka.protocol.error_codes import (
    CONNECTION_LOST,
    COORDINATOR_MOVED,
    ClientErrorCode,
    ErrorCode,
)
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import (
    TransactionalProducer,
    TransactionState,
    end_txn_values,
    group_by_topic,
    init_producer_id_values,
    producer_in,
)
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.kafka.blocking.api_driver import KeyAction
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, RequestCompletion
    from spark_kafka_sink.kafka.protocol.messages import FieldValues
    from spark_kafka_sink.kafka.protocol.transactions import TransactionVersion


_EPOCH_BUMP = 3
"""The first version of InitProducerId that can bump a given epoch (KIP-360)."""
_UNCLEAR = (COORDINATOR_MOVED | {ErrorCode.request_timed_out}) - {ClientErrorCode.not_sent}
"""Codes after which the coordinator might have ended the transaction anyway."""
_NO_OFFSET = -1


class InitProducerIdHandler(CoordinatorHandler[TransactionalProducer]):
    """Returns producer ids for transactional ids, and fences earlier producers.

    Args:
        timeout_ms: transaction.timeout.ms.
        current: producers whose epoch is bumped (KIP-360); the request fails if there is a newer
            producer.
    """

    api = ApiKey.INIT_PRODUCER_ID

    def __init__(
        self, timeout_ms: int, current: Mapping[str, TransactionalProducer] | None = None
    ) -> None:
        self._timeout_ms = timeout_ms
        self._current = current or {}

    def values(self, keys: Sequence[str], version: int) -> FieldValues:
        """Return the values of a request, with the current producer if its epoch is bumped."""
        current = self._current.get(keys[0])
        if current is not None and version < _EPOCH_BUMP:
            raise errors.ProtocolError(
                "the broker cannot bump the epoch of an existing producer",
                hint="Upgrade it to Kafka 2.5 or later.",
            )
        return init_producer_id_values(keys[0], self._timeout_ms, current=current)

    def result(self, key: str, completion: RequestCompletion) -> KeyResult[TransactionalProducer]:
        """Return the granted producer id and epoch."""
        result = _parse_producer(key, completion.response, completion.transaction_version)
        if result.value is not None and result.value.producer_id < 0:
            raise errors.ProtocolError(
                f"InitProducerId of {key} returned no producer id", broker=str(completion.node)
            )
        return result


class EndTxnHandler(CoordinatorHandler[TransactionalProducer]):
    """Commits or aborts transactions; the result is the producer for the next transaction.

    Retries are safe: a coordinator that has already ended the transaction returns success and, with
    transactions V2, the same bumped epoch.
    """

    api = ApiKey.END_TXN
    retries_rejected_connections = True  # A decided transaction must be committed.

    def __init__(self, transactions: Sequence[TransactionalProducer], *, commit: bool) -> None:
        self.has_lost_responses = False
        """True if a lost request might reach its coordinator after the response to a later request.
        """
        self.may_have_ended = False
        """True if a request without a final response might have ended its transaction."""
        self._transactions = {
            transaction.transactional_id: transaction for transaction in transactions
        }
        self._commit = commit

    def max_version(self, keys: Sequence[str]) -> int | None:
        """Return the maximum version for the transaction's protocol version."""
        return self._transactions[keys[0]].version.max_version(ApiKey.END_TXN)

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request that commits or aborts a transaction."""
        return end_txn_values(self._transactions[keys[0]], commit=self._commit)

    def result(self, key: str, completion: RequestCompletion) -> KeyResult[TransactionalProducer]:
        """Return the producer for the next transaction."""
        ended = self._transactions[key]
        result = _parse_producer(key, completion.response, ended.version)
        producer = result.value
        if producer is not None and (producer.producer_id < 0 or not ended.version.bumps_epoch):
            result.value = ended  # As in Java, without a producer id the epoch is unchanged.
        return result

    def action(self, code: int) -> KeyAction:
        """Return the action for an error code; record whether the transaction may have ended."""
        self.has_lost_responses |= code == ClientErrorCode.disconnected
        self.may_have_ended |= code in _UNCLEAR
        return super().action(code)


def _parse_producer(
    transactional_id: str, response: Any, version: TransactionVersion
) -> KeyResult[TransactionalProducer]:
    """Return the producer id and epoch of a response, or its error code."""
    if code := int(response.error_code):
        return KeyResult(code=code)
    return KeyResult(code=0, value=producer_in(response, transactional_id, version))


class DescribeTransactionsHandler(CoordinatorHandler[TransactionDescription]):
    """Returns the states of transactional ids."""

    api = ApiKey.DESCRIBE_TRANSACTIONS
    max_keys = MANY_KEYS

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request for these transactional ids."""
        return {"transactional_ids": keys}

    def results(
        self,
        keys: Sequence[str],  # noqa: ARG002
        completion: RequestCompletion,
    ) -> Mapping[str, KeyResult[TransactionDescription]]:
        """Return the description of each transaction."""
        return {
            state.transactional_id: KeyResult(
                code=int(state.error_code),
                value=None if state.error_code else _parse_description(state),
            )
            for state in completion.response.transaction_states
        }


def _parse_description(state: Any) -> TransactionDescription:
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


class ListTransactionsHandler(ApiHandler[int, list[TransactionListing]]):
    """Lists the transactions of each coordinator. The keys are broker ids.

    Args:
        states: the states to list; empty for all.
        pattern: a regular expression that must match the whole id, or None for all ids. Brokers
            without KIP-1152 ignore the pattern and list all ids.
    """

    api = ApiKey.LIST_TRANSACTIONS
    retriable_codes = CoordinatorHandler.retriable_codes
    lookup_codes = CoordinatorHandler.lookup_codes

    def __init__(self, states: Sequence[TransactionState], pattern: str | None) -> None:
        self._states = states
        self._pattern = pattern

    def lookup(self, client: BlockingClient) -> Lookup[int]:
        """Return the lookup of brokers by id."""
        return BrokerLookup(client)

    def values(self, keys: Sequence[int], version: int) -> FieldValues:  # noqa: ARG002
        """Return the filters of a request."""
        return {
            "state_filters": [state.value for state in self._states],
            "producer_id_filters": [],
            "transactional_id_pattern": self._pattern,
        }

    def result(
        self, key: int, completion: RequestCompletion
    ) -> KeyResult[list[TransactionListing]]:
        """Return the broker's transactions."""
        response = completion.response
        if unknown := response.unknown_state_filters:
            raise errors.ProtocolError(
                f"ListTransactions ignores the states {', '.join(unknown)}",
                broker=str(completion.node),
            )
        listed = [
            TransactionListing(
                transactional_id=state.transactional_id,
                state=TransactionState(state.transaction_state),
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
    lookup_codes = CONNECTION_LOST

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a Metadata request without topics."""
        return {"topics": [], "allow_auto_topic_creation": False}

    def result(self, key: str, completion: RequestCompletion) -> KeyResult[frozenset[int]]:  # noqa: ARG002
        """Return the ids of all brokers."""
        brokers = frozenset(int(broker.node_id) for broker in completion.response.brokers)
        return KeyResult(code=0, value=brokers)


class DescribeProducersHandler(LeaderHandler[tuple[ActiveProducer, ...]]):
    """Returns the active producers of partitions, from the leaders."""

    api = ApiKey.DESCRIBE_PRODUCERS
    max_keys = MANY_KEYS

    def values(self, keys: Sequence[TopicPartition], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request for these partitions."""
        return {"topics": group_by_topic(keys, "partition_indexes")}

    def results(
        self,
        keys: Sequence[TopicPartition],  # noqa: ARG002
        completion: RequestCompletion,
    ) -> Mapping[TopicPartition, KeyResult[tuple[ActiveProducer, ...]]]:
        """Return the active producers of each partition."""
        return {
            TopicPartition(topic.name, int(partition.partition_index)): KeyResult(
                code=int(partition.error_code),
                value=tuple(map(_active_producer, partition.active_producers)),
                message=partition.error_message,
            )
            for topic in completion.response.topics
            for partition in topic.partitions
        }


def _active_producer(producer: Any) -> ActiveProducer:
    start = int(producer.current_txn_start_offset)
    return ActiveProducer(
        producer_id=int(producer.producer_id),
        epoch=int(producer.producer_epoch),
        last_sequence=int(producer.last_sequence),
        transaction_start=None if start == _NO_OFFSET else start,
    )
