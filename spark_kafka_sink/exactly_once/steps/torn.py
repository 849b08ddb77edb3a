"""The outcome of each transaction of a decided batch, and the error for a torn batch.

A batch of which some transactions were committed and others aborted is torn
(`TornTransactionError`).

The outcome of transactions that their coordinators have forgotten (transactional.id.expiration.ms)
is read from the markers after their records in the topics. A task's producer id has only one
transaction, so its first marker in any partition shows the outcome of the whole transaction.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    KafkaProdError,
    TornTransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, commit_outcome
from spark_kafka_sink.exactly_once.decision_record import Fate
from spark_kafka_sink.exactly_once.transactional_id import Scope, ScopeKind, driver_id
from spark_kafka_sink.kafka.admin.log_reader import LogReader
from spark_kafka_sink.kafka.protocol.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink.exactly_once.decision_record import DecidedBatch
    from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskTransaction
    from spark_kafka_sink.kafka.admin.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.admin.transaction_handlers import TransactionDescription


Unreadable: TypeAlias = str | tuple[str, int]
"""A topic or partition that a search for markers could not read."""
_READ_TIMEOUT_S: Final = 10.0
"""Maximum time in seconds to search one partition for the marker of one transaction."""
_LOG = logging.getLogger(__name__)
_MAX_LISTED: Final = 50
"""Maximum number of lines in an error message; the decision log contains the rest."""
_ABORTED: Final = frozenset(
    {
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)
_LOST: Final = (
    "Write the lost rows again yourself: consumers with isolation.level=read_uncommitted can read "
    "them at these offsets until retention removes them."
)
_UNCLEAR: Final = (
    "The driver found no marker of a transaction with an unknown outcome, or is not authorized to "
    "read its topic: if a consumer with isolation.level=read_committed receives no records at "
    "these offsets, the records are lost. "
)
_RETRY_HINT: Final = (
    "To prevent this, raise transaction.timeout.ms, or set twoPhaseCommit=true if the brokers "
    "allow it."
)


def resolve_unknown_fates(
    client: BlockingClient,
    decided: DecidedBatch,
    fates: tuple[Fate, ...],
    deadline: float | None = None,
) -> tuple[Fate, ...]:
    """Return the fates of a decision's transactions; unknown fates are read from the topics.

    Nothing is read after the deadline. If `deadline` is None, every partition is read, each for at
    most `_READ_TIMEOUT_S`, unless an earlier read of the partition or of its topic has failed.
    """
    failed: set[Unreadable] = set()
    return tuple(
        fate_from_markers(client, task, deadline, failed) if fate is Fate.UNKNOWN else fate
        for task, fate in zip(decided.transactions, fates, strict=True)
    )


def fate_from_markers(
    client: BlockingClient,
    task: TaskTransaction,
    deadline: float | None = None,
    failed: set[Unreadable] | None = None,
) -> Fate:
    """Return the outcome of a transaction, read from the first partition that has its marker."""
    fates = (fate for _, fate in fates_by_partition(client, task, deadline, failed))
    return next((fate for fate in fates if fate is not Fate.UNKNOWN), Fate.UNKNOWN)


def fates_by_partition(
    client: BlockingClient,
    task: TaskTransaction,
    deadline: float | None = None,
    failed: set[Unreadable] | None = None,
) -> Iterator[tuple[PartitionRange, Fate]]:
    """Yield the outcome of a transaction in each of its partitions, until the deadline.

    `failed` contains partitions and topics that cannot be read; failures are added to it.
    """
    failed = set() if failed is None else failed
    for partition in task.partitions:
        limit = client.deadline(_READ_TIMEOUT_S)
        if deadline is not None:
            limit = min(limit, deadline)
        if client.now() >= limit:
            return
        yield partition, _fate_in_partition(client, task, partition, limit, failed)


def _fate_in_partition(
    client: BlockingClient,
    task: TaskTransaction,
    written: PartitionRange,
    deadline: float,
    failed: set[Unreadable],
) -> Fate:
    partition = written.topic, written.partition
    if written.last_offset is None or not failed.isdisjoint({written.topic, partition}):
        return Fate.UNKNOWN
    reader = LogReader(client, *partition)
    producer_id = task.transaction.producer_id
    try:
        marker = reader.marker_of(producer_id, written.last_offset, deadline)
    except KafkaProdError as error:
        is_of_topic = isinstance(error, (UnknownTopicError, AuthorizationError))
        failed.add(written.topic if is_of_topic else partition)
        _LOG.warning(
            "the outcome of %s cannot be read from its topic: %s", task.transactional_id, error
        )
        return Fate.UNKNOWN
    if marker is None:
        return Fate.UNKNOWN
    return Fate.COMMITTED if marker.commit else Fate.LOST


def fates_from_codes(
    decided: DecidedBatch,
    codes: Mapping[str, int],
    descriptions: Mapping[str, TransactionDescription],
) -> tuple[Fate, ...]:
    """Return the fate of each transaction of a decision, in the same order.

    Args:
        decided: the decision.
        codes: error codes of EndTxn(commit) by transactional id; none of them is transient.
        descriptions: the coordinators' descriptions of transactions that EndTxn has not confirmed.
    """
    return tuple(
        _fate_from_code(task, codes[task.transactional_id], descriptions.get(task.transactional_id))
        for task in decided.transactions
    )


def torn_error(
    scope: Scope, decided: DecidedBatch, fates: tuple[Fate, ...]
) -> TornTransactionError:
    """Return the error that lists the lost transactions and their partitions."""
    lost = [fate for fate in fates if fate is not Fate.COMMITTED]
    lines = list(_lines(decided, fates))
    shown = lines[:_MAX_LISTED]
    if len(lines) > _MAX_LISTED:
        shown.append(f"and {plural(len(lines) - _MAX_LISTED, 'more line')} in the decision log")
    return TornTransactionError(
        f"batch {decided.batch} of {scope} is torn: {len(lost)} of "
        f"{plural(len(fates), 'decided transaction')} can no longer be committed",
        details=tuple(shown),
        hint=(
            f"{_UNCLEAR if Fate.UNKNOWN in fates else ''}{_LOST} {_continue_hint(scope)}"
            + _RETRY_HINT
        ),
    )


def _continue_hint(scope: Scope) -> str:
    """Return a hint on how the scope can continue; empty for a run without a batchId."""
    if scope.kind is ScopeKind.RUN:
        return ""
    command = (
        f"Then `kafkaprod transactions commit --bootstrap-servers host:port "
        f"--prefix {scope.prefix} --accept-loss "
        f"'{driver_id(scope)}'`"
    )
    if scope.kind is ScopeKind.BATCH:
        return f"{command} marks the batch as written. "
    return (
        f"{command} lets the query continue after this batch; or start it with a new checkpoint "
        "and resetTransactionalState=true. "
    )


def _fate_from_code(
    task: TaskTransaction, code: int, description: TransactionDescription | None
) -> Fate:
    """Return the fate of one transaction.

    The id was used for only one transaction, so the coordinator's description refers to that
    transaction.
    """
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
    """Yield a line for each transaction and each uncommitted partition, uncommitted lines first."""
    pairs = sorted(zip(fates, decided.transactions, strict=True), key=_committed_last)
    for fate, task in pairs:
        yield f"{fate.value}: {task.transactional_id}, {plural(task.records, 'record')}"
        if fate is not Fate.COMMITTED:
            yield from (f"  {partition}" for partition in task.partitions)
            if task.unnamed_partitions:
                yield (
                    f"  and {plural(task.unnamed_partitions, 'more partition')}: "
                    f"{plural(task.unnamed_records, 'record')}"
                )


def _committed_last(pair: tuple[Fate, TaskTransaction]) -> bool:
    return pair[0] is Fate.COMMITTED
