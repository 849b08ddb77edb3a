"""The state of one transactional id, and which state may follow which (KIP-98, KIP-890).

As Kafka's TransactionMetadata and TransactionState. The fence that Kafka notes as a state of its
own (PrepareEpochFence) is one step here, as nothing can come between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.transaction_state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.broker.topic_partition import TopicPartition

NO_ID = -1
NO_EPOCH = -1
NO_TIME = -1
MAX_EPOCH = 2**15 - 1
LAST_EPOCH = MAX_EPOCH - 1
"""The highest epoch that a producer gets; the one above it is kept for the coordinator's fence."""


_AT_REST = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)

BEFORE: Mapping[TransactionState, frozenset[TransactionState]] = {
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
"""From which states each may be entered. An abort at rest is one of transactions V2 (KIP-890)."""


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    """Who a request says that it comes from."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """What the coordinator knows about a transactional id; times in milliseconds since 1970.

    `last_epoch` is the epoch that its producer knew before the last bump that it asked for,
    `next_producer_id` takes over when a transaction ends whose epoch can't be bumped any more.
    """

    id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left."""
        return self.epoch >= LAST_EPOCH

    @property
    def is_prepared(self) -> bool:
        """Whether its end is decided and markers are on their way."""
        return self.state in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is open."""
        return self.state in _AT_REST

    def to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        """The next state.

        Raises:
            ValueError: no such transition exists.
        """
        if self.state not in BEFORE[state]:
            raise ValueError(f"transactional id {self.id!r} can't go from {self.state} to {state}")
        return replace(self, state=state, **changes)
