"""What real coordinators answer to EndTxn, as `end_outcome` takes it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.admin.blocking_client import borrowed_client
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, commit_outcome, is_ended
from spark_kafka_sink.exactly_once.transactional_id import new_nonce
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.protocol.transactions import TransactionState, TransactionVersion
from tests.integration.exactly_once.writing import PARTITIONS, SETTLE_SECONDS, stream
from tools.support.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink import EmbeddedBroker
    from spark_kafka_sink.protocol.transactions import OpenTransaction
    from tests.integration.exactly_once.writing import Writes
    from tools.support.kafka_cluster import KafkaCluster, ZooKeeperCluster

LONG_MS = 60_000


@pytest.fixture
def new_query(any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str) -> Writes:
    """On transactions V2."""
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    return stream(any_kafka.bootstrap_servers, unique_topic, f"p-{unique_topic}")


@pytest.fixture
def old_query(old_kafkas: Mapping[str, ZooKeeperCluster], unique_topic: str) -> Writes:
    """On transactions V1, where coordinators can be asked for states."""
    release = next(name for name in old_kafkas if name.startswith("3."))
    servers = old_kafkas[release].bootstrap_servers
    Admin(servers).create_topic(unique_topic, PARTITIONS)
    return stream(servers, unique_topic, f"p-{unique_topic}")


class _Coordinator:
    """A coordinator, and transactions that a task has left open there."""

    def __init__(self, query: Writes, admin: TransactionAdmin, deadline: float) -> None:
        self._query = query
        self._admin = admin
        self._deadline = deadline

    def opened(self, timeout_ms: int = LONG_MS) -> OpenTransaction:
        """One with rows."""
        task = replace(self._query, timeout_ms=timeout_ms).task("0", 0, new_nonce())
        assert task.transaction is not None
        return task.transaction.transaction

    def empty(self) -> OpenTransaction:
        """One without."""
        return self.again(f"{self._query.scope.prefix}/empty")

    def again(self, transactional_id: str) -> OpenTransaction:
        """InitProducerId."""
        return self._admin.init_producer_id(transactional_id, LONG_MS, self._deadline)

    def end(self, transaction: OpenTransaction, *, commit: bool) -> int:
        """The answer to EndTxn."""
        codes = self._admin.end([transaction], commit=commit, deadline=self._deadline)
        return codes[transaction.transactional_id]

    def await_aborted(self, transaction: OpenTransaction) -> None:
        """Wait until the coordinator has aborted it at its timeout."""
        name = transaction.transactional_id
        while (
            self._admin.describe([name], self._deadline)[name].state
            is not TransactionState.COMPLETE_ABORT
        ):
            pass


def coordinator_of(query: Writes) -> Iterator[_Coordinator]:
    with borrowed_client(query.config.producer) as client:
        yield _Coordinator(query, TransactionAdmin(client), client.deadline(2 * SETTLE_SECONDS))


def check_answers(query: Writes, version: TransactionVersion, after_timeout: int) -> None:
    for at in coordinator_of(query):
        timed_out = at.opened(timeout_ms=1_000)
        done = at.opened()
        assert done.version is version
        assert [at.end(done, commit=True) for _ in range(2)] == [ErrorCode.none] * 2
        assert at.end(done, commit=False) == ErrorCode.invalid_txn_state
        assert at.end(at.empty(), commit=True) == ErrorCode.invalid_txn_state
        aborted = at.opened()
        assert at.end(aborted, commit=False) == ErrorCode.none
        assert at.end(aborted, commit=True) == ErrorCode.invalid_txn_state
        assert is_ended(at.end(aborted, commit=False))
        for before in (done, at.opened()):
            at.again(before.transactional_id)
            assert at.end(before, commit=True) == ErrorCode.producer_fenced
        at.await_aborted(timed_out)
        answer = at.end(timed_out, commit=True)
        assert answer == after_timeout
        assert commit_outcome(answer) in {EndOutcome.TORN, EndOutcome.FENCED}


def test_what_transactions_v2_answer(new_query: Writes) -> None:
    check_answers(new_query, TransactionVersion.V2, ErrorCode.invalid_txn_state)


def test_what_transactions_v1_answer(old_query: Writes) -> None:
    check_answers(old_query, TransactionVersion.V1, ErrorCode.producer_fenced)
