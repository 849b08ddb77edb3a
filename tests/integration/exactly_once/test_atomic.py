"""One transaction for all tasks of a batch, with transactions V2 and V1 and other readers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import DeliveryError, TransactionError
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.open_transactions import DecisionStatus
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from spark_kafka_sink.exactly_once.scope_state import Done, NoDecision
from spark_kafka_sink.exactly_once.steps import recovery
from spark_kafka_sink.exactly_once.steps.scope_client import connected_scope_client
from spark_kafka_sink.exactly_once.transactional_id import Scope, new_nonce
from spark_kafka_sink.kafka.protocol.transactions import TransactionVersion
from spark_kafka_sink.producer.session_pool import discard_session
from tests.integration.exactly_once.planned_batch import TASKS, TIMEOUT_MS, plan
from tests.integration.exactly_once.simulated_writes import (
    NOTHING,
    PARTITIONS,
    QUERY,
    ROWS,
    Writes,
    rows_of,
)
from tests.integration.exactly_once.stepped_client import CrashError
from tests.integration.exactly_once.stepped_client import crash as crash_driver
from tests.support.producer_writes import numbered
from tools.support.admin import Admin

if TYPE_CHECKING:
    from tools.support.kafka_cluster import AnyKafka, ZooKeeperCluster

pytestmark = pytest.mark.quick


def is_visible(writes: Writes, *batches: str) -> bool:
    """Return True if a read_committed reader reads exactly these batches, without duplicates."""
    return writes.await_visible(rows_of(*batches, tasks=TASKS) if batches else NOTHING)


def writes_to(kafka: AnyKafka, topic: str) -> Writes:
    Admin(kafka.bootstrap_servers).create_topic(topic, PARTITIONS, 1)
    options = {"atomicBatch": "true"}
    scope = Scope.stream(f"p-{topic}")
    servers = kafka.bootstrap_servers
    return Writes(bootstrap_servers=servers, topic=topic, scope=scope, options=options)


@pytest.fixture
def query(any_kafka: AnyKafka, unique_topic: str) -> Writes:
    """Return a stream with its own topic and prefix."""
    return writes_to(any_kafka, unique_topic)


def test_batch_becomes_visible_atomically(query: Writes) -> None:
    first = plan(query, "0")
    results = first.tasks()
    assert first.shared.version is TransactionVersion.V2
    assert query.visible() == NOTHING
    outcome = first.commit(results)
    assert (outcome.status, outcome.transactions, outcome.records) == (
        CommitStatus.COMMITTED,
        1,
        TASKS * ROWS,
    )
    assert query.visible() == rows_of("0")
    second = plan(query, "1")
    assert query.committer.recover() == Done(query_id=QUERY, batch="0", rows=TASKS * ROWS)
    assert second.commit([second.empty(0), second.task(1), second.task(2)]).records == 2 * ROWS
    third = plan(query, "2")
    assert third.commit([third.empty(0)]).status is CommitStatus.EMPTY
    assert query.committer.recover() == Done(query_id=QUERY, batch="2", rows=0)


def test_task_cannot_run_twice(query: Writes) -> None:
    batch = plan(query, "0")
    batch.task(0)
    batch.empty(1)
    with pytest.raises(DeliveryError, match="ran a second time") as caught:
        batch.task(0, batch.rows(2))
    assert "Restart the stream" in str(caught.value)
    with pytest.raises(DeliveryError):
        batch.empty(1)
    with pytest.raises(DeliveryError):  # the second attempt ended the transaction
        batch.task(2)
    again = plan(query, "0")
    again.commit(again.tasks())
    assert query.visible() == rows_of("0")


def test_two_tasks_on_one_partition_are_rejected(query: Writes) -> None:
    batch = plan(query, "0")
    results = [batch.task(0), batch.task(1), batch.task(2, numbered(query.topic, 0, ROWS, 1))]
    with pytest.raises(TransactionError, match="tasks 0 and 2 have both written") as caught:
        batch.commit(results)
    assert f"[topic={query.topic}, partition=0]" in str(caught.value)
    assert "repartition_by_kafka_partition" in str(caught.value)
    assert query.visible() == NOTHING
    assert query.committer.recover() == NoDecision()


def test_records_dropped_by_a_leader_are_detected(query: Writes) -> None:
    """Another writer writes with the task's producer id first, without a claim."""
    batch = plan(query, "0")
    other_writer = replace(batch, nonce=new_nonce()).session(0)
    for count in (ROWS, 5):
        other_writer.append(numbered(query.topic, 900_000, count, 1))
        other_writer.flush()
    results = batch.tasks()  # the leader acknowledges the records of task 0 but does not have them
    with pytest.raises(TransactionError, match="1 of 3 partitions") as caught:
        batch.commit(results)
    assert "instead of 19" in str(caught.value)
    discard_session(other_writer)
    assert query.visible() == NOTHING


@pytest.mark.deep
@pytest.mark.parametrize("step", ["after read", "before done", "after done"])
def test_no_loss_or_duplicates_after_driver_crash(query: Writes, step: str) -> None:
    def crash() -> None:
        raise CrashError(step)

    batch = plan(query, "0")
    results = batch.tasks()
    with pytest.raises(CrashError):
        batch.commit_with(step, crash, results)
    is_done = step == "after done"
    if is_done:
        outcome = query.committer.abort_shared("0", results, batch.shared, complete=True)
        assert outcome.status is CommitStatus.ALREADY_WRITTEN
    state, _ = query.committer.begin(TIMEOUT_MS)
    assert state == (Done(query_id=QUERY, batch="0") if is_done else NoDecision())
    assert query.visible() == (rows_of("0") if is_done else NOTHING)
    if not is_done:
        again = plan(query, "0")
        again.commit(again.tasks())
    assert query.visible() == rows_of("0")


def test_new_planning_fences_tasks_and_driver(query: Writes) -> None:
    """One task pauses before its first row, and one after writing a row."""
    old = plan(query, "0")
    half = old.session(0)
    half.append(numbered(query.topic, 800_000, 2, 1))
    half.flush()
    new = plan(query, "0")
    with pytest.raises(DeliveryError):
        old.task(1)
    half.append(numbered(query.topic, 800_002, 2, 1))
    with pytest.raises(DeliveryError):
        half.flush()
    assert half.abort_transaction(10.0)
    discard_session(half)
    results = new.tasks()  # not ended by the fenced tasks
    with pytest.raises(TransactionError):
        old.commit([old.result(result.transaction) for result in results])
    new.commit(results)
    assert query.visible() == rows_of("0")


def test_failed_task_ends_the_transaction(query: Writes) -> None:
    batch = plan(query, "0")
    batch.task(0)
    failing = batch.session(1)
    failing.append(batch.rows(1))
    failing.flush()
    assert failing.abort_transaction(10.0)
    discard_session(failing)
    assert query.visible() == NOTHING
    with pytest.raises(DeliveryError):
        batch.task(2)
    outcome = query.committer.abort_shared("0", [], batch.shared, complete=False)
    assert outcome.status is CommitStatus.ABORTED


def test_abort_ends_the_transaction(query: Writes) -> None:
    batch = plan(query, "0")
    results = batch.tasks()
    outcome = query.committer.abort_shared("0", results, batch.shared, complete=True)
    assert outcome.status is CommitStatus.ABORTED
    with pytest.raises(TransactionError, match="missing from 3 of 3 partitions"):
        batch.commit(results)
    assert query.visible() == NOTHING


@pytest.mark.parametrize("retention_ms", [60_000, -1])
def test_record_of_a_finished_run_is_removed_later(
    query: Writes, retention_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run removes it when abort() of the finished run can no longer need it."""
    monkeypatch.setattr(recovery, "_RUN_RETENTION_MS", retention_ms)
    finished, following = (
        replace(query, scope=Scope.run(query.scope.prefix), query=None) for _ in range(2)
    )
    batch = plan(finished, finished.scope.name)
    batch.commit(batch.tasks())
    following.committer.recover()
    with connected_scope_client(query.config, query.scope) as scope_client:
        scopes = list(scope_client.log.read().scopes(query.scope.prefix))
    assert scopes == ([finished.scope] if retention_ms > 0 else [])
    assert query.visible() == rows_of(finished.scope.name)


def test_atomic_and_other_batches_alternate(query: Writes) -> None:
    each_its_own = replace(query, options={})
    each_its_own.committer.commit("0", each_its_own.tasks("0"))
    batch = plan(query, "1")
    batch.commit(batch.tasks())
    dead = plan(query, "2")
    dead.tasks()
    each_its_own.committer.recover()
    each_its_own.committer.commit("2", each_its_own.tasks("2"))
    assert query.visible() == rows_of("0", "1", "2")
    assert dead.commit([dead.result(None)] * TASKS).status is CommitStatus.ALREADY_WRITTEN


@pytest.mark.parametrize("ending", ["commit", "fenced commit", "abort"])
def test_batch_that_another_driver_has_decided(query: Writes, ending: str) -> None:
    """A driver without atomicBatch takes over and dies after its decision, which must be kept."""
    batch, other = plan(query, "0"), replace(query, options={})
    results = batch.tasks()

    def decide() -> None:
        crash_driver(other, "0", "after decide")

    if ending == "fenced commit":
        batch.commit_with("before done", decide, results)
    else:
        decide()
        if ending == "commit":
            outcome = batch.commit(results)
        else:
            outcome = query.committer.abort_shared("0", results, batch.shared, complete=True)
        assert (outcome.status, outcome.is_superseded) == (CommitStatus.ALREADY_WRITTEN, True)
    assert query.visible() == rows_of("0")


def test_operator_lists_and_aborts_undecided_batch(query: Writes) -> None:
    batch = plan(query, "0")
    results = batch.tasks()
    operator = TransactionOperator(query.config)
    overview = operator.overview()
    (view,) = overview.transactions  # claims are not listed
    assert (view.transactional_id, view.status) == (
        batch.shared.transactional_id,
        DecisionStatus.UNDECIDED,
    )
    assert len(overview.partitions) == TASKS
    assert operator.abort((), undecided=False) == {}
    assert operator.abort((), undecided=True) == {view.transactional_id: 0}
    with pytest.raises(TransactionError):
        batch.commit(results)
    assert query.visible() == NOTHING


@pytest.mark.deep
def test_on_older_kafkas(old_kafkas: dict[str, ZooKeeperCluster], unique_topic: str) -> None:
    """With transactions V1, the epoch does not change after the end of a transaction."""
    query = writes_to(old_kafkas["3.9.1"], unique_topic)
    first = plan(query, "0")
    assert first.shared.version is TransactionVersion.V1
    results = first.tasks()
    first.commit(results)
    assert is_visible(query, "0")
    dead = plan(query, "1")
    early = [dead.task(0), dead.task(1)]
    with pytest.raises(DeliveryError):
        dead.task(0)
    # The transaction is aborted but keeps its epoch, so later rows are in a new transaction.
    with pytest.raises(TransactionError, match=r"2 of 3 partitions.*no open transaction"):
        dead.commit([*early, dead.task(2)])
    batch = plan(query, "1")
    results = batch.tasks()
    outcome = query.committer.abort_shared("1", results, batch.shared, complete=True)
    assert outcome.status is CommitStatus.ABORTED
    with pytest.raises(TransactionError):
        batch.commit(results)
    again = plan(query, "1")
    again.commit(again.tasks())
    assert is_visible(query, "0", "1")


@pytest.mark.deep
def test_abort_after_the_check_on_older_kafkas(
    old_kafkas: dict[str, ZooKeeperCluster], unique_topic: str
) -> None:
    """A delayed attempt ends the transaction; a new one continues with the same epoch."""
    query = writes_to(old_kafkas["3.9.1"], unique_topic)
    batch = plan(query, "0")
    results = batch.tasks()

    def resume() -> None:
        with pytest.raises(DeliveryError):
            batch.task(0)

    with pytest.raises(TransactionError):
        batch.commit_with("before done", resume, results)
    assert is_visible(query)
    assert query.committer.recover() == NoDecision()
    again = plan(query, "0")
    again.commit(again.tasks())
    assert is_visible(query, "0")
