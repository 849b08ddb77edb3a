"""Whether a micro-batch is written, skipped or rejected."""

import pickle
from dataclasses import replace

import pytest

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.scope_state import Decided, Done, NoDecision, ScopeStateOf
from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import Scope, parse_task_id
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.spark.exactly_once.exactly_once_plan import ExactlyOncePlan

STREAM = Scope.stream("orders")
TRANSACTION = TaskTransaction(
    transaction=TransactionalProducer(
        transactional_id="t", producer_id=1, epoch=0, version=TransactionVersion.V2
    ),
    started_ms=1,
    timeout_ms=60_000,
)


def plan_of(state: ScopeStateOf[TaskTransaction], scope: Scope = STREAM) -> ExactlyOncePlan:
    return ExactlyOncePlan(scope=scope, nonce="0123456789abcdef", state=state, timeout_ms=60_000)


@pytest.mark.parametrize(
    ("state", "batch", "written"),
    [
        (NoDecision(), "0", True),
        (Done(query_id="q", batch="4"), "5", True),
        (Done(query_id="q", batch="5"), "5", False),
        (Decided(query_id="q", batch="5", transactions=(TRANSACTION,)), "5", False),
    ],
)
def test_micro_batch_is_written_or_skipped(
    state: ScopeStateOf[TaskTransaction], batch: str, written: bool
) -> None:
    assert plan_of(state).must_write("q", batch) is written


@pytest.mark.parametrize(
    ("state", "batch", "hint"),
    [
        (NoDecision(), "5", "no record of the previous batches"),
        (Done(query_id="other", batch="4"), "0", "another query"),
        (Done(query_id="q", batch="6"), "5", "a later batch"),
    ],
)
def test_rejected_micro_batch_has_a_hint(
    state: ScopeStateOf[TaskTransaction], batch: str, hint: str
) -> None:
    with pytest.raises(TransactionError, match=hint) as caught:
        plan_of(state).must_write("q", batch)
    assert "each attempt fails with this" in str(caught.value.hint)


def test_new_query_takes_over_if_allowed() -> None:
    assert replace(plan_of(Done(query_id="other", batch="4")), reset=True).must_write("q", "0")


def test_batch_is_written_once() -> None:
    scope = Scope.batch("orders", "2026-11-20")
    assert plan_of(NoDecision(), scope).must_write(None, scope.name)
    assert not plan_of(Done(query_id=None, batch=scope.name), scope).must_write(None, scope.name)


def test_earlier_batch_of_an_unknown_query_is_rejected() -> None:
    scope = Scope.batch("orders", "7")
    latest = plan_of(Done(query_id=None, batch="7", rows=10), scope)
    earlier = replace(latest, has_later_batch=True)
    assert not latest.must_write(None, "7", "session")
    assert not earlier.must_write(None, "7")
    with pytest.raises(TransactionError, match="this batchId and a later one") as caught:
        earlier.must_write(None, "7", "session")
    assert "use another transactionalIdPrefix" in str(caught.value.hint)
    assert "--accept-loss 'orders/batch/7/topic-column'" in str(caught.value.hint)


def test_each_attempt_has_its_own_id() -> None:
    plan = plan_of(NoDecision())
    tasks = [TaskAttempt(partition_id=3, task_attempt_id=attempt) for attempt in (70, 71)]
    first, second = (plan.transaction("q", "5", task) for task in tasks)
    assert first.transactional_id != second.transactional_id
    assert first.id_prefix == "orders/"
    parsed = parse_task_id(first.transactional_id)
    assert parsed is not None
    assert (parsed.scope, parsed.query_id, parsed.batch) == (STREAM, "q", "5")
    assert (parsed.nonce, parsed.partition, parsed.task_attempt_id) == (plan.nonce, 3, 70)
    assert first.timeout_ms == 60_000


def test_all_attempts_of_a_task_share_their_claim() -> None:
    shared = TRANSACTION.transaction
    plan = replace(plan_of(NoDecision()), shared=shared)
    tasks = [TaskAttempt(partition_id=3, task_attempt_id=attempt) for attempt in (70, 71)]
    first, second = (plan.transaction("q", "5", task) for task in tasks)
    assert first == second
    assert first.shared is not None
    assert (first.transactional_id, first.shared.producer) == ("t", shared)
    assert first.id_prefix == "orders/"
    assert first.shared.claim_id == f"orders/stream/q/5/{plan.nonce}/3"


def test_plan_is_pickled_with_the_writer() -> None:
    plan = plan_of(Done(query_id="q", batch="5", retired_query_ids=("old",)))
    assert pickle.loads(pickle.dumps(plan)) == plan
