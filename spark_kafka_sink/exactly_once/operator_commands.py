"""Commands for an operator: list, describe, commit and abort transactions with a prefix."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import (
    KafkaProdError,
    TornTransactionError,
    TransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, Fate
from spark_kafka_sink.exactly_once.open_transactions import (
    DecisionStatus,
    OpenTransaction,
    PrefixTransactions,
    TransactionOverview,
)
from spark_kafka_sink.exactly_once.scope_state import Decided, Done
from spark_kafka_sink.exactly_once.steps.end_transactions import (
    APPEND_TIMEOUT_S,
    commit_other_scopes,
    final_fates,
)
from spark_kafka_sink.exactly_once.steps.fates import FateReader
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.steps.torn_error import torn_error
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    driver_transactional_id,
    parse_driver_id,
)
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

_SHOW_RECORDS = "Run `kafkaprod transactions describe` to show the latest batch of each scope."


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """A decided batch that an operator has committed or marked as written."""

    scope: str
    batch: str
    transactions: int
    records: int
    lost: int
    """Number of transactions that are not committed; 0 unless the batch is torn."""


def ids_to_abort(
    opened: Sequence[OpenTransaction], chosen: Collection[str], *, undecided: bool
) -> list[str]:
    """Return the sorted ids of the transactions to abort: the chosen ones, or all that may be.

    Raises:
        TransactionError: a chosen transaction is not open, is decided, or may still be decided.
    """
    allowed = {DecisionStatus.ORPHAN} | ({DecisionStatus.UNDECIDED} if undecided else set())
    abortable = {
        transaction.transactional_id for transaction in opened if transaction.status in allowed
    }
    statuses = {transaction.transactional_id: transaction.status for transaction in opened}
    for name in chosen:
        if name not in statuses:
            raise TransactionError(
                f"{name} is not open",
                hint="Run `kafkaprod transactions list` to show open transactions.",
            )
        if name not in abortable:
            raise _not_abortable_error(name, statuses[name])
    return sorted(abortable & set(chosen) if chosen else abortable)


def _not_abortable_error(name: str, status: DecisionStatus) -> TransactionError:
    hints = {
        DecisionStatus.DECIDED: "Its rows would be lost: commit the transaction instead.",
        DecisionStatus.UNDECIDED: "A running driver may still commit the transaction. If no "
        "driver is running, use --undecided.",
        DecisionStatus.DRIVER: "The transaction lasts for one append to the decision log and ends "
        "without intervention.",
    }
    text = "a driver's transaction" if status is DecisionStatus.DRIVER else status.value
    return TransactionError(f"{name} is {text}", hint=hints.get(status))


def _accept_loss(scope_client: ScopeClient) -> CommittedBatch:
    """Mark the latest batch of the client's scope as written; see `accept_loss`."""
    owner = scope_client.fence()
    scope = scope_client.scope
    record = scope_client.log.read_after_fence()
    if record is not None and isinstance(record.state, Done) and record.state.rows is not None:
        uncounted = replace(record, state=replace(record.state, rows=None, topics=None))
        scope_client.log.append(owner, uncounted, APPEND_TIMEOUT_S)
        return _finished_batch(scope, uncounted, record.state.batch)
    if record is None or not isinstance(record.state, Decided):
        raise TransactionError(f"{scope} does not have a torn batch", hint=_SHOW_RECORDS)
    fates = final_fates(scope_client, record.state, record.fates)
    if not fates:
        raise TransactionError(
            f"batch {record.state.batch} of {scope} is not torn: all its transactions are "
            "committed",
            hint=_SHOW_RECORDS,
        )
    done = DecisionRecord.done(record.state, scope_client.timer.wall_ms())
    scope_client.log.append(owner, done, APPEND_TIMEOUT_S)
    return _finished_batch(scope, record, record.state.batch, fates)


def _finished_batch(
    scope: Scope, record: DecisionRecord, batch: str, fates: tuple[Fate, ...] = ()
) -> CommittedBatch:
    return CommittedBatch(
        scope=str(scope),
        batch=batch,
        transactions=record.transactions,
        records=record.records,
        lost=sum(fate is not Fate.COMMITTED for fate in fates),
    )


class TransactionOperator:
    """Lists and ends transactions on behalf of an operator.

    A running query is not affected unless the method's description says so.

    Args:
        config: connection settings, with the transactionalIdPrefix and the decision log's topic.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._prefix = config.exactly_once.transactional_id_prefix

    def overview(self) -> TransactionOverview:
        """Return the open transactions and the partitions that they block.

        Raises:
            ProtocolError: the brokers are older than Kafka 3.0.
        """
        with self._connect() as (scope_client, transactions):
            opened = transactions.opened(scope_client.log.read_and_await_markers)
            partitions = tuple(transactions.blocked_partitions(opened))
            now_ms = scope_client.timer.wall_ms()
        return TransactionOverview(transactions=tuple(opened), partitions=partitions, now_ms=now_ms)

    def records(self) -> dict[str, DecisionRecord]:
        """Return the latest record of each scope with the prefix; the keys are the drivers' ids."""
        with self._connect() as (scope_client, transactions):
            latest = self._latest_records(scope_client, transactions)
        return {driver_transactional_id(scope): record for scope, record in latest.items()}

    def fates(self, task: TaskTransaction) -> list[Fate]:
        """Return the fate of a decided transaction in each of its listed partitions."""
        with self._connect() as (scope_client, _):
            return [fate for _, fate in FateReader(scope_client.client).by_partition(task)]

    def commit(self) -> list[CommittedBatch]:
        """Commit all decided batches that are not yet committed.

        No driver is fenced: a running driver can safely commit the same batches at the same time.

        Raises:
            TornTransactionError: rows of a decided batch are lost; the other batches are committed.
            KafkaProdError: a batch could not be committed; the other batches are committed.
        """
        with self._connect() as (scope_client, transactions):
            latest = self._latest_records(scope_client, transactions)
            batches = {
                scope: record.state
                for scope, record in latest.items()
                if isinstance(record.state, Decided)
            }
            unknown = {scope: batches[scope] for scope in batches if not latest[scope].fates}
            deadline = scope_client.timer.deadline_in(scope_client.timer.max_block_s)
            results = commit_other_scopes(scope_client, unknown, deadline)
        finished: list[CommittedBatch] = []
        errors: list[KafkaProdError] = []
        for scope, decided in batches.items():
            result = latest[scope].fates or results[scope]
            if isinstance(result, KafkaProdError):
                errors.append(result)
            elif result:
                errors.append(torn_error(scope, decided, result))
            else:
                finished.append(_finished_batch(scope, latest[scope], decided.batch))
        if errors:
            raise next((e for e in errors if isinstance(e, TornTransactionError)), errors[0])
        return finished

    def accept_loss(self, scope_id: str) -> CommittedBatch:
        """Mark the latest batch of a scope as written, so that the scope can continue.

        Either the batch is torn, and the operator has handled its lost rows; or the driver rejects
        the batch because its rows differ from the written rows. A running driver is fenced.

        Args:
            scope_id: the id of the scope's driver, such as "orders/stream".

        Raises:
            TransactionError: the scope has a different prefix, or its latest batch does not need to
                be marked.
        """
        scope = parse_driver_id(scope_id)
        if scope is None or scope.prefix != self._prefix:
            raise TransactionError(
                f"{scope_id} is not a scope of {self._prefix}",
                hint="Use a name that `kafkaprod transactions describe` shows, for example "
                f"{driver_transactional_id(Scope.stream(self._prefix))}",
            )
        with self._connect() as (connected, _):
            return _accept_loss(connected.for_scope(scope))

    def abort(self, chosen: Collection[str], *, undecided: bool) -> dict[str, int]:
        """Abort all orphans, or only the chosen open transactions.

        Args:
            chosen: ids to abort; if empty, all transactions that may be aborted.
            undecided: also abort transactions whose batch a driver may still decide; no driver may
                be running. The drivers of their scopes are fenced first, so that they cannot decide
                a transaction that is about to be aborted.

        Returns:
            Kafka's error code for each id, 0 if the transaction was aborted.

        Raises:
            TransactionError: a chosen transaction is not open, is decided, or may still be decided.
        """
        with self._connect() as (scope_client, transactions):
            read_records = scope_client.log.read_and_await_markers
            opened = transactions.opened(read_records)
            if undecided:
                ids_to_abort(opened, chosen, undecided=True)  # before any driver is fenced
                tasks = [
                    transaction
                    for transaction in opened
                    if parse_driver_id(transaction.transactional_id) is None
                ]
                scopes = {
                    task.scope
                    for task in tasks
                    if task.status is DecisionStatus.UNDECIDED
                    and (not chosen or task.transactional_id in chosen)
                }
                for scope in sorted(scopes, key=str):
                    scope_client.for_scope(scope).fence()
                listed = {transaction.transactional_id for transaction in opened}
                opened = [
                    transaction
                    for transaction in transactions.opened(read_records)
                    if transaction.transactional_id in listed
                ]
            return transactions.abort(ids_to_abort(opened, chosen, undecided=undecided))

    @contextmanager
    def _connect(self) -> Iterator[tuple[ScopeClient, PrefixTransactions]]:
        with borrowed_client(self._config.producer) as client:
            scope_client = ScopeClient(client, self._config, Scope.stream(self._prefix))
            yield scope_client, PrefixTransactions(scope_client)

    def _latest_records(
        self, scope_client: ScopeClient, transactions: PrefixTransactions
    ) -> dict[Scope, DecisionRecord]:
        """Return the latest records by scope, sorted by the drivers' ids.

        The decision log counts as empty if neither it nor a transaction exists.
        """
        try:
            records = scope_client.log.read_and_await_markers()
        except UnknownTopicError:
            if transactions.listed():
                raise
            return {}
        scopes = sorted(records.scopes(self._prefix), key=driver_transactional_id)
        latest = ((scope, records.latest(scope)) for scope in scopes)
        return {scope: record for scope, record in latest if record is not None}
