"""A torn batch: what has become of each transaction, and how to say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TornTransactionError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.exactly_once.end_outcome import EndOutcome, commit_outcome
from spark_kafka_sink.exactly_once.log.decision import Fate
from spark_kafka_sink.exactly_once.scope import ScopeKind
from spark_kafka_sink.exactly_once.transactional_id import driver_id
from spark_kafka_sink.protocol.transaction_state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink.admin.transaction_states import TransactionDescription
    from spark_kafka_sink.exactly_once.log.decision import DecidedBatch
    from spark_kafka_sink.exactly_once.scope import Scope
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

_SHOWN: Final = 50
"""Lines of an error; the decision log has them all."""
_ABORTED: Final = frozenset(
    {
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)
_LOST: Final = (
    "The lost rows have to be written again by hand: consumers with "
    "isolation.level=read_uncommitted still find them at these offsets until retention removes them"
)
_UNCLEAR: Final = (
    "Of an unknown transaction the topic alone can tell, and the driver has found no marker there "
    "or may not read it: a consumer with isolation.level=read_committed finds its records at these "
    "offsets, or they are lost. "
)
_AGAIN: Final = (
    "Raise transaction.timeout.ms, or set twoPhaseCommit=true where the brokers allow it, so that "
    "it does not happen again"
)


def fates_of(
    decided: DecidedBatch,
    codes: Mapping[str, int],
    descriptions: Mapping[str, TransactionDescription],
) -> tuple[Fate, ...]:
    """What has become of each transaction of a decision, in its order.

    Args:
        decided: the decision.
        codes: what EndTxn(commit) was answered with, by transactional id; none of them transient.
        descriptions: what the coordinators say of those that are not committed for certain.
    """
    return tuple(
        _fate(task, codes[task.transactional_id], descriptions.get(task.transactional_id))
        for task in decided.transactions
    )


def torn_error(
    scope: Scope, decided: DecidedBatch, fates: tuple[Fate, ...]
) -> TornTransactionError:
    """The error that names every row that is lost, and what is there."""
    lost = [fate for fate in fates if fate is not Fate.COMMITTED]
    lines = list(_lines(decided, fates))
    shown = lines[:_SHOWN]
    if len(lines) > _SHOWN:
        shown.append(f"and {plural(len(lines) - _SHOWN, 'more line')}, which the decision log has")
    return TornTransactionError(
        f"batch {decided.batch} of {scope} is torn: {len(lost)} of "
        f"{plural(len(fates), 'decided transaction')} can't be committed any more",
        details=tuple(shown),
        hint=f"{_UNCLEAR if Fate.UNKNOWN in fates else ''}{_LOST}. {_go_on(scope)}{_AGAIN}",
    )


def _go_on(scope: Scope) -> str:
    """What lets the scope go on; a run without a batchId never does."""
    if scope.kind is ScopeKind.RUN:
        return ""
    command = (
        f"Then `kafkaprod transactions commit --prefix {scope.prefix} --accept-loss "
        f"'{driver_id(scope)}'` lets"
    )
    if scope.kind is ScopeKind.BATCH:
        return f"{command} it count as written. "
    return (
        f"{command} the query go on behind this batch; or start it with a new checkpoint and "
        "resetTransactionalState=true. "
    )


def _fate(task: TaskTransaction, code: int, description: TransactionDescription | None) -> Fate:
    """The id was used for one transaction alone, so what its coordinator says is about that."""
    outcome = commit_outcome(code)
    if outcome is EndOutcome.COMMITTED:
        return Fate.COMMITTED
    if outcome is EndOutcome.TORN:
        return Fate.LOST
    if description is None or description.producer_id != task.transaction.producer_id:
        return Fate.UNKNOWN
    if description.state is TransactionState.COMPLETE_COMMIT:
        return Fate.COMMITTED
    return Fate.LOST if description.state in _ABORTED else Fate.UNKNOWN


def _lines(decided: DecidedBatch, fates: tuple[Fate, ...]) -> Iterator[str]:
    """One for each partition of each transaction, those that are not committed first."""
    pairs = sorted(zip(fates, decided.transactions, strict=True), key=_committed_last)
    for fate, task in pairs:
        yield f"{fate.value}: {task.transactional_id}, {plural(task.records, 'record')}"
        if fate is not Fate.COMMITTED:
            yield from (f"  {each}" for each in task.partitions)
            if task.unnamed_partitions:
                yield (
                    f"  and {plural(task.unnamed_partitions, 'more partition')}: "
                    f"{plural(task.unnamed_records, 'record')}"
                )


def _committed_last(pair: tuple[Fate, TaskTransaction]) -> bool:
    return pair[0] is Fate.COMMITTED
