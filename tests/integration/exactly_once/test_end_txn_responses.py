"""Responses of real coordinators to EndTxn, as interpreted by `end_txn_outcome`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, end_txn_outcome, is_ended
from spark_kafka_sink.exactly_once.transactional_id import new_nonce
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import (
    TransactionalProducer,
    TransactionState,
    TransactionVersion,
)
from tests.integration.exactly_once.simulated_writes import PARTITIONS, SETTLE_S, Writes, stream
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka, ZooKeeperCluster

LONG_MS = 60_000


@pytest.fixture
def v2_query(any_kafka: AnyKafka, unique_topic: str) -> Writes:
    """Return a stream with transactions V2."""
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    return stream(any_kafka.bootstrap_servers, unique_topic, f"p-{unique_topic}")


@pytest.fixture
def v1_query(old_kafkas: Mapping[str, ZooKeeperCluster], unique_topic: str) -> Writes:
    """Return a stream with transactions V1 on a broker that can describe transactions."""
    release = next(name for name in old_kafkas if name.startswith("3."))
    servers = old_kafkas[release].bootstrap_servers
    Admin(servers).create_topic(unique_topic, PARTITIONS)
    return stream(servers, unique_topic, f"p-{unique_topic}")


class Coordinator:
    """A coordinator with transactions that tasks left open."""

    def __init__(self, query: Writes, admin: TransactionAdmin, deadline: float) -> None:
        self._query = query
        self._admin = admin
        self._deadline = deadline

    def open_transaction(self, timeout_ms: int = LONG_MS) -> TransactionalProducer:
        """Return an open transaction with rows."""
        task = replace(self._query, timeout_ms=timeout_ms).task("0", 0, new_nonce())
        assert task.transaction is not None
        return task.transaction.transaction

    def empty_transaction(self) -> TransactionalProducer:
        """Return a transaction without rows."""
        return self.reinitialize(f"{self._query.scope.prefix}/empty")

    def reinitialize(self, transactional_id: str) -> TransactionalProducer:
        """Initialize the producer id again."""
        return self._admin.init_producer_id(transactional_id, LONG_MS, self._deadline)

    def end(self, transaction: TransactionalProducer, *, commit: bool) -> int:
        """Return the error code of EndTxn."""
        codes = self._admin.end([transaction], commit=commit, deadline=self._deadline)
        return codes[transaction.transactional_id]

    def await_aborted(self, transaction: TransactionalProducer) -> None:
        """Wait until the coordinator aborts the transaction after its timeout."""
        name = transaction.transactional_id
        while (
            self._admin.describe([name], self._deadline)[name].state
            is not TransactionState.COMPLETE_ABORT
        ):
            pass


def coordinator_of(query: Writes) -> Iterator[Coordinator]:
    with borrowed_client(query.config.producer) as client:
        yield Coordinator(query, TransactionAdmin(client), client.deadline(2 * SETTLE_S))


def check_responses(query: Writes, version: TransactionVersion, after_timeout: int) -> None:
    for coordinator in coordinator_of(query):
        timed_out = coordinator.open_transaction(timeout_ms=1_000)
        done = coordinator.open_transaction()
        assert done.version is version
        assert [coordinator.end(done, commit=True) for _ in range(2)] == [ErrorCode.none] * 2
        assert coordinator.end(done, commit=False) == ErrorCode.invalid_txn_state
        assert (
            coordinator.end(coordinator.empty_transaction(), commit=True)
            == ErrorCode.invalid_txn_state
        )
        aborted = coordinator.open_transaction()
        assert coordinator.end(aborted, commit=False) == ErrorCode.none
        assert coordinator.end(aborted, commit=True) == ErrorCode.invalid_txn_state
        assert is_ended(coordinator.end(aborted, commit=False))
        for before in (done, coordinator.open_transaction()):
            coordinator.reinitialize(before.transactional_id)
            assert coordinator.end(before, commit=True) == ErrorCode.producer_fenced
        coordinator.await_aborted(timed_out)
        code = coordinator.end(timed_out, commit=True)
        assert code == after_timeout
        assert end_txn_outcome(code) in {EndOutcome.LOST, EndOutcome.FENCED}


def test_transactions_v2(v2_query: Writes) -> None:
    check_responses(v2_query, TransactionVersion.V2, ErrorCode.invalid_txn_state)


def test_transactions_v1(v1_query: Writes) -> None:
    check_responses(v1_query, TransactionVersion.V1, ErrorCode.producer_fenced)
