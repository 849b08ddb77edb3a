"""A driver's steps: checks before a decision, orphans, rejected batches and time limits."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError, TransactionError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.decision_log import DRIVER_TIMEOUT_MS
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.scope_state import Decided, Done, NoDecision, Planning
from spark_kafka_sink.exactly_once.steps.call_timer import CallTimer
from spark_kafka_sink.exactly_once.steps.end_transactions import APPEND_TIMEOUT_S
from spark_kafka_sink.exactly_once.steps.orphans import (
    OrphanCandidate,
    abort_orphans,
    abort_own,
    is_orphan,
)
from spark_kafka_sink.exactly_once.steps.rejections import rejection_error
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.steps.transaction_checks import (
    MIN_LEFT_MS,
    MIN_TIMEOUT_MS,
    check_committable,
)
from spark_kafka_sink.exactly_once.transactional_id import Scope, WriteDestination
from spark_kafka_sink.kafka.admin.transaction_handlers import TransactionDescription
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.clock import ManualClock
from tests.support.harness.scripted import ScriptedCluster, blocking_client
from tests.unit.exactly_once.decisions import ORDERS, decided, task_transactions

TASKS = task_transactions(3)
STARTED, TIMEOUT = TASKS[0].started_ms, TASKS[0].timeout_ms
ALIVE = {
    task.transactional_id: TransactionDescription(
        transactional_id=task.transactional_id,
        state=TransactionState.ONGOING,
        producer_id=task.transaction.producer_id,
        epoch=task.transaction.epoch,
        timeout_ms=TIMEOUT,
        started_ms=STARTED,
    )
    for task in TASKS
}
NAME = TASKS[1].transactional_id
COORDINATOR_INTERVAL_MS = 10_000
"""Kafka's default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""

MAX_BLOCK_S = 0.1
LIMIT_S = 0.9 * APPEND_TIMEOUT_S
"""Less than every time limit of one request without max.block.ms."""

BATCH_WRITE = BatchWrite(query="new", batch="3")


def test_open_transactions_with_time_left_are_accepted() -> None:
    check_committable(TASKS, ALIVE, STARTED)
    check_committable(TASKS, ALIVE, STARTED + TIMEOUT - 30_000)
    check_committable(TASKS, ALIVE, STARTED - 5_000)  # a clock behind the others
    check_committable(TASKS, None, STARTED + TIMEOUT - 30_000)
    check_committable((), {}, STARTED)


def test_half_a_minute_must_be_left() -> None:
    late = STARTED + TIMEOUT - 29_000
    for descriptions in (ALIVE, None):
        with pytest.raises(TransactionError, match=r"3 of 3 .* 29 of 900 s") as caught:
            check_committable(TASKS, descriptions, late)
        assert "Nothing is lost" in str(caught.value)


def test_earlier_start_at_the_coordinator_counts() -> None:
    earlier = {**ALIVE, NAME: replace(ALIVE[NAME], started_ms=STARTED - TIMEOUT)}
    with pytest.raises(TransactionError, match=f"1 of 3 .*{NAME} has 0 of 900 s"):
        check_committable(TASKS, earlier, STARTED)


@pytest.mark.parametrize("timeout_ms", [10_000, 60_000, 99_000, 120_000])
def test_driver_pause_cannot_outlast_a_transaction(timeout_ms: int) -> None:
    """Between the check and the commit of the decision, even for the shortest timeout."""
    short = [replace(task, timeout_ms=timeout_ms) for task in TASKS]
    descriptions = {
        name: replace(description, timeout_ms=timeout_ms) for name, description in ALIVE.items()
    }
    latest = STARTED + timeout_ms - DRIVER_TIMEOUT_MS - COORDINATOR_INTERVAL_MS
    for described in (descriptions, None):
        with pytest.raises(TransactionError, match="s left"):
            check_committable(short, described, latest)
    check_committable(TASKS, ALIVE, STARTED + MIN_TIMEOUT_MS - MIN_LEFT_MS)


def test_timeout_at_the_coordinator_counts() -> None:
    """With two-phase commit there is no timeout (KIP-939)."""
    never = {
        name: replace(description, timeout_ms=2**31 - 1) for name, description in ALIVE.items()
    }
    check_committable(TASKS, never, STARTED + 10 * TIMEOUT)


@pytest.mark.parametrize(
    "changed",
    [
        {"state": TransactionState.COMPLETE_ABORT},
        {"state": TransactionState.PREPARE_COMMIT},
        {"state": TransactionState.EMPTY},
        {"epoch": 1},
        {"producer_id": 9},
    ],
)
def test_changed_transaction_is_not_decided(changed: dict[str, object]) -> None:
    touched = {**ALIVE, NAME: replace(ALIVE[NAME], **changed)}  # type: ignore[arg-type]
    with pytest.raises(TransactionError, match=f"1 of 3 .*{NAME} is .*, not open"):
        check_committable(TASKS, touched, STARTED)


def test_transaction_unknown_to_its_coordinator_is_not_decided() -> None:
    forgotten = {name: descriptions for name, descriptions in ALIVE.items() if name != NAME}
    with pytest.raises(TransactionError, match=f"{NAME} is no longer known"):
        check_committable(TASKS, forgotten, STARTED)


def test_error_names_ten_transactions_and_counts_the_others() -> None:
    with pytest.raises(TransactionError, match="and 5 more"):
        check_committable(task_transactions(15), {}, STARTED)


def test_impossible_age_suggests_comparing_clocks() -> None:
    check_committable(TASKS, ALIVE, STARTED - 5_000_000)
    with pytest.raises(TransactionError, match="compare the clocks"):
        check_committable(TASKS, ALIVE, STARTED + TIMEOUT + 3_600_000)
    for descriptions, now in (
        (ALIVE, STARTED + TIMEOUT + 19_000),
        (None, STARTED + TIMEOUT + 3_600_000),
    ):
        with pytest.raises(TransactionError) as caught:
            check_committable(TASKS, descriptions, now)
        assert "clocks" not in str(caught.value)


def test_blocks_are_timed_in_their_order() -> None:
    clock = ManualClock()
    timer = CallTimer(clock, 60)
    for name, seconds in (("fence", 0.25), ("read", 0.5), ("fence", 1.0)):
        with timer.measure(name):
            clock.advance(seconds)
    assert timer.timings == (("fence", 250.0), ("read", 500.0), ("fence", 1000.0))


def test_time_limits_are_at_most_max_block_ms() -> None:
    clock = ManualClock()
    timer = CallTimer(clock, 60)
    assert timer.deadline == timer.deadline_in(90) == clock.monotonic() + 60
    assert timer.deadline_in(10) == clock.monotonic() + 10
    clock.advance(60)
    assert timer.is_overdue
    timer.restart()
    assert not timer.is_overdue


@pytest.fixture
def driver() -> Iterator[ScopeClient]:
    """Yield a driver with a short max.block.ms, whose brokers do not respond to its requests."""
    cluster = ScriptedCluster()
    for api in (ApiKey.FIND_COORDINATOR, ApiKey.LIST_TRANSACTIONS):
        cluster.scripts[api] = lambda _node, _request: {}
        cluster.unanswered.add(api)
    config = SinkConfig.parse(
        {
            "kafka.bootstrap.servers": "localhost:1",
            "kafka.max.block.ms": str(int(1000 * MAX_BLOCK_S)),
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": "orders",
        }
    )
    with blocking_client(cluster) as client:
        yield ScopeClient(client, config, ORDERS)


def test_aborts_end_after_max_block_ms(driver: ScopeClient) -> None:
    began, tasks = driver.timer.now(), task_transactions(2)
    names = {task.transactional_id for task in tasks}
    assert abort_own(driver, tasks, names).left_open == names
    assert abort_orphans(driver, NoDecision(), frozenset({"0123456789abcdef"})).problem
    assert driver.timer.now() - began < LIMIT_S


def test_append_with_its_own_limit_ends_after_max_block_ms(driver: ScopeClient) -> None:
    began, (task,) = driver.timer.now(), task_transactions(1)
    with pytest.raises(BrokerUnavailableError):
        driver.log.append(task.transaction, decided(1), "done", APPEND_TIMEOUT_S)
    assert driver.timer.now() - began < LIMIT_S


@dataclass(frozen=True)
class Txn:
    transactional_id: str


DECIDED = Decided("query", "7", (Txn("decided"),))


def candidate(batch: str, name: str = "lost", query: str | None = "query") -> OrphanCandidate:
    return OrphanCandidate(transactional_id=name, query=query, batch=batch, nonce="nonce")


@pytest.mark.parametrize(
    ("state", "batch", "orphan"),
    [
        (NoDecision(), "0", False),
        (Done("query", "7"), "8", False),
        (Done("query", "7"), "7", True),
        (Done("query", "10"), "9", True),
        (DECIDED, "7", True),
        (DECIDED, "6", True),
        (DECIDED, "8", False),
        (Done("other", "7"), "0", False),  # may replace the other query
        (Done("other", "7"), "1", False),  # may follow such a batch 0, if this state is outdated
        (Done("other", "0", ("query",)), "0", True),
        (Done("other", "0", ("query",)), "7", True),
        (Decided("other", "0", (Txn("theirs"),), ("query",)), "7", True),
    ],
)
def test_only_transactions_that_cannot_be_decided_any_more(
    state: NoDecision | Decided[Txn] | Done, batch: str, orphan: bool
) -> None:
    assert is_orphan(state, candidate(batch)) is orphan


def test_transactions_in_a_decision_are_never_aborted() -> None:
    assert not is_orphan(DECIDED, candidate("7", "decided"))
    assert not is_orphan(DECIDED, candidate("7", "decided"), given_up={"nonce"})


def test_nonce_that_its_driver_has_given_up() -> None:
    assert is_orphan(Done("query", "6"), candidate("7"), given_up={"nonce"})
    assert not is_orphan(Done("query", "6"), candidate("7"), given_up={"another"})


def test_batch_job_has_one_batch() -> None:
    job = candidate("2026-11-20", query=None)
    assert is_orphan(Done(None, "2026-11-20"), job)
    assert is_orphan(Done("of a foreachBatch", "2026-11-20"), job)
    assert not is_orphan(NoDecision(), job)


def test_both_writes_of_a_batch_id_are_named() -> None:
    scope = Scope.batch("orders", "7", WriteDestination(name="late"))
    batch_write = BatchWrite(query=None, batch="7", is_single_batch=True, rows=10, topics=("c",))
    written = Done(None, "7", rows=10, topics=tuple("abdefgh"))
    text = str(rejection_error(BatchRejection.OTHER_JOBS_ROWS, scope, written, batch_write))
    assert "batch 7 of orders named late to the topics of its rows" in text
    assert "10 rows, but now has 10, for topics a, b, d, e, f and 2 more, now for c" in text
    assert "--accept-loss 'orders/batch/7/topic-column/name=late'`" in text
    existing = Done("q", "7", plannings=(Planning("of another", "m"), Planning("r", "n")))
    batch_write = BatchWrite(
        query="q", batch="7", is_single_batch=True, run="r", nonces=frozenset({"o"})
    )
    text = str(rejection_error(BatchRejection.ANOTHER_WRITE, scope, existing, batch_write))
    assert "by planning n; this planning is o" in text
    assert "writeName" in text


@pytest.mark.parametrize("rejection", BatchRejection)
def test_every_rejection_has_a_hint(rejection: BatchRejection) -> None:
    error = rejection_error(rejection, ORDERS, Done("old", "17"), BATCH_WRITE)
    assert rejection.problem in error.message
    assert "stream orders: the decision log has batch 17 of query old" in error.message
    assert error.hint


def test_empty_log_has_no_record() -> None:
    error = rejection_error(BatchRejection.LOG_IS_EMPTY, ORDERS, NoDecision(), BATCH_WRITE)
    assert "has no record" in error.message
    assert "resetTransactionalState=3" in str(error)


def test_different_row_counts_are_named() -> None:
    batch_write = BatchWrite(query="q", batch="17", rows=2_000)
    error = rejection_error(
        BatchRejection.OTHER_ROWS, ORDERS, Done("q", "17", rows=1_000), batch_write
    )
    assert "batch 17 of query q with 1,000 rows, but now has 2,000" in error.message
    assert "--prefix orders --accept-loss 'orders/stream'`" in str(error)
