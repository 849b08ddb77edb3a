"""The transaction coordinator: transactional ids, their producers, and how transactions end.

As Kafka's TransactionCoordinator. transaction_transitions.py decides; here the decisions are kept
and carried out: markers are written at once, and again later where a partition had no leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator import transaction_transitions as transitions
from spark_kafka_sink.broker.coordinator.transaction_metadata import (
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from spark_kafka_sink.protocol.transaction_state import TransactionState
from spark_kafka_sink.records.control_batch import EndTransactionMarker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.broker.coordinator.transaction_markers import TransactionMarkerWriter
    from spark_kafka_sink.broker.coordinator.transaction_store import TransactionStore
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock

ProducerIdOrError: TypeAlias = ProducerIdAndEpoch | ErrorCode
"""The producer that a request is answered with, or the error."""

LOOK_EVERY_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Kafka's transaction.max.timeout.ms and transactional.id.expiration.ms, in milliseconds.

    With `ends_bump` (transaction.version 2) also the ends that the coordinator decides bump epochs.
    """

    max_timeout_ms: int
    id_expiration_ms: int
    ends_bump: bool


class TransactionCoordinator:
    """All transactional ids.

    Args:
        settings: limits.
        store: has what an earlier broker knew.
        clock: wall time.
        new_producer_id: gives an id that nobody has had.
        markers: writes the ends of transactions into partitions.
    """

    def __init__(
        self,
        settings: TransactionConfig,
        store: TransactionStore,
        clock: Clock,
        new_producer_id: Callable[[], int],
        marker_writer: TransactionMarkerWriter,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._new_producer_id = new_producer_id
        self._marker_writer = marker_writer
        self._by_id: dict[str, TransactionMetadata] = {}
        self._unwritten: dict[str, set[TopicPartition]] = {}
        self._looked_ms = 0
        for txn in store.all():
            self._by_id[txn.id] = txn
            if txn.is_prepared:
                self._unwritten[txn.id] = set(txn.partitions)

    def all(self) -> list[TransactionMetadata]:
        """Every transactional id, by name."""
        return [self._by_id[name] for name in sorted(self._by_id)]

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """Find a transactional id."""
        return self._by_id.get(transactional_id)

    def _now(self) -> transitions.Now:
        return transitions.Now(ms=self._clock.wall_ms(), new_producer_id=self._new_producer_id)

    def _keep(self, txn: TransactionMetadata) -> None:
        self._store.put(txn)
        self._by_id[txn.id] = txn

    def initialize(
        self, transactional_id: str, expected: ProducerIdAndEpoch | None, timeout_ms: int
    ) -> ProducerIdOrError:
        """Give a producer its id and epoch, and fence those before it (KIP-98, KIP-360).

        A transaction that is still open is aborted first: CONCURRENT_TRANSACTIONS asks the client
        to come again.
        """
        if not transactional_id:
            return ErrorCode.invalid_request
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return ErrorCode.invalid_transaction_timeout
        now = self._now()
        txn = self._by_id.get(transactional_id)
        if txn is None:
            txn = TransactionMetadata(
                id=transactional_id, producer_id=self._new_producer_id(), timeout_ms=timeout_ms
            )
        if error := transitions.may_initialize(txn, expected):
            return error
        if txn.state is TransactionState.ONGOING:
            self._fence(txn, now)
            return ErrorCode.concurrent_transactions
        decision = transitions.initialize(txn, expected, timeout_ms, now)
        if isinstance(decision, ErrorCode):
            return decision
        self._keep(decision)
        return ProducerIdAndEpoch(decision.producer_id, decision.epoch)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        topic_partitions: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Take partitions into a producer's transaction."""
        if not transactional_id:
            return ErrorCode.invalid_request
        txn = self._by_id.get(transactional_id)
        error = transitions.check_producer(txn, producer)
        if txn is not None and not error:
            self._keep(transitions.add(txn, topic_partitions, self._now()))
        return error

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, topic_partition: TopicPartition
    ) -> ErrorCode:
        """Check whether a partition is part of a producer's transaction (KIP-890)."""
        if not transactional_id:
            return ErrorCode.invalid_request
        txn = self._by_id.get(transactional_id)
        if error := transitions.check_producer(txn, producer):
            return error
        known = txn is not None and topic_partition in txn.partitions
        return ErrorCode.none if known else ErrorCode.transaction_abortable

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool, bumps: bool
    ) -> ProducerIdOrError:
        """Commit or abort; with `bumps` (transactions V2) the answer has the next epoch."""
        if not transactional_id:
            return ErrorCode.invalid_request
        txn = self._by_id.get(transactional_id)
        if txn is None:
            return ErrorCode.invalid_producer_id_mapping
        decide = transitions.end_v2 if bumps else transitions.end_v1
        decision = decide(txn, producer, self._now(), commit=commit)
        if isinstance(decision, ErrorCode):
            return decision or ProducerIdAndEpoch(txn.producer_id, txn.epoch)
        self._finish(decision)
        rotates = decision.next_producer_id >= 0
        if rotates:
            return ProducerIdAndEpoch(decision.next_producer_id, 0)
        return ProducerIdAndEpoch(decision.producer_id, decision.epoch)

    def _fence(self, txn: TransactionMetadata, now: transitions.Now) -> None:
        self._finish(transitions.fence(txn, now, bumps=self._settings.ends_bump))

    def _finish(self, prepared: TransactionMetadata) -> None:
        self._keep(prepared)
        self._unwritten[prepared.id] = set(prepared.partitions)
        self._write_markers(prepared)

    def _write_markers(self, txn: TransactionMetadata) -> None:
        marker = EndTransactionMarker(
            producer_id=txn.producer_id,
            epoch=txn.epoch,
            commit=txn.state is TransactionState.PREPARE_COMMIT,
        )
        topic_partitions = sorted(self._unwritten[txn.id])
        left = {
            topic_partition
            for topic_partition in topic_partitions
            if not self._marker_writer.write(topic_partition, marker)
        }
        if left:
            self._unwritten[txn.id] = left
            return
        del self._unwritten[txn.id]
        self._keep(transitions.complete(txn, self._now()))

    def tick(self) -> None:
        """Write what waits for a leader, abort what timed out, forget ids that nobody uses."""
        now = self._now()
        if abs(now.ms - self._looked_ms) < LOOK_EVERY_MS:
            return
        self._looked_ms = now.ms
        for transactional_id in list(self._unwritten):
            self._write_markers(self._by_id[transactional_id])
        for txn in list(self._by_id.values()):
            if txn.state is TransactionState.ONGOING and txn.started_ms + txn.timeout_ms < now.ms:
                self._fence(txn, now)
            elif txn.is_at_rest and txn.updated_ms + self._settings.id_expiration_ms <= now.ms:
                self._store.drop(txn)
                del self._by_id[txn.id]
