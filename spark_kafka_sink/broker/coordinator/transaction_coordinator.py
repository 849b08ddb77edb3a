"""The transaction coordinator: transactional ids, producer ids, markers and pending offsets.

- `TransactionCoordinator` corresponds to Kafka's class with the same name. The functions in
  `transaction_state` determine the transitions. This class stores and executes them. Markers are
  written immediately, because there is no network between coordinator and leader. As in Kafka, a
  transaction is complete when all in-sync replicas have its markers. A marker for a partition
  without a leader is written later. If a failed leader loses a marker, the marker is written again.
  - `TransactionCoordinator.add_or_verify` corresponds to AddPartitionsToTxnManager (KIP-890).
    Before a producer writes to a partition, the broker checks that the transaction includes the
    partition. Older clients add partitions to transactions themselves. For newer clients (Produce
    12, TxnOffsetCommit 5), the broker adds the partitions.
- `TransactionalOffsets` corresponds to the transactional part of Kafka's OffsetMetadataManager:
  offsets committed in a transaction are pending until its marker is written (KIP-98). All groups
    share one partition of the offsets topic. This partition has no log: only the producers and
    their pending offsets are stored.
- `ProducerIdManager` allocates producer ids and stores the allocated blocks in the journal.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator import transaction_state
from spark_kafka_sink.broker.coordinator.committed_offsets import CommittedOffset
from spark_kafka_sink.broker.coordinator.transaction_state import (
    NO_EPOCH,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from spark_kafka_sink.broker.partition.log_validator import RejectedBatchError
from spark_kafka_sink.broker.storage.journal import TRANSACTION, Journal
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from spark_kafka_sink.broker.config import BrokerConfig
    from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
    from spark_kafka_sink.broker.partition.partition import Partition, Topic
    from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory
    from spark_kafka_sink.common.clock import Clock


BLOCK = 1_000
"""Number of producer ids per allocated block, as in Kafka. A restart skips unused ids."""
_FOREIGN = 1 << 62
"""Producer ids from here on were not allocated by a broker."""
_PRODUCER_IDS = "producer ids"
_NEXT_BLOCK = ("next block",)
PENDING = "pending_offset"
EPOCHS = "offset_epoch"
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITION = TopicPartition(OFFSETS_TOPIC, 0)
Pending: TypeAlias = "dict[tuple[str, TopicPartition], CommittedOffset]"
"""Pending offsets of one producer's transaction, by group id and topic-partition."""
ProducerIdOrError: TypeAlias = ProducerIdAndEpoch | ErrorCode
"""The producer id and epoch for a response, or an error code."""
_LOG = logging.getLogger(__name__)
CHECK_INTERVAL_MS = 50
NOT_WRITTEN = 0


class ProducerIdManager:
    """Allocates producer ids that no earlier broker at the same address has allocated.

    If two producers had the same id, the batches of one could be acknowledged as duplicates of the
    other's. The ids therefore start at the current time in microseconds, or after the last block
    in the journal if that is higher. So they remain unique if the journal is lost or a backup of
    it is restored, and if the clock was set back.
    """

    def __init__(self, journal: Journal, wall_ms: int) -> None:
        self._journal = journal
        stored = int(journal.all(_PRODUCER_IDS).get(_NEXT_BLOCK, 0))
        self._next = self._end = max(stored, wall_ms * 1_000)

    def skip_used(self, producer_ids: Iterable[int]) -> None:
        """Skip ids that logs contain, even if a machine crash has lost their journal entry."""
        used = (producer_id + 1 for producer_id in producer_ids if producer_id < _FOREIGN)
        self._next = self._end = max([self._end, *used])

    def next(self) -> int:
        """Return a new producer id.

        Raises:
            OSError: the next block cannot be stored. No id is allocated.
        """
        if self._next == self._end:
            self._journal.put(_PRODUCER_IDS, _NEXT_BLOCK, self._end + BLOCK)
            self._end += BLOCK
        self._next += 1
        return self._next - 1


class TransactionalOffsets:
    """Stores pending offsets by producer id, and the newest epoch of each producer.

    Args:
        journal: stores the offsets across restarts.
        groups: the groups, which receive the offsets of committed transactions.
    """

    def __init__(self, journal: Journal, groups: GroupCoordinator) -> None:
        self._journal = journal
        self._groups = groups
        self._epochs = {int(key[0]): int(epoch) for key, epoch in journal.all(EPOCHS).items()}
        self._pending: dict[int, Pending] = {}
        for (producer, group, topic, index), value in journal.all(PENDING).items():
            pending = self._pending.setdefault(int(producer), {})
            offset = CommittedOffset(**value)
            pending[str(group), TopicPartition(str(topic), int(index))] = offset
            groups.get_or_create(str(group))
            groups.skip_orders(offset.order)

    def is_ongoing(self, producer: ProducerIdAndEpoch) -> bool:
        """Return True if the producer's transaction already includes offsets."""
        same = self._epochs.get(producer.producer_id) == producer.epoch
        return same and producer.producer_id in self._pending

    def check_epoch(self, producer: ProducerIdAndEpoch) -> ErrorCode:
        """Return INVALID_PRODUCER_EPOCH if a newer epoch of the producer is known."""
        fenced = producer.epoch < self._epochs.get(producer.producer_id, producer.epoch)
        return ErrorCode.invalid_producer_epoch if fenced else ErrorCode.none

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Register that a producer's transaction includes offsets, even if none are pending yet."""
        self._set_epoch(producer)
        self._pending.setdefault(producer.producer_id, {})

    def add(
        self,
        producer: ProducerIdAndEpoch,
        group_id: str,
        topic_partition: TopicPartition,
        offset: CommittedOffset,
    ) -> None:
        """Store an offset until its transaction ends."""
        self.begin(producer)
        key = (producer.producer_id, group_id, *topic_partition)
        self._journal.put(PENDING, key, asdict(offset))
        self._pending[producer.producer_id][group_id, topic_partition] = offset

    def _set_epoch(self, producer: ProducerIdAndEpoch) -> None:
        if self._epochs.get(producer.producer_id) != producer.epoch:
            self._journal.put(EPOCHS, (producer.producer_id,), producer.epoch)
            self._epochs[producer.producer_id] = producer.epoch

    def forget_producer(self, producer_id: int) -> None:
        """Delete the epoch of a producer id whose transactional id no longer exists.

        Raises:
            OSError: the journal failed. The epoch is retained.
        """
        if producer_id in self._epochs and producer_id not in self._pending:
            self._journal.put(EPOCHS, (producer_id,), None)
            del self._epochs[producer_id]

    def forget_other_producers(self, known: Container[int]) -> None:
        """Delete the epochs of all producer ids except `known`.

        Raises:
            OSError: the journal failed. Some of the epochs are retained.
        """
        for producer_id in list(self._epochs):
            if producer_id not in known:
                self.forget_producer(producer_id)

    def end(self, marker: EndTransactionMarker) -> None:
        """Commit or discard a producer's pending offsets.

        If an offset was committed after a pending offset, the pending offset is discarded.

        Raises:
            OSError: some offsets are still pending. The caller must retry writing the marker.
        """
        self._set_epoch(ProducerIdAndEpoch(marker.producer_id, marker.epoch))
        pending = self._pending.get(marker.producer_id, {})
        for (group_id, topic_partition), offset in list(pending.items()):
            offsets = self._groups.get_or_create(group_id).offsets
            if marker.commit and (
                topic_partition not in offsets or offsets[topic_partition].order <= offset.order
            ):
                offsets[topic_partition] = offset
            self._journal.put(PENDING, (marker.producer_id, group_id, *topic_partition), None)
            del pending[group_id, topic_partition]
        self._pending.pop(marker.producer_id, None)

    def forget(self, is_deleted: Callable[[str, TopicPartition], bool]) -> None:
        """Delete pending offsets, so that a later commit cannot restore deleted offsets.

        Args:
            is_deleted: returns True if the offset of a group for a topic-partition is deleted.

        Raises:
            OSError: the journal failed; some offsets are left.
        """
        for producer_id, pending in self._pending.items():
            for group_id, topic_partition in [key for key in pending if is_deleted(*key)]:
                self._journal.put(PENDING, (producer_id, group_id, *topic_partition), None)
                del pending[group_id, topic_partition]

    def forget_topic(self, name: str) -> None:
        """Delete all groups' committed and pending offsets for a deleted topic.

        Raises:
            OSError: the journal failed; some offsets are left.
        """
        self.forget(lambda _, topic_partition: topic_partition[0] == name)
        self._groups.forget_topic(name)

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Return True if an open transaction includes an offset for the partition (KIP-447)."""
        return any((group_id, topic_partition) in pending for pending in self._pending.values())


@dataclass(slots=True, eq=False)
class TransactionCoordinator:
    """All transactional ids and their transactions.

    Args:
        config: contains the limits of transactions.
        journal: stores the transactions across restarts.
        clock: provides the wall time.
        find_partition: returns a partition, or None if it does not exist.
        offsets: the pending offsets, which markers for the offsets topic commit or discard.
        purgatory: the delayed requests; notified of changes of last stable offsets.
    """

    _config: BrokerConfig
    _journal: Journal
    _clock: Clock
    _find_partition: Callable[[str, int], Partition | None]
    _offsets: TransactionalOffsets
    _purgatory: DelayedOperationPurgatory
    producer_ids: ProducerIdManager = field(init=False)
    _by_id: dict[str, TransactionMetadata] = field(default_factory=dict, init=False)
    _markers: dict[str, dict[TopicPartition, int]] = field(default_factory=dict, init=False)
    """Partitions whose marker is not yet replicated, by transactional id.

    The value is the log's end offset after the marker, or `NOT_WRITTEN`.
    """
    _checked_ms: int = field(default=0, init=False)
    _is_failing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.producer_ids = ProducerIdManager(self._journal, self._clock.wall_ms())
        for value in self._journal.all(TRANSACTION).values():
            txn = self._by_id[value["id"]] = _read(value)
            if txn.is_prepared:
                self._markers[txn.id] = dict.fromkeys(txn.partitions, NOT_WRITTEN)

    def recover(self, topics: Iterable[Topic]) -> None:
        """Reconcile the journal with the logs after a start. Either can have lost its end."""
        for partition in chain.from_iterable(topic.partitions for topic in topics):
            self.producer_ids.skip_used(partition.producers.entries)
            self._end_orphaned(partition)
        with contextlib.suppress(OSError):  # The next start tries again.
            self._offsets.forget_other_producers({txn.producer_id for txn in self._by_id.values()})

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
                    "committing" if marker.commit else "aborting",
                )
                self.write_marker(partition.topic_partition, marker)

    def _orphan_marker(self, partition: Partition, producer_id: int) -> EndTransactionMarker | None:
        """Return the marker of a completed transaction, or an abort if its outcome is unknown."""
        entry = partition.producers.entries.get(producer_id)
        epoch = NO_EPOCH if entry is None else entry.epoch
        txn = next(
            (
                candidate
                for candidate in self._by_id.values()
                if candidate.producer_id == producer_id
            ),
            None,
        )
        if txn is None:
            return EndTransactionMarker(producer_id=producer_id, epoch=epoch, commit=False)
        if not txn.is_at_rest and partition.topic_partition in txn.partitions:
            return None
        # With transactions V2, the epoch was incremented when the transaction ended. With V1, it
        # could be any transaction of the epoch.
        is_last = epoch == txn.last_epoch == txn.epoch - 1
        all_committed = epoch == txn.epoch and not txn.has_aborted
        commit = (is_last or all_committed) and txn.state is TransactionState.COMPLETE_COMMIT
        return EndTransactionMarker(
            producer_id=producer_id, epoch=max(epoch, txn.epoch), commit=commit
        )

    def all(self) -> list[TransactionMetadata]:
        """Return the state of all transactional ids, ordered by id."""
        return [self._by_id[name] for name in sorted(self._by_id)]

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the state of a transactional id, or None if the id is unknown."""
        return self._by_id.get(transactional_id)

    def _now(self) -> transaction_state.Now:
        return transaction_state.Now(
            ms=self._clock.wall_ms(), new_producer_id=self.producer_ids.next
        )

    def _save(self, txn: TransactionMetadata) -> None:
        value = {field.name: getattr(txn, field.name) for field in fields(txn)}
        value["partitions"] = sorted(txn.partitions)
        self._journal.put(TRANSACTION, (txn.id,), value)
        self._by_id[txn.id] = txn

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
            self._fence(txn, now)
            return ErrorCode.concurrent_transactions
        transition = transaction_state.initialize(txn, expected, timeout_ms, now)
        if isinstance(transition, ErrorCode):
            return transition
        self._save(transition)
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
                self._save(changed)
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
        known = txn is not None and topic_partition in txn.partitions
        return ErrorCode.none if known else ErrorCode.transaction_abortable

    def add_or_verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        topic_partition: TopicPartition,
        *,
        adds: bool,
        knows_abortable: bool,
    ) -> ErrorCode:
        """Add a partition to a transaction, or check that the transaction includes it (KIP-890).

        Args:
            transactional_id: the producer's transactional id.
            producer: the producer's id and epoch.
            topic_partition: the partition.
            adds: True if the client adds partitions to a transaction by writing to them.
            knows_abortable: True if the client handles TRANSACTION_ABORTABLE. Otherwise, the older
                code INVALID_TXN_STATE is returned.
        """
        if adds:
            error = self.add(transactional_id, producer, [topic_partition])
        else:
            error = self.verify(transactional_id, producer, topic_partition)
        if error is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if error is ErrorCode.transaction_abortable and not knows_abortable:
            return ErrorCode.invalid_txn_state
        return error

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool, bumps: bool
    ) -> ProducerIdOrError:
        """Commit or abort a transaction.

        With `bumps` (transactions V2), the epoch is incremented, and the result contains the new
        epoch.
        """
        if not transactional_id:
            return ErrorCode.invalid_request
        txn = self._by_id.get(transactional_id)
        if txn is None:
            return ErrorCode.invalid_producer_id_mapping
        end = transaction_state.end_v2 if bumps else transaction_state.end_v1
        transition = end(txn, producer, self._now(), commit=commit)
        if isinstance(transition, ErrorCode):
            return transition or ProducerIdAndEpoch(txn.producer_id, txn.epoch)
        self._finish(transition)
        if transition.next_producer_id >= 0:
            return ProducerIdAndEpoch(transition.next_producer_id, 0)
        return ProducerIdAndEpoch(transition.producer_id, transition.epoch)

    def _fence(self, txn: TransactionMetadata, now: transaction_state.Now) -> None:
        self._finish(transaction_state.fence(txn, now, bumps=self._config.transaction_level > 1))

    def _finish(self, prepared: TransactionMetadata) -> None:
        self._save(prepared)
        self._markers[prepared.id] = dict.fromkeys(prepared.partitions, NOT_WRITTEN)
        self._write_markers(prepared)

    def _write_markers(self, txn: TransactionMetadata) -> None:
        """Write missing markers. Complete the transaction if all markers are replicated."""
        marker = EndTransactionMarker(
            producer_id=txn.producer_id,
            epoch=txn.epoch,
            commit=txn.state is TransactionState.PREPARE_COMMIT,
        )
        known = self._markers[txn.id]
        ends = {key: self._marker_end(key, marker, known[key]) for key in sorted(known)}
        left = {key: end for key, end in ends.items() if end is not None}
        self._markers[txn.id] = left
        if left:
            return
        self._save(transaction_state.complete(txn, self._now()))
        del self._markers[txn.id]

    def _marker_end(
        self, topic_partition: TopicPartition, marker: EndTransactionMarker, end: int
    ) -> int | None:
        """Write a marker unless the log contains it.

        Return the log's end offset after the marker, or None if the marker is replicated.
        """
        partition = self._find_partition(*topic_partition)
        if partition is None:
            return None if self.write_marker(topic_partition, marker) else NOT_WRITTEN
        is_lost = (
            end > partition.log.end_offset or marker.producer_id in partition.transactions.ongoing
        )
        if end == NOT_WRITTEN or is_lost:
            if not self.write_marker(topic_partition, marker):
                return NOT_WRITTEN
            end = partition.log.end_offset
        return None if partition.high_watermark >= end else end

    def write_marker(self, topic_partition: TopicPartition, marker: EndTransactionMarker) -> bool:
        """Write a marker. Return True on success, or False if the write must be retried.

        A retry is needed if the partition has no leader or its storage fails. For deleted
        partitions, no marker is written.
        """
        try:
            if topic_partition[0] == OFFSETS_TOPIC:
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
        now, failure = self._now(), None
        if is_due := abs(now.ms - self._checked_ms) >= CHECK_INTERVAL_MS:
            self._checked_ms = now.ms
        for txn in list(self._by_id.values()) if is_due else self._unreplicated():
            try:
                self._advance(txn, now)
            except OSError as error:
                failure = error
        if failure is not None and not self._is_failing:
            _LOG.warning("cannot store the states of transactions, retrying later: %s", failure)
        if is_due or failure is not None:
            self._is_failing = failure is not None

    def _unreplicated(self) -> list[TransactionMetadata]:
        """Return the transactions whose markers are all written but not all replicated."""
        return [
            self._by_id[name]
            for name, ends in self._markers.items()
            if ends and NOT_WRITTEN not in ends.values()
        ]

    def _advance(self, txn: TransactionMetadata, now: transaction_state.Now) -> None:
        expiration_ms = self._config.transactional_id_expiration_ms
        if txn.id in self._markers:
            self._write_markers(txn)
        elif txn.state is TransactionState.ONGOING and txn.started_ms + txn.timeout_ms < now.ms:
            self._fence(txn, now)
        elif txn.is_at_rest and txn.updated_ms + expiration_ms <= now.ms:
            self._offsets.forget_producer(txn.producer_id)
            self._journal.put(TRANSACTION, (txn.id,), None)
            del self._by_id[txn.id]


def _read(value: Mapping[str, Any]) -> TransactionMetadata:
    partitions = frozenset((str(name), int(index)) for name, index in value["partitions"])
    changes = {"partitions": partitions, "state": TransactionState(value["state"])}
    return TransactionMetadata(**{**value, **changes})
