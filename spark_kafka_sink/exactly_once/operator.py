"""Commands for an operator: list, describe, commit and abort transactions with a prefix."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import (
    KafkaProdError,
    TornTransactionError,
    TransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.exactly_once.decision_log import DRIVER_TIMEOUT_MS
from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, Fate, ScopeState
from spark_kafka_sink.exactly_once.decision_rules import Decided, Done, Nothing
from spark_kafka_sink.exactly_once.steps import recovery
from spark_kafka_sink.exactly_once.steps.orphans import OrphanCandidate, is_orphan
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient, connected_scope_client
from spark_kafka_sink.exactly_once.steps.torn import fates_by_partition, torn_error
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    driver_id,
    parse_driver_id,
    parse_task_id,
    prefix_pattern,
)
from spark_kafka_sink.kafka.admin.api_driver import ApiDriver
from spark_kafka_sink.kafka.admin.partition_offsets import LATEST, ListOffsetsHandler
from spark_kafka_sink.kafka.protocol.transactions import OPEN_STATES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.kafka.admin.transaction_handlers import (
        ActiveProducer,
        ListedTransaction,
        TransactionDescription,
    )
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_REQUEST_TIMEOUT_S: Final = 30.0
"""Time limit in seconds for each request."""


class Standing(StrEnum):
    """The status of an open transaction according to the decision log."""

    DECIDED = "decided"
    """The next driver, or `commit`, will commit the transaction."""
    UNDECIDED = "undecided"
    """A running driver may still commit the transaction."""
    ORPHAN = "orphan"
    """The transaction can no longer be committed, and may be aborted."""
    DRIVER = "driver"
    """The transaction of a driver, for one append to the decision log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionView:
    """An open transaction, according to its coordinator and the decision log."""

    description: TransactionDescription
    scope: Scope
    batch: str
    """Number or name of the batch; empty for the driver's transactions, including a transaction
    that all tasks share.
    """
    standing: Standing
    coordinator: int
    """Node id of the broker."""

    @property
    def transactional_id(self) -> str:
        """Id of a task attempt or a driver."""
        return self.description.transactional_id


def _view(
    records: DecisionRecords, description: TransactionDescription, coordinator: int
) -> OpenTransactionView | None:
    """Return the view, or None if the id does not belong to a scope."""
    task = parse_task_id(description.transactional_id)
    scope = task.scope if task is not None else parse_driver_id(description.transactional_id)
    if scope is None:
        return None
    record = records.latest(scope)
    return OpenTransactionView(
        description=description,
        scope=scope,
        batch="" if task is None else task.batch,
        standing=_standing(Nothing() if record is None else record.state, description),
        coordinator=coordinator,
    )


def _standing(state: ScopeState, description: TransactionDescription) -> Standing:
    """Return the status of a transaction, given the earlier state of its scope."""
    candidate = OrphanCandidate.of(description.transactional_id)
    if candidate is None:
        # Any other timeout is that of the transaction of all tasks (atomicBatch=true).
        is_append = description.timeout_ms == DRIVER_TIMEOUT_MS
        return Standing.DRIVER if is_append else Standing.UNDECIDED
    if isinstance(state, Decided) and candidate.transactional_id in state.transactional_ids:
        return Standing.DECIDED
    return Standing.ORPHAN if is_orphan(state, candidate) else Standing.UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPartition:
    """A partition in which an open transaction blocks read_committed consumers."""

    topic: str
    partition: int
    stable_offset: int
    """The last stable offset, at which read_committed readers stop."""
    end_offset: int
    """The partition's high watermark."""
    transactional_id: str | None
    """Id of the transaction that blocks readers; None if a different application has opened it."""

    @property
    def records(self) -> int:
        """Number of blocked offsets, including those of markers and aborted records."""
        return self.end_offset - self.stable_offset


def _blocked_partitions(
    scope_client: ScopeClient, views: Sequence[OpenTransactionView]
) -> Iterator[BlockedPartition]:
    """Yield the blocked partitions of these transactions, sorted by topic and number."""
    ours = {view.description.producer_id: view.transactional_id for view in views}
    keys = {key for view in views for key in view.description.partitions}
    if not keys:
        return
    client, deadline = scope_client.client, scope_client.client.deadline(_REQUEST_TIMEOUT_S)
    producers = scope_client.admin.describe_producers(keys, deadline)
    offsets = ApiDriver(client, ListOffsetsHandler(client, LATEST), keys)
    offsets.run(deadline)
    ends = {
        key: result.value for key, result in offsets.results.items() if result.value is not None
    }
    for key in sorted(keys):
        blocked = _blocked_partition(key, producers[key], ends.get(key, 0), ours)
        if blocked is not None:
            yield blocked


def _blocked_partition(
    topic_partition: TopicPartition,
    producers: Sequence[ActiveProducer],
    end: int,
    ours: Mapping[int, str],
) -> BlockedPartition | None:
    """Return the blocked partition, or None if it no longer has an open transaction."""
    starts = [
        (producer.transaction_start, producer.producer_id)
        for producer in producers
        if producer.transaction_start is not None
    ]
    if not starts:
        return None
    start, producer_id = min(starts)
    return BlockedPartition(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        stable_offset=start,
        end_offset=max(start, end),
        transactional_id=ours.get(producer_id),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedDecision:
    """A decided batch that an operator has committed or marked as written."""

    scope: str
    batch: str
    transactions: int
    records: int
    lost: int
    """Number of transactions that are not committed; 0 unless the batch is torn."""


def commit_decided(scope_client: ScopeClient, records: DecisionRecords) -> list[EndedDecision]:
    """Commit all decided batches under the prefix of the driver's scope.

    No driver is fenced: a running driver can safely commit the same batches at the same time.

    Raises:
        TornTransactionError: rows of a decided batch are lost; the other batches are committed.
        KafkaProdError: a batch could not be committed; the other batches are committed.
    """
    latest = {scope: records.latest(scope) for scope in records.scopes(scope_client.scope.prefix)}
    unfinished = {
        scope: record
        for scope, record in sorted(latest.items(), key=str)
        if record is not None and isinstance(record.state, Decided)
    }
    unknown = {
        scope: record.state
        for scope, record in unfinished.items()
        if not record.fates and isinstance(record.state, Decided)
    }
    results = recovery.commit_others(
        scope_client, unknown, scope_client.client.deadline(scope_client.max_block_s)
    )
    finished, errors = [], []
    for scope, record in unfinished.items():
        assert isinstance(record.state, Decided)
        result = record.fates or results[scope]
        if isinstance(result, KafkaProdError):
            errors.append(result)
        elif result:
            errors.append(torn_error(scope, record.state, result))
        else:
            finished.append(_finished(str(scope), record, record.state.batch, result))
    if errors:
        raise next(
            (error for error in errors if isinstance(error, TornTransactionError)), errors[0]
        )
    return finished


def accept_loss(scope_client: ScopeClient) -> EndedDecision:
    """Mark the latest batch of a scope as written, so that the scope can continue.

    Either the batch is torn, and the operator has handled its lost rows; or the driver rejects the
    batch because its rows differ from the written rows. Drivers of the scope are fenced, so none
    should be running.

    Raises:
        TransactionError: neither is true for the latest batch of the scope.
    """
    owner = scope_client.fence()
    record = scope_client.read_fenced()
    if record is not None and isinstance(record.state, Done) and record.state.rows is not None:
        uncounted = replace(record, state=replace(record.state, rows=None, topics=None))
        scope_client.append(owner, uncounted, "done", recovery.APPEND_S)
        return _finished(str(scope_client.scope), uncounted, record.state.batch, ())
    if record is None or not isinstance(record.state, Decided):
        raise TransactionError(f"{scope_client.scope} does not have a torn batch")
    fates = recovery.final_fates(scope_client, record.state, record.fates)
    if not fates:
        raise TransactionError(
            f"batch {record.state.batch} of {scope_client.scope} is not torn: all its "
            "transactions are committed"
        )
    done = DecisionRecord.done(record.state, scope_client.client.wall_ms())
    scope_client.append(owner, done, "done", recovery.APPEND_S)
    return _finished(str(scope_client.scope), record, record.state.batch, fates)


def _to_abort(
    views: Sequence[OpenTransactionView], chosen: Collection[str], *, undecided: bool
) -> list[str]:
    """Return the ids of the transactions to abort; raise an error if a chosen one must not be."""
    allowed = {Standing.ORPHAN} | ({Standing.UNDECIDED} if undecided else set())
    abortable = {view.transactional_id for view in views if view.standing in allowed}
    standings = {view.transactional_id: view.standing for view in views}
    for name in chosen:
        if name not in standings:
            raise TransactionError(f"{name} is not open")
        if name not in abortable:
            raise _not_abortable_error(name, standings[name])
    return sorted(abortable & set(chosen) if chosen else abortable)


def _not_abortable_error(name: str, standing: Standing) -> TransactionError:
    hints = {
        Standing.DECIDED: "Its rows would be lost: commit the transaction instead.",
        Standing.UNDECIDED: "A running driver may still commit the transaction. If no driver is "
        "running, use --undecided.",
        Standing.DRIVER: "The transaction lasts for one append to the decision log and ends "
        "without intervention.",
    }
    status = "a driver's transaction" if standing is Standing.DRIVER else standing.value
    return TransactionError(f"{name} is {status}", hint=hints.get(standing))


def _finished(
    scope: str, record: DecisionRecord, batch: str, fates: tuple[Fate, ...]
) -> EndedDecision:
    return EndedDecision(
        scope=scope,
        batch=batch,
        transactions=record.transactions,
        records=record.records,
        lost=sum(fate is not Fate.COMMITTED for fate in fates),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The open transactions under a prefix, and the partitions in which they block readers."""

    transactions: tuple[OpenTransactionView, ...]
    partitions: tuple[BlockedPartition, ...]
    now_ms: int
    """Time of the snapshot in milliseconds since 1970."""


class TransactionOperator:
    """Lists and ends transactions on behalf of an operator.

    A running query is not affected unless the method's description says so.

    Args:
        config: connection settings, with the transactionalIdPrefix and the decision log's topic.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._prefix = config.exactly_once.transactional_id_prefix

    def overview(self) -> Overview:
        """Return the open transactions and the partitions that they block.

        Raises:
            ProtocolError: the brokers are older than Kafka 3.0.
        """
        with self._scope_client() as scope_client:
            views = self._views(scope_client)
            partitions = tuple(_blocked_partitions(scope_client, views))
            now_ms = scope_client.client.wall_ms()
        return Overview(transactions=tuple(views), partitions=partitions, now_ms=now_ms)

    def records(self) -> dict[str, DecisionRecord]:
        """Return the latest record of each scope with the prefix; the keys are the drivers' ids."""
        with self._scope_client() as scope_client:
            records = self._records(scope_client)
            latest = {scope: records.latest(scope) for scope in records.scopes(self._prefix)}
        named = ((driver_id(scope), record) for scope, record in latest.items())
        return {name: record for name, record in sorted(named) if record is not None}

    def fates(self, task: TaskTransaction) -> list[Fate]:
        """Return the outcome of a decided transaction in each of its listed partitions."""
        with self._scope_client() as scope_client:
            return [fate for _, fate in fates_by_partition(scope_client.client, task)]

    def commit(self) -> list[EndedDecision]:
        """Commit all decided batches that are not yet committed.

        Raises:
            TornTransactionError: rows of a decided batch are lost.
        """
        with self._scope_client() as scope_client:
            return commit_decided(scope_client, self._records(scope_client))

    def accept_loss(self, scope_id: str) -> EndedDecision:
        """Mark the latest batch of a scope as written; a running driver of the scope is fenced.

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
                f"{driver_id(Scope.stream(self._prefix))}",
            )
        with self._scope_client() as scope_client:
            return accept_loss(scope_client.for_scope(scope))

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
        with self._scope_client() as scope_client:
            views = self._views(scope_client)
            if undecided:
                _to_abort(views, chosen, undecided=True)  # before any driver is fenced
                tasks = [view for view in views if parse_driver_id(view.transactional_id) is None]
                scopes = {
                    task.scope
                    for task in tasks
                    if task.standing is Standing.UNDECIDED
                    and (not chosen or task.transactional_id in chosen)
                }
                for scope in sorted(scopes, key=str):
                    scope_client.for_scope(scope).fence()
                still_open = {view.transactional_id for view in views}
                views = [
                    view
                    for view in self._views(scope_client)
                    if view.transactional_id in still_open
                ]
            names = _to_abort(views, chosen, undecided=undecided)
            return scope_client.admin.fence(names, scope_client.client.deadline(_REQUEST_TIMEOUT_S))

    @contextmanager
    def _scope_client(self) -> Iterator[ScopeClient]:
        with connected_scope_client(self._config, Scope.stream(self._prefix)) as scope_client:
            yield scope_client

    def _records(self, scope_client: ScopeClient) -> DecisionRecords:
        """Read the decision log; it counts as empty if neither it nor a transaction exists."""
        try:
            return scope_client.read_unfenced()
        except UnknownTopicError:
            if self._listed(scope_client):
                raise
            return DecisionRecords(self._config.exactly_once.decision_log_topic)

    def _listed(self, scope_client: ScopeClient) -> Sequence[ListedTransaction]:
        pattern = prefix_pattern(self._prefix)
        return scope_client.admin.list(pattern, scope_client.client.deadline(_REQUEST_TIMEOUT_S))

    def _views(self, scope_client: ScopeClient) -> list[OpenTransactionView]:
        """Return all open transactions of drivers and tasks with the prefix, sorted by id.

        The decision log is read after they are listed: it contains every earlier decision. Without
        transactions, it is not needed, and before the first write it does not exist.
        """
        listed = self._listed(scope_client)
        if not listed:
            return []
        records = scope_client.read_unfenced()
        admin, deadline = scope_client.admin, scope_client.client.deadline(_REQUEST_TIMEOUT_S)
        coordinators = {listing.transactional_id: listing.coordinator for listing in listed}
        described = admin.describe(coordinators.keys(), deadline)
        # A listed transaction may have ended before it was described.
        still_open = [
            listing for _, listing in sorted(described.items()) if listing.state in OPEN_STATES
        ]
        views = (
            _view(records, listing, coordinators[listing.transactional_id])
            for listing in still_open
        )
        return [view for view in views if view is not None]
