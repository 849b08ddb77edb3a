"""Transactions V1 on brokers with and without DescribeTransactions."""

import pytest

from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.scope_state import Done
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome
from spark_kafka_sink.kafka.protocol.transactions import TransactionVersion
from tests.integration.exactly_once.simulated_writes import QUERY, Writes, rows_of, stream_to
from tests.integration.exactly_once.stepped_client import DECIDED, crash
from tools.support.kafka_cluster import ZooKeeperCluster


@pytest.fixture
def query(old_kafka: ZooKeeperCluster, unique_topic: str) -> Writes:
    """Return a stream with its own topic and prefix."""
    return stream_to(old_kafka, unique_topic)


@pytest.mark.parametrize("step", ["before decide", "after decide", "between two EndTxns"])
def test_no_loss_or_duplicates_after_driver_crash(query: Writes, step: str) -> None:
    results = query.tasks("0")
    assert query.committer.commit("0", results).status is CommitStatus.COMMITTED
    tasks = crash(query, "1", step)
    assert {task.transaction.version for task in tasks} == {TransactionVersion.V1}
    decided = step in DECIDED
    assert query.committer.recover() == Done(query_id=QUERY, batch="1" if decided else "0")
    assert query.await_visible(rows_of("0", "1") if decided else rows_of("0"))
    again = query.tasks("1")
    outcome = query.committer.commit("1", again)
    assert outcome.status is (CommitStatus.ROLLED_FORWARD if decided else CommitStatus.COMMITTED)
    query.committer.commit("2", query.tasks("2"))
    if not decided:  # brokers before 3.0 cannot list transactions that the crashed driver left open
        left = [query.result(TaskOutcome.WRITTEN, "1", task) for task in tasks]
        query.committer.abort("1", left, complete=False)
    assert query.await_visible(rows_of("0", "1", "2"))
