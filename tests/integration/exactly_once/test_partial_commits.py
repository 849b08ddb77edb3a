"""A transaction aborted after the decision: the error lists the lost records."""

from dataclasses import replace

import pytest

from spark_kafka_sink.common.errors import TornTransactionError, TransactionError
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, Fate
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from spark_kafka_sink.exactly_once.scope_state import Decided, Done
from spark_kafka_sink.exactly_once.steps.abort import abort_batch
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.steps.scope_client import connected_scope_client
from spark_kafka_sink.exactly_once.steps.transaction_checks import MIN_LEFT_MS
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import Scope, driver_transactional_id, new_nonce
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from tests.integration.exactly_once.planned_batch import TASKS, plan
from tests.integration.exactly_once.simulated_writes import (
    QUERY,
    ROWS,
    SETTLE_S,
    Writes,
    batch_job,
    rows_of,
    transactions_of,
)
from tests.integration.exactly_once.stepped_client import crash, stepped_client

pytestmark = pytest.mark.quick


def commit_partially(query: Writes) -> tuple[TaskTransaction, ...]:
    """Decide batch 0, commit only its first transaction and abort the others.

    Coordinators abort transactions this way after their timeout.
    """
    tasks = crash(query, "0", "between two EndTxns")
    lost = [task.transaction for task in tasks[1:]]
    with borrowed_client(query.config.producer) as client:
        deadline = client.deadline(SETTLE_S)
        assert not any(TransactionAdmin(client).end(lost, commit=False, deadline=deadline).values())
    query.settle()
    return tasks


def test_partial_commit_is_reported_until_reset(query: Writes) -> None:
    tasks = commit_partially(query)
    with pytest.raises(TornTransactionError) as planning:
        query.committer.recover()
    with pytest.raises(TornTransactionError) as committing:
        query.committer.commit("0", query.tasks("0"))
    with pytest.raises(TornTransactionError) as aborting:
        query.committer.abort("0", query.tasks("0"), complete=True)
    for caught in (planning, committing, aborting):
        lines = "\n".join(caught.value.details)
        assert "2 of 3 decided transactions" in caught.value.message
        assert f"committed: {tasks[0].transactional_id}" in lines
        for task in tasks[1:]:
            assert f"lost: {task.transactional_id}, 20 records" in lines
            for partition in task.partitions:
                assert f"{query.topic}-{partition.partition}: 5 records, offsets " in lines
    reset = replace(query, query="another", options={"resetTransactionalState": "true"})
    reset.committer.recover()
    assert reset.committer.commit("0", reset.tasks("0")).status is CommitStatus.COMMITTED
    assert reset.committer.recover() == Done(
        query_id="another", batch="0", retired_query_ids=(QUERY,)
    )


@pytest.mark.deep
@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_query_with_atomic_batches_continues_after_reset(query: Writes, ending: str) -> None:
    """The new query has resetTransactionalState=true, and is stopped once or not at all."""
    commit_partially(query)
    options = {"resetTransactionalState": "true", "atomicBatch": "true"}
    reset = replace(query, query="another", options=options)
    before = query.visible()
    if ending == "abort":
        stopped = plan(reset, "0")
        tasks = stopped.tasks()
        outcome = reset.committer.abort_shared("0", tasks, stopped.shared, complete=True)
        assert outcome.status is CommitStatus.ABORTED
        assert query.visible() == before
    batch = plan(reset, "0")
    assert batch.commit(batch.tasks()).status is CommitStatus.COMMITTED
    assert query.visible() - before == rows_of("0")
    assert reset.committer.recover() == Done(
        query_id="another", batch="0", retired_query_ids=(QUERY,), rows=TASKS * ROWS
    )


@pytest.mark.deep
@pytest.mark.parametrize("is_reset", [True, False])
def test_abort_after_a_torn_batch(query: Writes, is_reset: bool) -> None:
    """Nothing of the aborted batch remains open, and the record of the torn batch is kept."""
    commit_partially(query)
    before = query.visible()
    options = {"resetTransactionalState": "true"} if is_reset else {}
    writes = replace(query, query="another" if is_reset else QUERY, options=options)
    results = writes.tasks("0")
    if is_reset:
        outcome = writes.committer.abort("0", results, complete=True)
        assert (outcome.status, outcome.left_open) == (CommitStatus.ABORTED, ())
    else:
        with pytest.raises(TornTransactionError):
            writes.committer.abort("0", results, complete=True)
    assert TransactionOperator(query.config).overview().transactions == ()
    assert query.visible() == before
    with pytest.raises(TornTransactionError):
        query.committer.recover()


def test_commit_continues_while_abort_finds_a_torn_batch(query: Writes) -> None:
    commit_partially(query)
    before = query.visible()
    options = {"resetTransactionalState": "true"}
    reset = replace(query, query="another", options=options)
    nonce = new_nonce()
    tasks = transactions_of(reset.tasks("0", nonce=nonce))
    batch_write = replace(reset.batch_write("0", nonce), resets_state=True)

    def commit() -> None:
        with connected_scope_client(reset.config, reset.scope) as scope_client:
            commit_batch(scope_client, batch_write, tasks)

    with stepped_client(reset, "before torn", commit) as scope_client:
        outcome = abort_batch(scope_client, batch_write, tasks)
    assert (outcome.status, outcome.is_superseded) == (CommitStatus.ALREADY_WRITTEN, False)
    assert query.visible() - before == rows_of("0")


def test_outcome_of_each_transaction_is_stored(query: Writes) -> None:
    tasks = commit_partially(query)
    query.settle()
    in_topics = [set(TransactionOperator(query.config).fates(task)) for task in tasks]
    assert in_topics == [{Fate.COMMITTED}, {Fate.LOST}, {Fate.LOST}]
    with pytest.raises(TornTransactionError):
        query.committer.commit("0", [query.result(TaskOutcome.SKIPPED, "0")])
    with connected_scope_client(query.config, query.scope) as scope_client:
        scope_client.fence()  # waits until the markers of the previous append are written
        record = scope_client.log.read().latest(query.scope)
    assert record is not None
    assert record.fates == (Fate.COMMITTED, Fate.LOST, Fate.LOST)


def record_unknown_fates(query: Writes) -> None:
    """Record that no topic could be read when the fates were determined."""
    with connected_scope_client(query.config, query.scope) as scope_client:
        owner, record = scope_client.fence(), scope_client.log.read_after_fence()
        assert record is not None
        assert isinstance(record.state, Decided)
        torn = DecisionRecord.of(record.state, record.at_ms, (Fate.UNKNOWN,) * 3)
        scope_client.log.append(owner, torn)


def test_batch_with_unknown_fates_that_is_committed_is_not_torn(query: Writes) -> None:
    crash(query, "0", "after decide")
    record_unknown_fates(query)
    assert query.committer.recover() == Done(query_id=QUERY, batch="0")
    outcome = query.committer.commit("0", [query.result(TaskOutcome.SKIPPED, "0")])
    assert outcome.status is CommitStatus.ROLLED_FORWARD
    assert query.visible() == rows_of("0")


def test_unknown_fates_are_determined_again(query: Writes) -> None:
    commit_partially(query)
    record_unknown_fates(query)
    with pytest.raises(TornTransactionError, match="2 of 3 decided"):
        query.committer.commit("0", [query.result(TaskOutcome.SKIPPED, "0")])
    with connected_scope_client(query.config, query.scope) as scope_client:
        scope_client.fence()
        record = scope_client.log.read().latest(query.scope)
    assert record is not None
    assert record.fates == (Fate.COMMITTED, Fate.LOST, Fate.LOST)


def test_query_continues_after_accept_loss(query: Writes) -> None:
    commit_partially(query)
    operator, scope_id = TransactionOperator(query.config), driver_transactional_id(query.scope)
    finished = operator.accept_loss(scope_id)
    with pytest.raises(TransactionError, match="torn batch"):
        operator.accept_loss(scope_id)
    assert (finished.batch, finished.lost) == ("0", 2)
    assert query.committer.recover() == Done(query_id=QUERY, batch="0")
    assert query.committer.commit("1", query.tasks("1")).status is CommitStatus.COMMITTED
    assert query.visible() - rows_of("1") == rows_of("0", tasks=1)


def test_operator_commits_other_batches_despite_partial_commit(query: Writes) -> None:
    commit_partially(query)
    scope = Scope.batch(query.scope.prefix, "9")
    job = batch_job(query.bootstrap_servers, query.topic, scope)
    crash(job, "9", "after decide")
    with pytest.raises(TornTransactionError, match="batch 0"):
        TransactionOperator(query.config).commit()
    assert query.visible() == rows_of("0", tasks=1) + rows_of("9")


def test_transactions_close_to_their_timeout_fail_before_the_decision(query: Writes) -> None:
    short = replace(query, timeout_ms=MIN_LEFT_MS - 1)
    results = short.tasks("0")
    with pytest.raises(TransactionError):
        query.committer.commit("0", results)
    assert query.visible() == rows_of()
    assert query.committer.commit("0", query.tasks("0")).status is CommitStatus.COMMITTED
    assert query.visible() == rows_of("0")
