"""Checks that the tasks' transactions are open and last until they are committed.

Each transaction must outlive the EndTxn that follows the decision. A batch is torn only if the
broker aborts a transaction between the decision and EndTxn. Therefore, before it decides, the
driver fails the batch on any sign of such an abort: the batch runs again, and nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.text import listed, plural
from spark_kafka_sink.kafka.protocol.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription

MIN_LEFT_MS = 30_000
"""Minimum time in milliseconds before each transaction times out, at the check before the decision.
This does not depend on the transaction timeout: a driver that is paused after the check can
commit its decision up to 25 s later (`DRIVER_TIMEOUT_MS` plus the coordinator's check interval),
and then commits the tasks' transactions.
"""
MIN_TIMEOUT_MS = 2 * MIN_LEFT_MS
"""The shortest safe transaction.timeout.ms; half of it is available to the tasks of a batch."""
_ABORTED_WITHIN_MS = 20_000
"""Maximum time in milliseconds between the timeout of a transaction and its abort: twice the
default of transaction.abort.timed.out.transaction.cleanup.interval.ms.
"""
_CLOCKS = (
    " and, by this driver's clock, has been open {:,.0f} s longer than brokers allow: compare the "
    "clocks of driver, executors and brokers"
)
_MAX_LISTED = 10
"""Maximum number of transactions in an error message."""
_COMMITTED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})


def check_committable(
    transactions: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription] | None,
    now_ms: int,
) -> None:
    """Raise an error unless every transaction is open, unchanged, and has enough time left.

    Args:
        transactions: the transactions to be decided.
        descriptions: the coordinators' descriptions; None if the brokers are too old to return
            them; in that case only the tasks' own times are checked.
        now_ms: the driver's clock, milliseconds since 1970.

    Raises:
        TransactionError: a transaction fails the check.
    """
    problems = list(_transaction_problems(transactions, descriptions, now_ms))
    if not problems:
        return
    raise TransactionError(
        f"{len(problems)} of {plural(len(transactions), 'transaction')} cannot be committed "
        f"safely, so the batch is not decided: {listed(problems, _MAX_LISTED, '; ')}",
        hint="Nothing is lost: the batch can run again. If tasks take longer than "
        "transaction.timeout.ms, raise that option and the brokers' "
        "transaction.max.timeout.ms, or make the batches smaller.",
    )


def _transaction_problems(
    transactions: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription] | None,
    now_ms: int,
) -> Iterator[str]:
    for task in transactions:
        name = task.transactional_id
        if descriptions is None:
            started_ms, timeout_ms = task.started_ms, task.timeout_ms
        else:
            description = descriptions.get(name)
            if description is None:
                yield f"{name} is no longer known to its coordinator"
                continue
            if description.state is not TransactionState.ONGOING or not description.is_of(
                task.transaction
            ):
                yield f"{name} is {description.state.value} at epoch {description.epoch}, not open"
                continue
            started_ms = min(task.started_ms, description.started_ms or task.started_ms)
            timeout_ms = description.timeout_ms
        left_ms = timeout_ms - max(0, now_ms - started_ms)
        if left_ms < MIN_LEFT_MS:
            problem = f"{name} has {max(0, left_ms) / 1000:.0f} of {timeout_ms / 1000:.0f} s left"
            overdue = descriptions is not None and left_ms < -_ABORTED_WITHIN_MS
            yield problem + (_CLOCKS.format(-left_ms / 1000) if overdue else "")


def is_any_committed(
    tasks: Sequence[TaskTransaction], descriptions: Mapping[str, TransactionDescription]
) -> bool:
    """Return True if a task's transaction was committed, so that it must have been decided."""
    producer_ids = {task.transactional_id: task.transaction.producer_id for task in tasks}
    return any(
        description.state in _COMMITTED and description.producer_id == producer_ids.get(name)
        for name, description in descriptions.items()
    )
