"""What is looked at before a decision: each transaction must outlive the EndTxn that follows.

A transaction that the broker aborts between decision and EndTxn tears the batch, and only that can.
So whatever looks like it fails the batch while nothing is decided: it runs again and loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.protocol.transaction_state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.admin.transaction_states import TransactionDescription
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

MIN_LEFT_MS: Final = 30_000
"""Time that each transaction must have left when the driver checks it before the decision.

Whatever its timeout: a driver that is paused after the check can commit its decision up to 25 s
later (`DRIVER_TIMEOUT_MS` plus the coordinator's check interval), and then commits the tasks'.
"""
MIN_TIMEOUT_MS: Final = 2 * MIN_LEFT_MS
"""The shortest safe transaction.timeout.ms, which leaves a batch half of it for its tasks."""
_ABORTED_WITHIN_MS: Final = 20_000
"""Twice Kafka's default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""
_CLOCKS: Final = (
    " and is open {:,.0f} s longer than brokers allow, by this driver's clock: compare the clocks "
    "of driver, executors and brokers"
)
_SHOWN: Final = 10
"""Transactions that an error names."""


def check_alive(
    transactions: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription] | None,
    now_ms: int,
) -> None:
    """Raise unless every transaction is open, untouched, and has time left.

    Args:
        transactions: those that are to be decided.
        descriptions: what their coordinators say; None where brokers are too old to be asked, so
            that only the tasks' own times tell.
        now_ms: the driver's clock, milliseconds since 1970.

    Raises:
        TransactionError: one is not.
    """
    found = list(_problems(transactions, descriptions, now_ms))
    if not found:
        return
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise TransactionError(
        f"{len(found)} of {plural(len(transactions), 'transaction')} can't be committed "
        f"safely, so that nothing of the batch is decided: {'; '.join(found[:_SHOWN])}{more}",
        hint="Nothing is lost: the batch can run again. If tasks take longer than "
        "transaction.timeout.ms, raise it, and transaction.max.timeout.ms of the brokers with it, "
        "or make the batches smaller",
    )


def _problems(
    transactions: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription] | None,
    now_ms: int,
) -> Iterator[str]:
    for task in transactions:
        name = task.transactional_id
        if descriptions is None:
            started_ms, timeout_ms = task.started_ms, task.timeout_ms
        else:
            told = descriptions.get(name)
            if told is None:
                yield f"{name} is not known to its coordinator any more"
                continue
            if told.state is not TransactionState.ONGOING or not told.is_of(task.transaction):
                yield f"{name} is {told.state.value} at epoch {told.epoch}, not open"
                continue
            started_ms = min(task.started_ms, told.started_ms or task.started_ms)
            timeout_ms = told.timeout_ms
        left_ms = timeout_ms - max(0, now_ms - started_ms)
        if left_ms < MIN_LEFT_MS:
            left = f"{name} has {max(0, left_ms) / 1000:.0f} of {timeout_ms / 1000:.0f} s left"
            overdue = descriptions is not None and left_ms < -_ABORTED_WITHIN_MS
            yield left + (_CLOCKS.format(-left_ms / 1000) if overdue else "")
