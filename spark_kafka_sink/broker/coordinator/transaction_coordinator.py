"""The transaction coordinator: transactional ids, producer ids, markers and pending offsets.

- `TransactionCoordinator`, as Kafka's class of that name: the transitions of `transaction_state`
  decide, this class stores and executes the decisions. Markers are written immediately, and retried
  later for partitions that have no leader.
- `TransactionMarkerWriter`, as Kafka's TransactionMarkerChannelManager, but without a network
  between coordinator and leader.
- `verify`, as Kafka's AddPartitionsToTxnManager (KIP-890): before a producer writes to a partition,
  check that its transaction includes it. Older clients add partitions themselves; newer ones
  (Produce 12, TxnOffsetCommit 5) leave that to the broker.
- `TransactionalOffsets`, as the part of Kafka's OffsetMetadataManager that handles transactions:
  offsets committed in a transaction are pending until its marker is written (KIP-98). All groups
  share one partition of the offsets topic, which has no log, only producers and their pending
  offsets.
- `ProducerIdManager` and `TransactionStore`: producer ids and transactional ids in the journal.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import TYPE_CHECKING, Self, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator import transaction_state as transitions
from spark_kafka_sink.broker.coordinator.classic_group import CommittedOffset
from spark_kafka_sink.broker.coordinator.transaction_state import (
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from spark_kafka_sink.broker.partition.log_validator import RefusedBatchError
from spark_kafka_sink.protocol.transactions import TransactionState
from spark_kafka_sink.records.decoder import EndTransactionMarker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
    from spark_kafka_sink.broker.partition.partition import Topic
    from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory
    from spark_kafka_sink.broker.storage.journal import Journal
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock


KIND = "transaction"


class TransactionStore:
    """Stores the latest state of every transactional id."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def all(self) -> list[TransactionMetadata]:
        """Return the states that an earlier broker stored."""
        return [_read(value) for value in self._journal.all(KIND).values()]

    def put(self, txn: TransactionMetadata) -> None:
        """Store a state."""
        value = {field.name: getattr(txn, field.name) for field in fields(txn)}
        value["partitions"] = sorted(txn.partitions)
        self._journal.put(KIND, (txn.id,), value)

    def drop(self, txn: TransactionMetadata) -> None:
        """Delete a transactional id."""
        self._journal.put(KIND, (txn.id,), None)


def _read(value: dict[str, object]) -> TransactionMetadata:
    known = {field.name for field in fields(TransactionMetadata)}
    values = {name: what for name, what in value.items() if name in known}
    topic_partitions = values.pop("partitions")
    state = TransactionState(str(values.pop("state")))
    assert isinstance(topic_partitions, list)
    partitions = frozenset((str(name), int(index)) for name, index in topic_partitions)
    return TransactionMetadata(partitions=partitions, state=state, **values)  # type: ignore[arg-type]


class TransactionMarkerWriter:
    """Appends transaction markers to partitions.

    Args:
        find_topic: returns a topic by its name.
        groups: receive the offsets of committed transactions.
        offsets: process the markers of the offsets topic.
        purgatory: notified of partitions whose last stable offset may have moved.
        clock: timestamps of the markers.
    """

    __slots__ = ("_clock", "_find_topic", "_groups", "_offsets", "_purgatory")

    def __init__(
        self,
        find_topic: Callable[[str], Topic | None],
        groups: GroupCoordinator,
        offsets: TransactionalOffsets,
        purgatory: DelayedOperationPurgatory,
        clock: Clock,
    ) -> None:
        self._find_topic = find_topic
        self._groups = groups
        self._purgatory = purgatory
        self._clock = clock
        self._offsets = offsets

    def write(self, topic_partition: TopicPartition, marker: EndTransactionMarker) -> bool:
        """Write a marker and return True, or False if the write has to be retried.

        A retry is needed while the partition has no leader or its storage fails. For a deleted
        partition there is nothing to write.
        """
        try:
            return self._write(topic_partition, marker)
        except (OSError, RefusedBatchError):
            return False

    def _write(self, topic_partition: TopicPartition, marker: EndTransactionMarker) -> bool:
        name, index = topic_partition
        if name == OFFSETS_TOPIC:
            self._offsets.end(marker, self._groups)
            return True
        topic = self._find_topic(name)
        partition = topic.partition(index) if topic else None
        if topic is None or partition is None:
            return True
        if partition.leader < 0:
            return False
        partition.end_transaction(marker, topic.config, self._clock.wall_ms())
        self._purgatory.wake((name, index))
        return True


class TransactionSupportedOperation(Enum):
    """What the client supports, depending on the version of its request."""

    DEFAULT_ERROR = auto()
    GENERIC_ERROR_SUPPORTED = auto()
    """The client handles TRANSACTION_ABORTABLE."""
    ADD_PARTITION = auto()
    """The client adds partitions to a transaction by writing to them."""

    @classmethod
    def of(cls, version: int, *, generic_errors: int, adding: int) -> Self:
        """Return what a request of `version` supports.

        `generic_errors` and `adding` are the first versions that support TRANSACTION_ABORTABLE and
        adding partitions.
        """
        if version >= adding:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version >= generic_errors else cls.DEFAULT_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The producer that writes in a transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    supported_operation: TransactionSupportedOperation


def verify(
    transactions: TransactionCoordinator, writer: Writer, topic_partition: TopicPartition
) -> ErrorCode:
    """Add a partition to the writer's transaction, or check that it is part of it.

    Return an error that the client's version handles.
    """
    if writer.supported_operation is TransactionSupportedOperation.ADD_PARTITION:
        error = transactions.add(writer.transactional_id, writer.producer, [topic_partition])
    else:
        error = transactions.verify(writer.transactional_id, writer.producer, topic_partition)
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if (
        error is ErrorCode.transaction_abortable
        and writer.supported_operation is TransactionSupportedOperation.DEFAULT_ERROR
    ):
        return ErrorCode.invalid_txn_state
    return error


FIRST = 1_000
BLOCK = 1_000
"""Producer ids allocated at a time, as in Kafka; a restart leaves the rest of the block unused."""
_KIND = "producer ids"
_KEY = ("next block",)


class ProducerIdManager:
    """Allocates producer ids, after the last block that the journal has."""

    __slots__ = ("_end", "_journal", "_next")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = self._end = int(journal.all(_KIND).get(_KEY, FIRST))

    def next(self) -> int:
        """Return a new producer id.

        Raises:
            OSError: the next block cannot be stored, so none of its ids is assigned.
        """
        if self._next == self._end:
            self._journal.put(_KIND, _KEY, self._end + BLOCK)
            self._end += BLOCK
        self._next += 1
        return self._next - 1


PENDING = "pending_offset"
EPOCHS = "offset_epoch"
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITION: TopicPartition = (OFFSETS_TOPIC, 0)

Pending: TypeAlias = "dict[tuple[str, TopicPartition], CommittedOffset]"
"""Offsets of one producer's transaction, by group id and topic-partition."""


class TransactionalOffsets:
    """Pending offsets by producer id, and the newest epoch of each producer.

    Args:
        journal: where they are stored across restarts.
    """

    __slots__ = ("_epochs", "_journal", "_pending")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._epochs = {int(key[0]): int(epoch) for key, epoch in journal.all(EPOCHS).items()}
        self._pending: dict[int, Pending] = {}
        for (producer, group, topic, index), value in journal.all(PENDING).items():
            pending = self._pending.setdefault(int(producer), {})
            pending[str(group), (str(topic), int(index))] = CommittedOffset(**value)

    def is_ongoing(self, producer: ProducerIdAndEpoch) -> bool:
        """Return True if the producer's transaction already includes offsets."""
        same = self._epochs.get(producer.producer_id) == producer.epoch
        return same and producer.producer_id in self._pending

    def check_epoch(self, producer: ProducerIdAndEpoch) -> ErrorCode:
        """Return INVALID_PRODUCER_EPOCH if the epoch is older than the newest known one."""
        late = producer.epoch < self._epochs.get(producer.producer_id, producer.epoch)
        return ErrorCode.invalid_producer_epoch if late else ErrorCode.none

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Note that a producer's transaction includes offsets, even if it has none yet."""
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
        value = {
            "offset": offset.offset,
            "leader_epoch": offset.leader_epoch,
            "metadata": offset.metadata,
        }
        self._journal.put(PENDING, (producer.producer_id, group_id, *topic_partition), value)
        self._pending[producer.producer_id][group_id, topic_partition] = offset

    def _set_epoch(self, producer: ProducerIdAndEpoch) -> None:
        if self._epochs.get(producer.producer_id) != producer.epoch:
            self._journal.put(EPOCHS, (producer.producer_id,), producer.epoch)
            self._epochs[producer.producer_id] = producer.epoch

    def end(self, marker: EndTransactionMarker, groups: GroupCoordinator) -> None:
        """Commit or discard a producer's pending offsets.

        An offset that was committed after the pending one is kept.

        Raises:
            OSError: some offsets are still pending, and the marker has to be retried.
        """
        self._set_epoch(ProducerIdAndEpoch(marker.producer_id, marker.epoch))
        pending = self._pending.get(marker.producer_id, {})
        for (group_id, topic_partition), offset in list(pending.items()):
            offsets = groups.get_or_create(group_id).offsets
            if marker.commit and (
                topic_partition not in offsets or offsets[topic_partition].order < offset.order
            ):
                offsets[topic_partition] = offset
            self._journal.put(PENDING, (marker.producer_id, group_id, *topic_partition), None)
            del pending[group_id, topic_partition]
        self._pending.pop(marker.producer_id, None)

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Return True if an open transaction may change a committed offset (KIP-447)."""
        return any((group_id, topic_partition) in pending for pending in self._pending.values())


ProducerIdOrError: TypeAlias = ProducerIdAndEpoch | ErrorCode
"""The producer id and epoch for the response, or an error."""

LOOK_EVERY_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Limits of transactions, in milliseconds.

    `max_timeout_ms` is Kafka's transaction.max.timeout.ms and `id_expiration_ms` is
    transactional.id.expiration.ms. With `ends_bump` (transaction.version 2), transactions that the
    coordinator aborts bump the epoch as every end of transactions V2 does.
    """

    max_timeout_ms: int
    id_expiration_ms: int
    ends_bump: bool


class TransactionCoordinator:
    """All transactional ids and their transactions.

    Args:
        settings: limits of transactions.
        store: has the states from before a restart.
        clock: wall time.
        new_producer_id: allocates a producer id.
        marker_writer: writes transaction markers to partitions.
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
        """Return all transactional ids, ordered by name."""
        return [self._by_id[name] for name in sorted(self._by_id)]

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """Return a transactional id, or None if it is unknown."""
        return self._by_id.get(transactional_id)

    def _now(self) -> transitions.Now:
        return transitions.Now(ms=self._clock.wall_ms(), new_producer_id=self._new_producer_id)

    def _keep(self, txn: TransactionMetadata) -> None:
        self._store.put(txn)
        self._by_id[txn.id] = txn

    def initialize(
        self, transactional_id: str, expected: ProducerIdAndEpoch | None, timeout_ms: int
    ) -> ProducerIdOrError:
        """Return a producer's id and epoch, and fence earlier producers (KIP-98, KIP-360).

        An open transaction is aborted first: CONCURRENT_TRANSACTIONS makes the client retry.
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
        """Add partitions to a producer's transaction; return an error if the producer may not."""
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
        """Return an error unless a partition is part of a producer's transaction (KIP-890)."""
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
        """Commit or abort a transaction.

        With `bumps` (transactions V2) the result has the next epoch.
        """
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
        self._unwritten[txn.id] = left
        if left:
            return
        self._keep(transitions.complete(txn, self._now()))
        del self._unwritten[txn.id]

    def tick(self) -> None:
        """Retry unwritten markers, abort transactions that timed out, and expire unused ids."""
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
