"""The transaction coordinator: transactional ids and transaction markers.

`TransactionCoordinator` corresponds to Kafka's class with the same name. The functions in
`transaction_state` determine the transitions. This class stores and executes them. Markers are
written immediately, because there is no network between coordinator and leader. As in Kafka, a
transaction is complete when all in-sync replicas have its markers. A marker for a partition
without a leader is written later. If a failed leader loses a marker, the marker is written again.

`TransactionCoordinator.add_or_verify` corresponds to AddPartitionsToTxnManager (KIP-890). Before a
producer writes to a partition, the broker checks that the transaction includes the partition. Older
clients add partitions to transactions themselves. For newer clients (Produce 12, TxnOffsetCommit
5), the broker adds the partitions.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_kafka_sink.broker.coordinator import transaction_state
from spark_kafka_sink.broker.coordinator.producer_id_manager import ProducerIdManager
from spark_kafka_sink.broker.coordinator.transaction_state import (
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from spark_kafka_sink.broker.partition.log_validator import RejectedBatchError
from spark_kafka_sink.broker.storage.journal import TRANSACTION, Journal
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker
from spark_kafka_sink.kafka.records.record_batch import NO_PRODUCER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_kafka_sink.broker.config.broker_config import BrokerConfig
    from spark_kafka_sink.broker.coordinator.transactional_offsets import TransactionalOffsets
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory
    from spark_kafka_sink.common.clock import Clock


_OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITION = TopicPartition(_OFFSETS_TOPIC, 0)
ProducerIdOrError: TypeAlias = ProducerIdAndEpoch | ErrorCode
"""The producer id and epoch for a response, or an error code."""
_LOG = logging.getLogger(__name__)
CHECK_INTERVAL_MS = 50
"""Milliseconds between two checks for transactions that have timed out or expired."""
_NOT_WRITTEN = 0


@dataclass(slots=True, eq=False)
class TransactionCoordinator:
    """All transactional ids and their transactions."""

    _config: BrokerConfig
    """Contains the limits of transactions."""
    _journal: Journal
    """Stores the transactions across restarts."""
    _clock: Clock
    """Provides the wall time."""
    _find_partition: Callable[[str, int], Partition | None]
    """Returns a partition, or None if it does not exist."""
    _offsets: TransactionalOffsets
    """The pending offsets, which markers for the offsets topic commit or discard."""
    _purgatory: DelayedOperationPurgatory
    """The delayed requests; notified of changes of last stable offsets."""
    producer_ids: ProducerIdManager = field(init=False)
    _by_id: dict[str, TransactionMetadata] = field(default_factory=dict, init=False)
    _markers: dict[str, dict[TopicPartition, int]] = field(default_factory=dict, init=False)
    """Partitions whose marker is not yet replicated, by transactional id.

    The value is the log's end offset after the marker, or `_NOT_WRITTEN`.
    """
    _checked_ms: int = field(default=0, init=False)
    _is_failing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.producer_ids = ProducerIdManager(self._journal, self._clock.wall_ms())
        for value in self._journal.all(TRANSACTION).values():
            txn = self._by_id[value["id"]] = _read_metadata(value)
            if txn.is_prepared:
                self._markers[txn.id] = dict.fromkeys(txn.partitions, _NOT_WRITTEN)

    def recover(self, topics: Iterable[Topic]) -> None:
        """Reconcile the journal with the logs after a start. Either can have lost its end."""
        for partition in chain.from_iterable(topic.partitions for topic in topics):
            self.producer_ids.skip_used(partition.producers.entries)
            self._end_orphaned(partition)
        with contextlib.suppress(OSError):  # The next start tries again.
            self._offsets.forget_other_producers({txn.producer_id for txn in self._by_id.values()})

    def all(self) -> list[TransactionMetadata]:
        """Return the state of all transactional ids, ordered by id."""
        return [self._by_id[name] for name in sorted(self._by_id)]

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the state of a transactional id, or None if the id is unknown."""
        return self._by_id.get(transactional_id)

    def initialize(
        self, transactional_id: str, expected: ProducerIdAndEpoch | None, timeout_ms: int
    ) -> ProducerIdOrError:
        """Assign a producer id and epoch, and fence earlier producers (KIP-98, KIP-360).

        An open transaction is aborted first, and CONCURRENT_TRANSACTIONS makes the client retry.
        """
        if not transactional_id:
            return ErrorCode.invalid_request
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            return ErrorCode.invalid_transaction_timeout
        now = self._now()
        txn = self._by_id.get(transactional_id)
        if txn is None:
            txn = TransactionMetadata(
                id=transactional_id, producer_id=self.producer_ids.next(), timeout_ms=timeout_ms
            )
        if error := transaction_state.may_initialize(txn, expected):
            return error
        if txn.state is TransactionState.ONGOING:
            self._fence_producer(txn, now)
            return ErrorCode.concurrent_transactions
        transition = transaction_state.initialize(txn, expected, timeout_ms, now)
        if isinstance(transition, ErrorCode):
            return transition
        self._save_metadata(transition)
        return ProducerIdAndEpoch(transition.producer_id, transition.epoch)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        topic_partitions: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Add partitions to a producer's transaction. Return an error if this is not allowed."""
        if not transactional_id:
            return ErrorCode.invalid_request
        txn = self._by_id.get(transactional_id)
        error = transaction_state.check_producer(txn, producer)
        if txn is not None and not error:
            changed = transaction_state.add(txn, topic_partitions, self._now())
            if changed is not txn:
                self._save_metadata(changed)
        return error

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, topic_partition: TopicPartition
    ) -> ErrorCode:
        """Return an error if a producer's transaction does not include a partition (KIP-890)."""
        if not transactional_id:
            return ErrorCode.invalid_request
        txn = self._by_id.get(transactional_id)
        if error := transaction_state.check_producer(txn, producer):
            return error
        is_known = txn is not None and topic_partition in txn.partitions
        return ErrorCode.none if is_known else ErrorCode.transaction_abortable

    def add_or_verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        topic_partition: TopicPartition,
        *,
        adds_partitions: bool,
        knows_abortable: bool,
    ) -> ErrorCode:
        """Add a partition to a transaction, or check that the transaction includes it (KIP-890).

        Args:
            transactional_id: the producer's transactional id.
            producer: the producer's id and epoch.
            topic_partition: the partition.
            adds_partitions: True if the client adds partitions by writing to them.
            knows_abortable: True if the client handles TRANSACTION_ABORTABLE. Otherwise, the older
                code INVALID_TXN_STATE is returned.
        """
        if adds_partitions:
            error = self.add(transactional_id, producer, [topic_partition])
        else:
            error = self.verify(transactional_id, producer, topic_partition)
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if error is ErrorCode.transaction_abortable and not knows_abortable:
            return ErrorCode.invalid_txn_state
        return error

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        commit: bool,
        bumps_epoch: bool,
    ) -> ProducerIdOrError:
        """Commit or abort a transaction.

        With `bumps_epoch` (transactions V2), the result contains the new epoch.
        """
        if not transactional_id:
            return ErrorCode.invalid_request
        txn = self._by_id.get(transactional_id)
        if txn is None:
            return ErrorCode.invalid_producer_id_mapping
        end = transaction_state.end_v2 if bumps_epoch else transaction_state.end_v1
        transition = end(txn, producer, self._now(), commit=commit)
        if isinstance(transition, ErrorCode):
            return transition or ProducerIdAndEpoch(txn.producer_id, txn.epoch)
        self._save_prepared(transition)
        if transition.next_producer_id >= 0:
            return ProducerIdAndEpoch(transition.next_producer_id, 0)
        return ProducerIdAndEpoch(transition.producer_id, transition.epoch)

    def write_marker(self, topic_partition: TopicPartition, marker: EndTransactionMarker) -> bool:
        """Write a marker. Return True on success, or False if the write must be retried.

        A retry is needed if the partition has no leader or its storage fails. For deleted
        partitions, no marker is written.
        """
        try:
            if topic_partition[0] == _OFFSETS_TOPIC:
                self._offsets.end(marker)
            elif (partition := self._find_partition(*topic_partition)) is not None:
                if partition.leader < 0:
                    return False
                partition.end_transaction(marker, self._clock.wall_ms())
                self._purgatory.wake(topic_partition)
        except (OSError, RejectedBatchError):
            return False
        return True

    def tick(self) -> None:
        """Complete prepared transactions, abort timed-out transactions, and delete expired ids.

        If the storage fails, these operations are retried later.
        """
        now = self._now()
        failure = None
        if is_due := abs(now.ms - self._checked_ms) >= CHECK_INTERVAL_MS:
            self._checked_ms = now.ms
        for txn in list(self._by_id.values()) if is_due else self._with_unreplicated_markers():
            try:
                self._advance_transaction(txn, now)
            except OSError as error:
                failure = error
        if failure is not None and not self._is_failing:
            _LOG.warning("cannot store the states of transactions, retrying later: %s", failure)
        if is_due or failure is not None:
            self._is_failing = failure is not None

    def _end_orphaned(self, partition: Partition) -> None:
        """Write the markers of completed transactions that logs have lost.

        If a storage loses the end of a log, a transaction can be left open in the log. The
        producer's next marker would end this transaction, possibly with the wrong outcome.
        """
        for producer_id in list(partition.transactions.ongoing):
            if marker := self._orphan_marker(partition, producer_id):
                _LOG.warning(
                    "%s-%d has lost the marker of a transaction (producer id %d): %s it",
                    *partition.topic_partition,
                    producer_id,
                    "committing" if marker.is_commit else "aborting",
                )
                self.write_marker(partition.topic_partition, marker)

    def _orphan_marker(self, partition: Partition, producer_id: int) -> EndTransactionMarker | None:
        """Return the marker of a completed transaction, or an abort if its outcome is unknown."""
        entry = partition.producers.entries.get(producer_id)
        epoch = NO_PRODUCER_EPOCH if entry is None else entry.epoch
        txn = {known.producer_id: known for known in self._by_id.values()}.get(producer_id)
        if txn is None:
            return EndTransactionMarker(producer_id=producer_id, epoch=epoch, is_commit=False)
        if not txn.is_at_rest and partition.topic_partition in txn.partitions:
            return None
        # With transactions V2, the epoch was incremented when the transaction ended. With V1, it
        # could be any transaction of the epoch.
        is_last = epoch == txn.last_epoch == txn.epoch - 1
        has_only_commits = epoch == txn.epoch and not txn.has_aborted
        commit = (is_last or has_only_commits) and txn.state is TransactionState.COMPLETE_COMMIT
        return EndTransactionMarker(
            producer_id=producer_id, epoch=max(epoch, txn.epoch), is_commit=commit
        )

    def _now(self) -> transaction_state.Now:
        return transaction_state.Now(
            ms=self._clock.wall_ms(), new_producer_id=self.producer_ids.next
        )

    def _save_metadata(self, txn: TransactionMetadata) -> None:
        value = {field.name: getattr(txn, field.name) for field in fields(txn)}
        value["partitions"] = sorted(txn.partitions)
        self._journal.put(TRANSACTION, (txn.id,), value)
        self._by_id[txn.id] = txn

    def _fence_producer(self, txn: TransactionMetadata, now: transaction_state.Now) -> None:
        bumps_epoch = self._config.transaction_level > 1
        self._save_prepared(transaction_state.fence(txn, now, bumps_epoch=bumps_epoch))

    def _save_prepared(self, prepared: TransactionMetadata) -> None:
        self._save_metadata(prepared)
        self._markers[prepared.id] = dict.fromkeys(prepared.partitions, _NOT_WRITTEN)
        self._write_markers(prepared)

    def _write_markers(self, txn: TransactionMetadata) -> None:
        """Write missing markers. Complete the transaction if all markers are replicated."""
        marker = EndTransactionMarker(
            producer_id=txn.producer_id,
            epoch=txn.epoch,
            is_commit=txn.state is TransactionState.PREPARE_COMMIT,
        )
        known = self._markers[txn.id]
        ends = {key: self._marker_end(key, marker, known[key]) for key in sorted(known)}
        left = {key: end for key, end in ends.items() if end is not None}
        self._markers[txn.id] = left
        if left:
            return
        self._save_metadata(transaction_state.complete(txn, self._now()))
        del self._markers[txn.id]

    def _marker_end(
        self, topic_partition: TopicPartition, marker: EndTransactionMarker, end: int
    ) -> int | None:
        """Write a marker unless the log contains it.

        Return the log's end offset after the marker, or None if the marker is replicated.
        """
        partition = self._find_partition(*topic_partition)
        if partition is None:
            return None if self.write_marker(topic_partition, marker) else _NOT_WRITTEN
        is_lost = (
            end > partition.log.end_offset or marker.producer_id in partition.transactions.ongoing
        )
        if end == _NOT_WRITTEN or is_lost:
            if not self.write_marker(topic_partition, marker):
                return _NOT_WRITTEN
            end = partition.log.end_offset
        return None if partition.high_watermark >= end else end

    def _with_unreplicated_markers(self) -> list[TransactionMetadata]:
        """Return the transactions whose markers are all written but not all replicated."""
        return [
            self._by_id[name]
            for name, ends in self._markers.items()
            if ends and _NOT_WRITTEN not in ends.values()
        ]

    def _advance_transaction(self, txn: TransactionMetadata, now: transaction_state.Now) -> None:
        expiration_ms = self._config.transactional_id_expiration_ms
        if txn.id in self._markers:
            self._write_markers(txn)
        elif txn.state is TransactionState.ONGOING and txn.started_ms + txn.timeout_ms < now.ms:
            self._fence_producer(txn, now)
        elif txn.is_at_rest and txn.updated_ms + expiration_ms <= now.ms:
            self._offsets.forget_producer(txn.producer_id)
            self._journal.put(TRANSACTION, (txn.id,), None)
            del self._by_id[txn.id]


def _read_metadata(value: Mapping[str, Any]) -> TransactionMetadata:
    partitions = frozenset((str(name), int(index)) for name, index in value["partitions"])
    changes = {"partitions": partitions, "state": TransactionState(value["state"])}
    return TransactionMetadata(**{**value, **changes})
