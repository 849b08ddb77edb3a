"""Responses of real coordinators to EndTxn, as interpreted by `end_txn_outcome`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, end_txn_outcome
from spark_kafka_sink.exactly_once.transactional_id import new_nonce
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.error_codes import TRANSACTION_ENDED, ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import (
    TransactionalProducer,
    TransactionState,
    TransactionVersion,
)
from tests.integration.exactly_once.simulated_writes import PARTITIONS, SETTLE_S, Writes, stream
from tests.support.waiting import wait_until_equal
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka, ZooKeeperCluster

LONG_MS = 60_000


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
        wait_until_equal(
            lambda: self._admin.describe([name], self._deadline)[name].state,
            TransactionState.COMPLETE_ABORT,
        )


class EndTxnResponses:
    """The cases; the fixture `query` of a subclass is a stream with the version."""

    version: TransactionVersion
    after_timeout: ErrorCode

    @pytest.fixture
    def coordinator(self, query: Writes) -> Iterator[Coordinator]:
        with borrowed_client(query.config.producer) as client:
            yield Coordinator(query, TransactionAdmin(client), client.deadline(2 * SETTLE_S))

    def test_commit(self, coordinator: Coordinator) -> None:
        done = coordinator.open_transaction()
        assert done.version is self.version
        assert [coordinator.end(done, commit=True) for _ in range(2)] == [ErrorCode.none] * 2
        assert coordinator.end(done, commit=False) == ErrorCode.invalid_txn_state

    def test_commit_without_rows(self, coordinator: Coordinator) -> None:
        empty = coordinator.empty_transaction()
        assert coordinator.end(empty, commit=True) == ErrorCode.invalid_txn_state

    def test_abort(self, coordinator: Coordinator) -> None:
        aborted = coordinator.open_transaction()
        assert coordinator.end(aborted, commit=False) == ErrorCode.none
        assert coordinator.end(aborted, commit=True) == ErrorCode.invalid_txn_state
        assert coordinator.end(aborted, commit=False) in TRANSACTION_ENDED

    @pytest.mark.parametrize("is_done", [True, False])
    def test_commit_of_a_fenced_producer(self, coordinator: Coordinator, is_done: bool) -> None:
        fenced = coordinator.open_transaction()
        if is_done:
            assert coordinator.end(fenced, commit=True) == ErrorCode.none
        coordinator.reinitialize(fenced.transactional_id)
        assert coordinator.end(fenced, commit=True) == ErrorCode.producer_fenced

    def test_commit_after_the_timeout(self, coordinator: Coordinator) -> None:
        timed_out = coordinator.open_transaction(timeout_ms=1_000)
        coordinator.await_aborted(timed_out)
        code = coordinator.end(timed_out, commit=True)
        assert code == self.after_timeout
        assert end_txn_outcome(code) in {EndOutcome.LOST, EndOutcome.FENCED}


class TestTransactionsV2(EndTxnResponses):
    version = TransactionVersion.V2
    after_timeout = ErrorCode.invalid_txn_state

    @pytest.fixture
    def query(self, any_kafka: AnyKafka, unique_topic: str) -> Writes:
        Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
        return stream(any_kafka.bootstrap_servers, unique_topic, f"p-{unique_topic}")


class TestTransactionsV1(EndTxnResponses):
    version = TransactionVersion.V1
    after_timeout = ErrorCode.producer_fenced

    @pytest.fixture
    def query(self, old_kafkas: Mapping[str, ZooKeeperCluster], unique_topic: str) -> Writes:
        """Return a stream to a broker that can describe transactions."""
        release = next(name for name in old_kafkas if name.startswith("3."))
        servers = old_kafkas[release].bootstrap_servers
        Admin(servers).create_topic(unique_topic, PARTITIONS)
        return stream(servers, unique_topic, f"p-{unique_topic}")
