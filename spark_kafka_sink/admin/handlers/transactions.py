"""Handlers for transactions and the producers of partitions.

- InitProducerId, EndTxn, DescribeTransactions and ListTransactions are sent to transaction
  coordinators.
- DescribeProducers is sent to partition leaders.

Source: ``TransactionManager``, ``FenceProducersHandler``, ``DescribeTransactionsHandler``,
``ListTransactionsHandler``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.handlers.actions import coordinator_action, leader_action, write
from spark_kafka_sink.client.cluster import TopicPartition
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.error_codes import COORDINATOR_MOVED, ClientErrorCode, ErrorCode
from spark_kafka_sink.protocol.transactions import (
    OpenTransaction,
    TransactionState,
    by_topic,
    end_txn,
    init_producer_id,
)
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.call import Answer
    from spark_kafka_sink.protocol.transactions import TransactionVersion


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
    """Partitions of the transaction by topic, only of topics that this client may describe. Stored
    compactly, because a driver keeps those of all tasks at once."""

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions in `topics`, sorted."""
        found = (TopicPartition(topic, each) for topic, numbers in self.topics for each in numbers)
        return tuple(sorted(found))

    def is_of(self, transaction: OpenTransaction) -> bool:
        """Return True if this is the given transaction, with the same producer id and epoch."""
        opened = (transaction.producer_id, transaction.epoch)
        return (self.producer_id, self.epoch) == opened


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """An entry of ListTransactions; `coordinator` is a broker id."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """An active producer of a partition, according to its leader.

    `last_sequence` and `coordinator_epoch` are -1 if there is none, `last_timestamp_ms` is in
    milliseconds since 1970. `transaction_start` is the first offset of the open transaction, None
    if there is none.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


_KNOWS_ITS_PRODUCER = 3
"""The first version of InitProducerId that can bump a given epoch (KIP-360)."""
_MANY = 1_000
_UNCLEAR = (COORDINATOR_MOVED | {ErrorCode.request_timed_out}) - {ClientErrorCode.not_sent}
"""A coordinator may have decided the end of a transaction before it returned one of these."""


class InitProducerIdHandler(ApiHandler[str, OpenTransaction]):
    """Returns producer ids for transactional ids, and fences earlier producers (KIP-98).

    Args:
        timeout_ms: transaction.timeout.ms.
        current: producers whose epoch to bump (KIP-360); the request fails if there is a newer one.
    """

    api = ApiKey.INIT_PRODUCER_ID

    def __init__(
        self, timeout_ms: int, current: Mapping[str, OpenTransaction] | None = None
    ) -> None:
        self._timeout_ms = timeout_ms
        self._current = current or {}

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        current = self._current.get(keys[0])
        if current is not None and version < _KNOWS_ITS_PRODUCER:
            raise ProtocolError(
                "the broker can't give a producer that it knows a new epoch",
                hint="it needs Kafka 2.5 or later",
            )
        values = init_producer_id(keys[0], self._timeout_ms, current=current)
        return write(self.api, version, values)

    def results(
        self, keys: Sequence[str], answer: Answer
    ) -> Mapping[str, KeyResult[OpenTransaction]]:
        """See `ApiHandler`."""
        return {keys[0]: _producer(keys[0], answer, answer.transaction_version)}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return coordinator_action(code)


class EndTxnHandler(ApiHandler[str, OpenTransaction]):
    """Commits or aborts transactions; the value is the producer for the next transaction.

    Retries are safe: a coordinator that has already done it returns success, and in transactions V2
    the same bumped epoch.
    """

    api = ApiKey.END_TXN

    def __init__(self, transactions: Sequence[OpenTransaction], *, commit: bool) -> None:
        self.has_lost_answers = False
        """True if a lost request may reach its coordinator after a later one was answered."""
        self.may_have_ended = False
        """True if a request without a final answer may have ended its transaction."""
        self._transactions = {each.transactional_id: each for each in transactions}
        self._commit = commit

    def cap(self, keys: Sequence[str]) -> int | None:
        """See `ApiHandler`."""
        return self._transactions[keys[0]].version.end_txn_cap

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        values = end_txn(self._transactions[keys[0]], commit=self._commit)
        return write(self.api, version, values)

    def results(
        self, keys: Sequence[str], answer: Answer
    ) -> Mapping[str, KeyResult[OpenTransaction]]:
        """See `ApiHandler`."""
        ended = self._transactions[keys[0]]
        result = _producer(keys[0], answer, ended.version)
        if result.value is not None and not ended.version.bumps_epoch:
            result = KeyResult(code=result.code, value=ended, node=result.node)
        return {keys[0]: result}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        self.has_lost_answers |= code == ClientErrorCode.disconnected
        self.may_have_ended |= code in _UNCLEAR
        return coordinator_action(code)


class DescribeTransactionsHandler(ApiHandler[str, TransactionDescription]):
    """Returns the states of transactional ids, many per request."""

    api = ApiKey.DESCRIBE_TRANSACTIONS

    def keys_per_request(self, version: int | None) -> int:  # noqa: ARG002
        """See `ApiHandler`."""
        return _MANY

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        return write(self.api, version, {"transactional_ids": keys})

    def results(
        self,
        keys: Sequence[str],  # noqa: ARG002
        answer: Answer,
    ) -> Mapping[str, KeyResult[TransactionDescription]]:
        """See `ApiHandler`."""
        return {
            told.transactional_id: KeyResult(
                code=int(told.error_code),
                value=None if int(told.error_code) else _description(told),
                node=answer.node,
            )
            for told in _response(answer).transaction_states
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return coordinator_action(code)


class ListTransactionsHandler(ApiHandler[int, list[ListedTransaction]]):
    """Lists the transactions that each broker coordinates; the keys are broker ids.

    Args:
        states: the states to list; empty for all.
        pattern: a regular expression for whole ids, applied only by brokers that support it
            (KIP-1152); others list all ids. None for all.
    """

    api = ApiKey.LIST_TRANSACTIONS

    def __init__(self, states: Sequence[TransactionState], pattern: str | None) -> None:
        self._states = states
        self._pattern = pattern

    def body(self, keys: Sequence[int], version: int) -> list[Buffer]:  # noqa: ARG002
        """See `ApiHandler`."""
        values = {
            "state_filters": [state.value for state in self._states],
            "producer_id_filters": [],
            "transactional_id_pattern": self._pattern,
        }
        return write(self.api, version, values)

    def results(
        self, keys: Sequence[int], answer: Answer
    ) -> Mapping[int, KeyResult[list[ListedTransaction]]]:
        """See `ApiHandler`."""
        response = _response(answer)
        listed = [
            ListedTransaction(
                transactional_id=told.transactional_id,
                state=TransactionState(told.transaction_state),
                producer_id=int(told.producer_id),
                coordinator=keys[0],
            )
            for told in response.transaction_states
        ]
        return {keys[0]: KeyResult(code=int(response.error_code), value=listed, node=answer.node)}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return coordinator_action(code)


def _response(answer: Answer) -> Any:
    return answer.response


def _producer(
    transactional_id: str, answer: Answer, version: TransactionVersion
) -> KeyResult[OpenTransaction]:
    """Return the producer id and epoch of a response, or its error code."""
    response = _response(answer)
    if code := int(response.error_code):
        return KeyResult(code=code, node=answer.node)
    producer = OpenTransaction(
        transactional_id=transactional_id,
        producer_id=int(getattr(response, "producer_id", -1)),
        epoch=int(getattr(response, "producer_epoch", -1)),
        version=version,
    )
    return KeyResult(code=0, value=producer, node=answer.node)


def _description(told: Any) -> TransactionDescription:
    started = round(told.transaction_start_time.timestamp() * 1000)
    return TransactionDescription(
        transactional_id=told.transactional_id,
        state=TransactionState(told.transaction_state),
        producer_id=int(told.producer_id),
        epoch=int(told.producer_epoch),
        timeout_ms=round(told.transaction_timeout.total_seconds() * 1000),
        started_ms=started if started > 0 else None,
        topics=tuple((topic.topic, array("i", topic.partitions)) for topic in told.topics),
    )


_NO_OFFSET = -1


class DescribeProducersHandler(ApiHandler[TopicPartition, tuple[ActiveProducer, ...]]):
    """Returns the active producers of partitions from their leaders."""

    api = ApiKey.DESCRIBE_PRODUCERS

    def keys_per_request(self, version: int | None) -> int:  # noqa: ARG002
        """See `ApiHandler`."""
        return _MANY

    def body(self, keys: Sequence[TopicPartition], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        return write(self.api, version, {"topics": by_topic(keys, "partition_indexes")})

    def results(
        self,
        keys: Sequence[TopicPartition],  # noqa: ARG002
        answer: Answer,
    ) -> Mapping[TopicPartition, KeyResult[tuple[ActiveProducer, ...]]]:
        """See `ApiHandler`."""
        return {
            TopicPartition(topic.name, int(told.partition_index)): KeyResult(
                code=int(told.error_code),
                value=tuple(_active_producer(one) for one in told.active_producers),
                message=told.error_message,
                node=answer.node,
            )
            for topic in _topics(answer)
            for told in topic.partitions
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return leader_action(code)


def _topics(answer: Answer) -> Any:
    response: Any = answer.response
    return response.topics


def _active_producer(told: Any) -> ActiveProducer:
    start = int(told.current_txn_start_offset)
    return ActiveProducer(
        producer_id=int(told.producer_id),
        epoch=int(told.producer_epoch),
        last_sequence=int(told.last_sequence),
        last_timestamp_ms=int(told.last_timestamp),
        coordinator_epoch=int(told.coordinator_epoch),
        transaction_start=None if start == _NO_OFFSET else start,
    )
