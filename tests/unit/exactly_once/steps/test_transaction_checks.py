"""The checks of the tasks' transactions before a decision."""

from dataclasses import replace

import pytest

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.decision_log import DRIVER_TIMEOUT_MS
from spark_kafka_sink.exactly_once.steps.transaction_checks import (
    MIN_LEFT_MS,
    MIN_TIMEOUT_MS,
    check_committable,
)
from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from tests.support.decisions import task_transactions

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
