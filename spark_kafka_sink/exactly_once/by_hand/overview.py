"""The open transactions under a prefix, beside what the decision log says of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.log.decision_log import DRIVER_TIMEOUT_MS
from spark_kafka_sink.exactly_once.log_state import Decided, Nothing
from spark_kafka_sink.exactly_once.orphans import Candidate, is_orphan
from spark_kafka_sink.exactly_once.transactional_id import (
    parse_driver_id,
    parse_task_id,
    prefix_pattern,
)

if TYPE_CHECKING:
    from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
    from spark_kafka_sink.admin.transaction_states import TransactionDescription
    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.exactly_once.log.decision import ScopeState
    from spark_kafka_sink.exactly_once.log.decision_records import DecisionRecords
    from spark_kafka_sink.exactly_once.scope import Scope
    from spark_kafka_sink.protocol.transaction_state import TransactionState


class Standing(StrEnum):
    """What the decision log says of an open transaction."""

    DECIDED = "decided"
    """It will be committed by the next driver, or by `commit`."""
    UNDECIDED = "undecided"
    """Its batch may still be decided by a driver that lives."""
    ORPHAN = "orphan"
    """Nobody can ever decide it: it may be aborted."""
    DRIVER = "driver"
    """A driver's own, for one append to the decision log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionView:
    """An open transaction, as its coordinator and the decision log know it."""

    transactional_id: str
    scope: Scope
    batch: str
    """Empty for a driver's own, and for that of all tasks."""
    standing: Standing
    state: TransactionState
    producer_id: int
    epoch: int
    started_ms: int | None
    """By the coordinator's clock, milliseconds since 1970."""
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator: int
    """A broker's id."""


def open_transactions(
    admin: TransactionAdmin, records: DecisionRecords, prefix: str, deadline: float
) -> list[OpenTransactionView]:
    """All open transactions of drivers and tasks under a prefix, by id.

    Args:
        admin: asks.
        records: the decision log, read before.
        prefix: transactionalIdPrefix.
        deadline: in seconds of the client's clock.

    Raises:
        ProtocolError: the brokers are older than Kafka 3.0, and can't list transactions.
    """
    listed = admin.list(prefix_pattern(prefix), deadline)
    told = admin.describe([each.transactional_id for each in listed], deadline)
    coordinators = {each.transactional_id: each.coordinator for each in listed}
    views = (_view(records, each, coordinators) for each in told.values())
    return sorted(
        (each for each in views if each is not None), key=lambda each: each.transactional_id
    )


def standing_of(
    state: ScopeState, transactional_id: str, timeout_ms: int = DRIVER_TIMEOUT_MS
) -> Standing:
    """What a scope's state says of one of its transactions.

    Args:
        state: the scope's, read before the transaction was listed.
        transactional_id: a task's or the driver's.
        timeout_ms: of the transaction; a driver's own is open for one append with
            `DRIVER_TIMEOUT_MS`, otherwise it is that of all tasks (atomicBatch=true).
    """
    task = parse_task_id(transactional_id)
    if task is None:
        return Standing.DRIVER if timeout_ms == DRIVER_TIMEOUT_MS else Standing.UNDECIDED
    if isinstance(state, Decided) and transactional_id in state.transactional_ids:
        return Standing.DECIDED
    candidate = Candidate(
        transactional_id=transactional_id,
        query=task.query_id,
        batch=task.batch,
        nonce=task.nonce,
    )
    return Standing.ORPHAN if is_orphan(state, candidate) else Standing.UNDECIDED


def _view(
    records: DecisionRecords, told: TransactionDescription, coordinators: dict[str, int]
) -> OpenTransactionView | None:
    """None for an id that is no scope's."""
    task = parse_task_id(told.transactional_id)
    scope = task.scope if task is not None else parse_driver_id(told.transactional_id)
    if scope is None:
        return None
    record = records.latest(scope)
    state: ScopeState = Nothing() if record is None else record.state
    return OpenTransactionView(
        transactional_id=told.transactional_id,
        scope=scope,
        batch="" if task is None else task.batch,
        standing=standing_of(state, told.transactional_id, told.timeout_ms),
        state=told.state,
        producer_id=told.producer_id,
        epoch=told.epoch,
        started_ms=told.started_ms,
        timeout_ms=told.timeout_ms,
        partitions=told.partitions,
        coordinator=coordinators[told.transactional_id],
    )
