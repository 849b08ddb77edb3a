"""The error for a torn batch: some of its transactions were committed, and others aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import TornTransactionError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once.decision_record import Fate
from spark_kafka_sink.exactly_once.transactional_id import Scope, ScopeKind, driver_transactional_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.exactly_once.decision_record import DecidedBatch

_MAX_LISTED = 50
"""Maximum number of lines in an error message; the decision log contains the rest."""
_LOST = (
    "Write the lost rows again yourself: consumers with isolation.level=read_uncommitted can read "
    "them at these offsets until retention removes them."
)
_UNCLEAR = (
    "The driver found no marker of a transaction with an unknown outcome, or is not authorized to "
    "read its topic: if a consumer with isolation.level=read_committed receives no records at "
    "these offsets, the records are lost. "
)
_PREVENTION = (
    "To prevent this, raise transaction.timeout.ms, or set twoPhaseCommit=true if the brokers "
    "allow it."
)


def torn_error(
    scope: Scope, decided: DecidedBatch, fates: tuple[Fate, ...]
) -> TornTransactionError:
    """Return the error that lists the lost transactions and their partitions."""
    lost = [fate for fate in fates if fate is not Fate.COMMITTED]
    lines = list(_report_lines(decided, fates))
    details = lines[:_MAX_LISTED]
    if len(lines) > _MAX_LISTED:
        details.append(f"and {plural(len(lines) - _MAX_LISTED, 'more line')} in the decision log")
    return TornTransactionError(
        f"batch {decided.batch} of {scope} is torn: {len(lost)} of "
        f"{plural(len(fates), 'decided transaction')} can no longer be committed",
        details=tuple(details),
        hint=(
            f"{_UNCLEAR if Fate.UNKNOWN in fates else ''}{_LOST} {_continue_hint(scope)}"
            + _PREVENTION
        ),
    )


def _continue_hint(scope: Scope) -> str:
    """Return a hint on how the scope can continue; empty for a run without a batchId."""
    if scope.kind is ScopeKind.RUN:
        return ""
    command = (
        "Then `kafkaprod transactions commit --bootstrap-servers host:port --prefix "
        f"{scope.prefix} --accept-loss '{driver_transactional_id(scope)}'`"
    )
    if scope.kind is ScopeKind.BATCH:
        return f"{command} marks the batch as written. "
    return (
        f"{command} lets the query continue after this batch; or start it with a new checkpoint "
        "and resetTransactionalState=true. "
    )


def _report_lines(decided: DecidedBatch, fates: tuple[Fate, ...]) -> Iterator[str]:
    """Yield a line for each transaction and each uncommitted partition, uncommitted lines first."""
    pairs = zip(fates, decided.transactions, strict=True)
    for fate, task in sorted(pairs, key=lambda pair: pair[0] is Fate.COMMITTED):
        yield f"{fate.value}: {task.transactional_id}, {plural(task.records, 'record')}"
        if fate is not Fate.COMMITTED:
            yield from (f"  {partition}" for partition in task.partitions)
            if task.unlisted_partitions:
                yield (
                    f"  and {plural(task.unlisted_partitions, 'more partition')}: "
                    f"{plural(task.unlisted_records, 'record')}"
                )
