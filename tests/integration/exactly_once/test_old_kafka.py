"""Transactions V1, on brokers that can't describe transactions and on those that can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.protocol import Caller, Done
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome
from spark_kafka_sink.protocol.transactions import TransactionVersion
from tests.integration.exactly_once.crashing import DECIDED, CrashError, crashing_driver
from tests.integration.exactly_once.writing import PARTITIONS, QUERY, rows_of, stream
from tools.support.admin import Admin

if TYPE_CHECKING:
    from tests.integration.exactly_once.writing import Writes
    from tools.support.kafka_cluster import ZooKeeperCluster


@pytest.fixture
def query(old_kafka: ZooKeeperCluster, unique_topic: str) -> Writes:
    """A stream with a topic and a prefix of its own."""
    Admin(old_kafka.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    return stream(old_kafka.bootstrap_servers, unique_topic, f"p-{unique_topic}")


@pytest.mark.parametrize("step", ["before decide", "after decide", "between two EndTxns"])
def test_a_batch_is_there_once_wherever_its_driver_dies(query: Writes, step: str) -> None:
    results = query.tasks("0")
    assert query.committer.commit("0", results).status is CommitStatus.COMMITTED
    tasks = tuple(each.transaction for each in query.tasks("1") if each.transaction is not None)
    assert {each.transaction.version for each in tasks} == {TransactionVersion.V1}
    with pytest.raises(CrashError), crashing_driver(query, step) as driver:
        commit_batch(driver, Caller(query=QUERY, batch="1"), tasks)
    decided = step in DECIDED
    assert query.committer.recover() == Done(QUERY, "1" if decided else "0")
    assert query.await_visible(rows_of("0", "1") if decided else rows_of("0"))
    again = query.tasks("1")
    outcome = query.committer.commit("1", again)
    assert outcome.status is (CommitStatus.ROLLED_FORWARD if decided else CommitStatus.COMMITTED)
    query.committer.commit("2", query.tasks("2"))
    if not decided:  # brokers before 3.0 can't list what the driver that died has left open
        left = [query.result(TaskOutcome.WRITTEN, "1", each) for each in tasks]
        query.committer.abort("1", left, complete=False)
    assert query.await_visible(rows_of("0", "1", "2"))
