"""The exactly-once driver on a real Kafka and the embedded broker, verified by another client."""

import time
from dataclasses import replace
from unittest.mock import Mock

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError, FencedError, TransactionError
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from spark_kafka_sink.exactly_once.scope_state import Done, NoDecision
from spark_kafka_sink.exactly_once.steps.abort import abort_batch
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    ScopeKind,
    WriteDestination,
    driver_transactional_id,
    new_nonce,
)
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from tests.integration.exactly_once.simulated_writes import (
    NOTHING,
    PARTITIONS,
    QUERY,
    ROWS,
    Writes,
    batch_job,
    rows_of,
    stream,
    transactions_of,
)
from tests.integration.exactly_once.stepped_client import DECIDED, STEPS, crash, stepped_client
from tests.support.pace import pace
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka

pytestmark = pytest.mark.quick

RESUMED: dict[str, tuple[CommitStatus, CommitStatus | type[TransactionError]]] = {
    "after fence": (CommitStatus.COMMITTED, CommitStatus.ALREADY_WRITTEN),
    "after read": (CommitStatus.COMMITTED, TransactionError),  # It has ended the transactions.
    "after describe": (CommitStatus.COMMITTED, FencedError),
    "before decide": (CommitStatus.COMMITTED, FencedError),
    "after decide": (CommitStatus.ROLLED_FORWARD, CommitStatus.COMMITTED),
    "between two EndTxns": (CommitStatus.ROLLED_FORWARD, CommitStatus.COMMITTED),
    "after commit": (CommitStatus.ROLLED_FORWARD, CommitStatus.COMMITTED),
    "before done": (CommitStatus.ROLLED_FORWARD, CommitStatus.COMMITTED),
    "after done": (CommitStatus.ALREADY_WRITTEN, CommitStatus.COMMITTED),
}
"""Results of another driver that runs the batch, and of the driver that pauses meanwhile."""


def test_batch_is_visible_after_commit(query: Writes) -> None:
    assert query.committer.recover() == NoDecision()
    results = query.tasks("0")
    assert query.visible() == NOTHING
    outcome = query.committer.commit("0", results)
    assert query.visible() == rows_of("0")
    assert (outcome.status, outcome.transactions, outcome.records) == (
        CommitStatus.COMMITTED,
        3,
        60,
    )
    assert query.committer.recover() == Done(query_id=QUERY, batch="0")


def test_order_of_the_steps(query: Writes) -> None:
    """The transactions and the log are checked both before and after the decision is appended."""
    tasks = transactions_of(query.tasks("0"))
    with stepped_client(query, "", lambda: None) as scope_client:
        commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="0"), tasks)
    assert scope_client.breakpoint.reached == [
        "before fence", "after fence", "after read", "after describe", "before decide",
        "after describe", "after read", "after decide", "between two EndTxns", "after commit",
        "before done", "after done",
    ]  # fmt: skip


def test_repeated_batch_is_already_written(query: Writes) -> None:
    query.committer.commit("0", query.tasks("0"))
    outcome = query.committer.commit("0", query.tasks("0"))
    assert (outcome.status, outcome.records, outcome.aborted) == (
        CommitStatus.ALREADY_WRITTEN,
        60,
        3,
    )
    skipped = [query.result(TaskOutcome.SKIPPED, "0")]
    assert query.committer.commit("0", skipped).status is CommitStatus.ALREADY_WRITTEN
    query.committer.commit("1", query.tasks("1"))
    assert query.visible() == rows_of("0", "1")


def test_empty_batch_is_done(query: Writes) -> None:
    empty = [query.result(TaskOutcome.EMPTY, "0")] * 2
    assert query.committer.commit("0", empty).status is CommitStatus.EMPTY
    mixed = [query.result(TaskOutcome.EMPTY, "1"), *query.tasks("1")]
    assert query.committer.commit("1", mixed).transactions == 3
    assert query.visible() == rows_of("1")


def test_skipped_batch_is_not_decided_as_empty(query: Writes) -> None:
    skipped = [query.result(TaskOutcome.SKIPPED, "0")]  # planned before the log was deleted
    with pytest.raises(TransactionError, match="skipped the batch"):
        query.committer.commit("0", skipped)
    assert query.committer.recover() == NoDecision()


@pytest.mark.deep
@pytest.mark.parametrize("step", STEPS)
def test_no_loss_or_duplicates_after_driver_crash(query: Writes, step: str) -> None:
    query.committer.commit("0", query.tasks("0"))
    crash(query, "1", step)
    state = query.committer.recover()
    assert state == Done(query_id=QUERY, batch="1" if step in DECIDED else "0")
    assert query.visible() == rows_of("0", *(["1"] if step in DECIDED else []))
    outcome = query.committer.commit("1", query.tasks("1"))
    assert outcome.aborted == 3  # transactions of a batch already written, or of the crashed driver
    assert query.visible() == rows_of("0", "1")
    assert query.committer.commit("2", query.tasks("2")).status is CommitStatus.COMMITTED
    assert query.visible() == rows_of("0", "1", "2")


@pytest.mark.parametrize("step", ["before decide", "after decide", "between two EndTxns"])
def test_abort_after_failed_commit_completes_the_decided_batch(query: Writes, step: str) -> None:
    results = query.tasks("0")
    crash(query, "0", step, transactions_of(results))
    outcome = query.committer.abort("0", results, complete=True)
    decided = step in DECIDED
    assert outcome.status is (CommitStatus.ROLLED_FORWARD if decided else CommitStatus.ABORTED)
    assert query.visible() == (rows_of("0") if decided else NOTHING)


@pytest.mark.parametrize("kind", ScopeKind)
def test_abort_after_commit_reports_already_written(
    any_kafka: AnyKafka, unique_topic: str, kind: ScopeKind
) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    prefix = f"p-{unique_topic}"
    scopes = {ScopeKind.BATCH: Scope.batch(prefix, "0"), ScopeKind.RUN: Scope.run(prefix)}
    write = (
        batch_job(any_kafka.bootstrap_servers, unique_topic, scopes[kind])
        if kind in scopes
        else stream(any_kafka.bootstrap_servers, unique_topic, prefix)
    )
    batch = write.scope.name or "0"
    results = write.tasks(batch)
    write.committer.commit(batch, results)
    state = write.committer.recover()
    aborted = write.committer.abort(batch, results, complete=True)
    assert aborted.status is CommitStatus.ALREADY_WRITTEN
    assert write.committer.recover() == state
    assert write.visible() == rows_of(batch)


@pytest.mark.deep
@pytest.mark.parametrize("step", STEPS)
def test_resumed_driver_creates_no_duplicates(query: Writes, step: str) -> None:
    tasks = transactions_of(query.tasks("0"))
    results: list[CommitStatus | type[TransactionError]] = []
    message = ""

    def overtake() -> None:
        results.append(query.committer.commit("0", query.tasks("0")).status)

    with stepped_client(query, step, overtake) as scope_client:
        try:
            outcome = commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="0"), tasks)
            results.append(outcome.status)
        except TransactionError as error:
            results.append(type(error))
            message = error.message
    assert tuple(results) == RESUMED[step]
    assert ("a newer driver of " in message) == (FencedError in results)
    assert query.committer.recover() == Done(query_id=QUERY, batch="0")
    query.committer.commit("1", query.tasks("1"))
    assert query.visible() == rows_of("0", "1")


@pytest.mark.deep
def test_commit_a_thousand_transactions(query: Writes) -> None:
    many = replace(query, timeout_ms=600_000)
    many.committer.recover()
    results = many.tasks("0", 1_000)
    started = time.monotonic()
    with pace() as machine:
        outcome = many.committer.commit("0", results)
    seconds = time.monotonic() - started
    assert (outcome.transactions, outcome.records) == (1_000, 1_000 * ROWS)
    assert seconds < 3 + machine.slack_s


@pytest.mark.parametrize("reported", [0, 2, 3])
def test_abort_ends_all_transactions_of_the_batch(query: Writes, reported: int) -> None:
    """Without a task's message, the driver knows the nonce from planning."""
    nonce = "0123456789abcdef"
    results = query.tasks("0", nonce=nonce)[:reported]
    query.task("0", 2, nonce)  # a lost attempt
    outcome = query.committer.abort(
        "0", results, complete=reported == 3, nonce=None if results else nonce
    )
    assert (outcome.status, outcome.aborted) == (CommitStatus.ABORTED, 4)
    query.committer.commit("0", query.tasks("0"))
    assert query.visible() == rows_of("0")


def test_transactions_of_lost_attempts_are_aborted(query: Writes) -> None:
    query.tasks("0", tasks=2)  # from a planning that was not completed
    lost = query.task("0", 2, "0123456789abcdef")
    assert lost.transaction is not None
    assert query.committer.commit("0", query.tasks("0")).aborted == 3
    assert query.visible() == rows_of("0")


def test_transactions_of_a_later_batch_are_not_aborted(query: Writes) -> None:
    coming = query.tasks("1")
    query.committer.commit("0", query.tasks("0"))
    query.committer.commit("1", coming)
    assert query.visible() == rows_of("0", "1")


def test_another_query_is_rejected_until_reset(query: Writes) -> None:
    query.committer.commit("0", query.tasks("0"))
    other = replace(query, query="00000000-0000-0000-0000-000000000001")
    results = other.tasks("0")
    with pytest.raises(TransactionError, match="another query") as caught:
        other.committer.commit("0", results)
    assert "resetTransactionalState=true" in str(caught.value)
    assert other.visible() == rows_of("0")
    unfinished = query.tasks("1")  # of a driver that was killed
    reset = replace(other, options={"resetTransactionalState": "true"})
    outcome = reset.committer.commit("0", reset.tasks("0"))
    assert (outcome.status, outcome.aborted) == (CommitStatus.COMMITTED, len(unfinished))
    assert query.visible() == rows_of("0") + rows_of("0")
    with pytest.raises(TransactionError, match="has replaced this one"):
        query.committer.commit("1", query.tasks("1"))


def test_open_transactions_of_another_query(
    query: Writes, caplog: pytest.LogCaptureFixture
) -> None:
    """The other query might still replace this one, so its transactions are not aborted."""
    other = replace(query, query="00000000-0000-0000-0000-000000000001")
    open_ids = [transaction.transactional_id for transaction in transactions_of(other.tasks("0"))]
    query.committer.commit("0", query.tasks("0"))
    views = TransactionOperator(query.config).overview().transactions
    assert {view.transactional_id for view in views} == set(open_ids)
    assert f"for example {min(open_ids)}" in caplog.text


def test_missing_transaction_fails_before_the_decision(query: Writes) -> None:
    results = query.tasks("0")
    query.committer.abort("0", results[:1], complete=False)
    again = query.tasks("0", tasks=2)
    with pytest.raises(TransactionError, match="cannot be committed safely"):
        query.committer.commit("0", [*results[:1], *again])
    assert query.committer.recover() == NoDecision()
    query.committer.commit("0", query.tasks("0"))
    assert query.visible() == rows_of("0")


def test_transaction_that_ends_after_the_first_check_fails_the_batch(query: Writes) -> None:
    """It ends after the first check; a decision would commit the batch only partially."""
    results = query.tasks("0")
    tasks = transactions_of(results)

    def end_one() -> None:
        query.committer.abort("0", results[:1], complete=False)

    with (
        stepped_client(query, "before decide", end_one) as scope_client,
        pytest.raises(TransactionError),
    ):
        commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="0"), tasks)
    assert query.committer.recover() == NoDecision()
    query.committer.commit("0", query.tasks("0"))
    assert query.visible() == rows_of("0")


def test_jobs_with_different_batch_ids_do_not_fence_each_other(query: Writes) -> None:
    first, second = (
        batch_job(query.bootstrap_servers, query.topic, Scope.batch(query.scope.prefix, name))
        for name in ("1", "2")
    )
    results = first.tasks("1")
    second.committer.commit("2", second.tasks("2"))
    first.committer.commit("1", results)
    assert query.visible() == rows_of("1", "2")


def write_batch(query: Writes, target: WriteDestination | None, rows: int | None = None) -> Writes:
    """Run a batch job, possibly one of a version that did not distinguish writes."""
    if target is None:
        scope = replace(Scope.batch(query.scope.prefix, "7"), destination=None)
    else:
        scope = Scope.batch(query.scope.prefix, "7", target)
    return replace(batch_job(query.bootstrap_servers, query.topic, scope), rows=rows)


def test_writes_of_one_batch_to_two_topics_do_not_fence_each_other(query: Writes) -> None:
    first, second, third = (
        write_batch(query, target)
        for target in (
            WriteDestination(topic="a"),
            WriteDestination(topic="b"),
            WriteDestination(topic="b", name="late/ü #1"),
        )
    )
    results = first.tasks("7")
    for writes in (second, third):
        assert writes.committer.commit("7", writes.tasks("7")).status is CommitStatus.COMMITTED
    assert first.committer.commit("7", results).status is CommitStatus.COMMITTED
    assert query.visible() == rows_of("7") + rows_of("7") + rows_of("7")
    assert third.committer.commit("7", third.tasks("7")).status is CommitStatus.ALREADY_WRITTEN


def test_batch_with_different_rows_is_accepted_after_accept_loss(query: Writes) -> None:
    ours = replace(write_batch(query, WriteDestination(), rows=20), topics=frozenset({"a"}))
    ours.committer.commit("7", ours.tasks("7"))
    for other in (replace(ours, rows=50), replace(ours, rows=60, topics=frozenset({"b"}))):
        skipped = [other.result(TaskOutcome.SKIPPED, "7")]
        with pytest.raises(TransactionError, match="different rows"):
            ours.committer.commit("7", skipped)
    TransactionOperator(query.config).accept_loss(driver_transactional_id(ours.scope))
    assert ours.committer.commit("7", skipped).status is CommitStatus.ALREADY_WRITTEN
    assert query.visible() == rows_of("7")


def test_next_run_completes_a_crashed_run_without_batch_id(query: Writes) -> None:
    died = batch_job(query.bootstrap_servers, query.topic, Scope.run(query.scope.prefix))
    crash(died, died.scope.name, "after decide")
    assert query.visible() == NOTHING
    job = batch_job(query.bootstrap_servers, query.topic, Scope.run(query.scope.prefix))
    assert job.committer.recover() == NoDecision()
    assert query.visible() == rows_of("x")
    assert died.committer.recover() == NoDecision()  # removed, as its scope is never used again
    outcome = job.committer.commit(job.scope.name, job.tasks(job.scope.name))
    assert outcome.status is CommitStatus.COMMITTED
    assert query.visible() == rows_of("x") + rows_of("x")


@pytest.mark.parametrize("kind", [ScopeKind.STREAM, ScopeKind.RUN])
def test_abort_while_a_commit_finishes(query: Writes, kind: ScopeKind) -> None:
    """The outcome does not depend on what the coordinators returned before the fence."""
    write = query
    if kind is ScopeKind.RUN:
        write = batch_job(query.bootstrap_servers, query.topic, Scope.run(query.scope.prefix))
    batch = write.scope.name or "0"
    batch_write, tasks = write.batch_write(batch, new_nonce()), transactions_of(write.tasks(batch))

    def commit() -> None:
        with borrowed_client(write.config.producer) as client:
            commit_batch(ScopeClient(client, write.config, write.scope), batch_write, tasks)

    with stepped_client(write, "before fence", commit) as scope_client:
        outcome = abort_batch(scope_client, batch_write, tasks)
    assert (outcome.status, outcome.is_superseded) == (CommitStatus.ALREADY_WRITTEN, False)
    assert write.visible() == rows_of(batch)


def test_records_that_a_driver_has_read_do_not_change(query: Writes) -> None:
    """Other threads of the process, such as other streams, read the same topic."""
    query.committer.commit("0", query.tasks("0"))
    with borrowed_client(query.config.producer) as client:
        scope_client = ScopeClient(client, query.config, query.scope)
        records = scope_client.log.read()
        scopes = records.scopes(query.scope.prefix)
        assert next(scopes) == query.scope
        other = batch_job(
            query.bootstrap_servers, query.topic, Scope.batch(query.scope.prefix, "x")
        )
        other.committer.commit("x", other.tasks("x"))
        assert list(scopes) == []
        assert other.scope in scope_client.log.read().scopes(query.scope.prefix)


@pytest.mark.parametrize("is_decided", [False, True])
def test_abort_does_not_need_the_second_description(query: Writes, is_decided: bool) -> None:
    batch_write, tasks = query.batch_write("0", new_nonce()), transactions_of(query.tasks("0"))
    if is_decided:
        crash(query, "0", "after decide", tasks)

    def fail() -> None:
        scope_client.describe = Mock(side_effect=BrokerUnavailableError("it is overdue"))  # type: ignore[method-assign]

    with stepped_client(query, "after fence", fail) as scope_client:
        outcome = abort_batch(scope_client, batch_write, tasks)
    assert outcome.status is (CommitStatus.ROLLED_FORWARD if is_decided else CommitStatus.ABORTED)
    assert query.visible() == (rows_of("0") if is_decided else NOTHING)


@pytest.mark.parametrize("has_response", [False, True])
def test_commit_of_a_run_that_another_run_finishes(
    query: Writes, caplog: pytest.LogCaptureFixture, has_response: bool
) -> None:
    """The other run removes the record before this run reads its decision back."""
    ours, other = (
        batch_job(query.bootstrap_servers, query.topic, Scope.run(query.scope.prefix))
        for _ in range(2)
    )
    tasks = transactions_of(ours.tasks(ours.scope.name))
    batch_write = ours.batch_write(ours.scope.name, new_nonce())

    def finish() -> None:
        other.committer.recover()
        if not has_response:
            raise BrokerUnavailableError("committing exceeded its deadline")

    with stepped_client(ours, "after decide", finish) as scope_client:
        assert commit_batch(scope_client, batch_write, tasks).status is CommitStatus.COMMITTED
    assert ours.visible() == rows_of(ours.scope.name)
    assert "run the write again" not in caplog.text
