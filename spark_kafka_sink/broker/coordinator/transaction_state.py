"""The state of a transactional id, and its transitions as pure functions (KIP-98, KIP-890).

This module corresponds to Kafka's TransactionMetadata, TransactionState and parts of its
TransactionCoordinator. In Kafka, fencing a producer has a separate state (PrepareEpochFence). In
this broker, fencing is a single step, because no other request can be processed in between.

A transition returns the next state of the transaction, or an ErrorCode for the response. NONE means
that the request is a retry of a completed request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.records.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition


_NO_TIME = -1
MAX_EPOCH = 2**15 - 1
LAST_EPOCH = MAX_EPOCH - 1
"""The highest epoch for producers. The coordinator uses the next epoch to fence a producer."""
_AT_REST = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)

PREVIOUS_STATES: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _AT_REST,
    TransactionState.ONGOING: _AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
    TransactionState.UNKNOWN: frozenset(),
}
"""The allowed previous states of each state.

With transactions V2, an abort is allowed without an open transaction (KIP-890).
"""


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    """The producer id and epoch of a request or response."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """The state of a transactional id. Times are in milliseconds since 1970."""

    id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_PRODUCER_EPOCH
    last_epoch: int = NO_PRODUCER_EPOCH
    """The producer's epoch before the last increment that the producer requested."""
    has_aborted: bool = False
    """True if EndTxn of transactions V1 has aborted a transaction of the epoch."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last replacement."""
    next_producer_id: int = NO_PRODUCER_ID
    """Replaces the producer id when the transaction ends, if all epochs are used."""
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = _NO_TIME
    updated_ms: int = _NO_TIME

    @property
    def is_exhausted(self) -> bool:
        """True if all epochs of the producer id have been used."""
        return self.epoch >= LAST_EPOCH

    @property
    def is_prepared(self) -> bool:
        """True if the outcome of the transaction is decided and its markers are being written."""
        return self.state in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def is_at_rest(self) -> bool:
        """True if no transaction is open."""
        return self.state in _AT_REST

    def transition_to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        """Return the next state.

        Raises:
            ValueError: the transition is not allowed.
        """
        if self.state not in PREVIOUS_STATES[state]:
            raise ValueError(
                f"transactional id {self.id!r} cannot change from {self.state} to {state}"
            )
        return replace(self, state=state, **changes)


Transition: TypeAlias = TransactionMetadata | ErrorCode
"""The next state, or the error for the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The inputs of a transition: the time (milliseconds since 1970) and new producer ids."""

    ms: int
    new_producer_id: Callable[[], int]


def initialize(
    txn: TransactionMetadata, expected: ProducerIdAndEpoch | None, timeout_ms: int, now: Now
) -> Transition:
    """Handle InitProducerId without an open transaction: assign a new epoch or producer id.

    `expected` is the producer id and epoch in the request (KIP-360).
    """
    reset = {"timeout_ms": timeout_ms, "partitions": frozenset(), "started_ms": _NO_TIME}
    reset["updated_ms"] = now.ms
    current = ProducerIdAndEpoch(txn.producer_id, txn.epoch)
    if txn.is_exhausted and (expected is None or expected.epoch == txn.epoch):
        return txn.transition_to(
            TransactionState.EMPTY,
            producer_id=now.new_producer_id(),
            previous_producer_id=txn.producer_id,
            epoch=0,
            last_epoch=NO_PRODUCER_EPOCH if expected is None else txn.epoch,
            has_aborted=False,
            **reset,
        )
    if expected is None or txn.epoch in {NO_PRODUCER_EPOCH, expected.epoch}:
        last = NO_PRODUCER_EPOCH if expected is None else current.epoch
        changes = {"epoch": txn.epoch + 1, "last_epoch": last, "has_aborted": False}
        return txn.transition_to(TransactionState.EMPTY, **changes, **reset)
    if expected.epoch == txn.last_epoch:
        return txn.transition_to(TransactionState.EMPTY, **reset)
    return ErrorCode.producer_fenced


def may_initialize(txn: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> ErrorCode:
    """Return an error if the producer is not current or its transaction is completing."""
    if expected is not None and txn.epoch != NO_PRODUCER_EPOCH:
        rotated = txn.previous_producer_id == expected.producer_id and expected.epoch >= LAST_EPOCH
        if expected.producer_id != txn.producer_id and not rotated:
            return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if txn.is_prepared else ErrorCode.none


def check_producer(txn: TransactionMetadata | None, producer: ProducerIdAndEpoch) -> ErrorCode:
    """Return an error if the producer is not current or its transaction is completing."""
    if txn is None or txn.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if txn.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if txn.is_prepared else ErrorCode.none


def add(
    txn: TransactionMetadata, topic_partitions: Iterable[TopicPartition], now: Now
) -> TransactionMetadata:
    """Add partitions to the open transaction, or begin a transaction with them."""
    added = frozenset(topic_partitions)
    if txn.state is TransactionState.ONGOING:
        if added <= txn.partitions:
            return txn
        partitions, started = txn.partitions | added, txn.started_ms
    else:
        partitions, started = added, now.ms
    return txn.transition_to(
        TransactionState.ONGOING, partitions=partitions, started_ms=started, updated_ms=now.ms
    )


def end_v1(
    txn: TransactionMetadata, producer: ProducerIdAndEpoch, now: Now, *, commit: bool
) -> Transition:
    """Handle EndTxn of transactions V1. The epoch does not change, and retries have no effect."""
    if txn.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if txn.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    if txn.state is TransactionState.ONGOING:
        has_aborted = txn.has_aborted or not commit
        return txn.transition_to(
            _prepared_state(commit=commit), has_aborted=has_aborted, updated_ms=now.ms
        )
    if txn.state is _prepared_state(commit=commit):
        return ErrorCode.concurrent_transactions
    done = txn.state is _completed_state(_prepared_state(commit=commit))
    return ErrorCode.none if done else ErrorCode.invalid_txn_state


def end_v2(
    txn: TransactionMetadata, producer: ProducerIdAndEpoch, now: Now, *, commit: bool
) -> Transition:
    """Handle EndTxn of transactions V2 (KIP-890), which increments the epoch.

    Therefore, each epoch ends only one transaction, and a request with the previous epoch is a
    retry.
    """
    has_overflowed = (
        txn.previous_producer_id == producer.producer_id
        and producer.epoch == LAST_EPOCH
        and txn.epoch == 0
    )
    if txn.producer_id != producer.producer_id and not has_overflowed:
        return ErrorCode.invalid_producer_id_mapping
    is_retry = has_overflowed or txn.epoch == producer.epoch + 1
    if not _is_epoch_of_v2(txn, producer, is_retry=is_retry):
        return ErrorCode.producer_fenced
    if txn.state is TransactionState.ONGOING:
        return _prepare_v2(txn, now, commit=commit)
    if txn.is_prepared:
        is_same = txn.state is _prepared_state(commit=commit)
        return ErrorCode.concurrent_transactions if is_same else ErrorCode.invalid_txn_state
    if is_retry:
        is_done = txn.state is _completed_state(_prepared_state(commit=commit))
        return ErrorCode.none if is_done else ErrorCode.invalid_txn_state
    return ErrorCode.invalid_txn_state if commit else _prepare_v2(txn, now, commit=False)


def _is_epoch_of_v2(
    txn: TransactionMetadata, producer: ProducerIdAndEpoch, *, is_retry: bool
) -> bool:
    if txn.is_prepared:
        return is_retry and txn.epoch == producer.epoch + 1
    is_current = producer.epoch == txn.epoch
    if txn.state in {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}:
        return is_current or is_retry
    return is_current


def _prepare_v2(txn: TransactionMetadata, now: Now, *, commit: bool) -> TransactionMetadata:
    """Return the prepared state. If no transaction is open, abort an empty transaction."""
    started = txn.started_ms if txn.state is TransactionState.ONGOING else now.ms
    return txn.transition_to(
        _prepared_state(commit=commit),
        epoch=txn.epoch + 1,
        last_epoch=txn.epoch,
        next_producer_id=now.new_producer_id() if txn.is_exhausted else NO_PRODUCER_ID,
        started_ms=started,
        updated_ms=now.ms,
    )


def fence(txn: TransactionMetadata, now: Now, *, bumps_epoch: bool) -> TransactionMetadata:
    """Abort a transaction that timed out or whose transactional id is initialized again.

    The epoch is incremented so that the markers fence the producer. With `bumps_epoch`
    (transactions V2), the producer can request the new epoch (KIP-360).
    """
    if bumps_epoch:
        return _prepare_v2(txn, now, commit=False)
    return txn.transition_to(
        TransactionState.PREPARE_ABORT,
        epoch=min(txn.epoch + 1, MAX_EPOCH),
        last_epoch=NO_PRODUCER_EPOCH,
        updated_ms=now.ms,
    )


def complete(txn: TransactionMetadata, now: Now) -> TransactionMetadata:
    """Return the state of a transaction whose markers are all written."""
    rotates = txn.next_producer_id != NO_PRODUCER_ID
    return txn.transition_to(
        _completed_state(txn.state),
        producer_id=txn.next_producer_id if rotates else txn.producer_id,
        previous_producer_id=txn.producer_id if rotates else txn.previous_producer_id,
        epoch=0 if rotates else txn.epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        updated_ms=now.ms,
    )


def _prepared_state(*, commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT


def _completed_state(prepared: TransactionState) -> TransactionState:
    if prepared is TransactionState.PREPARE_COMMIT:
        return TransactionState.COMPLETE_COMMIT
    return TransactionState.COMPLETE_ABORT
