"""A partition, with its log, producers and replica states."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.broker.partition import log_validator
from spark_kafka_sink.broker.partition.log_transactions import LogTransactions
from spark_kafka_sink.broker.partition.producer_state import BatchMetadata, ProducerStateManager
from spark_kafka_sink.broker.partition.replica_states import ReplicaStates
from spark_kafka_sink.broker.partition.unified_log import LeaderEpochCache, UnifiedLog
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.control_batch import encode_control_batch, read_marker
from spark_kafka_sink.kafka.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_kafka_sink.broker.config.topic_config import LogConfig
    from spark_kafka_sink.broker.storage.log_storage import LogStorage, OnBatch
    from spark_kafka_sink.kafka.protocol.messages import FieldValues
    from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker


_LOG = logging.getLogger(__name__)
_NO_TIME = -1


class AppendResult(NamedTuple):
    """The result of an append."""

    base_offset: int
    append_time: int
    """In milliseconds, or -1 for CreateTime."""


@dataclass(slots=True, kw_only=True)
class Partition:
    """A partition, whose data is stored only once. Replicas are node ids."""

    topic: str
    index: int
    leader: int
    """-1 while no in-sync replica is active."""
    replicas: list[int]
    in_sync: list[int]
    adding: list[int] = field(default_factory=list)
    """The replicas that an ongoing reassignment adds."""
    removing: list[int] = field(default_factory=list)
    """The replicas that it removes."""
    leader_epoch: int = 0
    needs_truncation: bool = False
    """True after a failed truncation, which is repeated for the next leader."""
    log: UnifiedLog = field(default_factory=UnifiedLog)
    producers: ProducerStateManager = field(default_factory=ProducerStateManager)
    transactions: LogTransactions = field(default_factory=LogTransactions)
    replica_states: ReplicaStates = field(default_factory=ReplicaStates)
    """The positions of the followers."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the index."""
        return TopicPartition(self.topic, self.index)

    @property
    def config(self) -> LogConfig:
        """The log configs of the topic."""
        return self.log.storage.config

    @property
    def min_in_sync(self) -> int:
        """The topic's min.insync.replicas, or the number of replicas if that is lower."""
        return min(self.config.min_in_sync, len(self.replicas))

    @property
    def high_watermark(self) -> int:
        """The end offset of the records that all in-sync replicas have copied."""
        return self.replica_states.high_watermark if len(self.replicas) > 1 else self.log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end offset of the batches before the first open transaction.

        If no transaction is open, this is the high watermark. If the start of the transaction was
        deleted, this is the log start offset.
        """
        high_watermark = self.high_watermark
        stable = max(self.transactions.last_stable_offset(high_watermark), self.log.start_offset)
        return self.log.end_before(min(stable, high_watermark))

    def readable_end(self, *, committed: bool) -> int:
        """Return the offset up to which a consumer can read (exclusive)."""
        return self.last_stable_offset if committed else self.high_watermark

    @property
    def current_leader(self) -> FieldValues:
        """The response fields with the current leader (KIP-951)."""
        return {"leader_id": self.leader, "leader_epoch": self.leader_epoch}

    def begin_leader_epoch(self) -> None:
        """Register the current leader epoch with the log's end offset as its start offset."""
        self.log.epochs.assign(self.leader_epoch, self.log.end_offset)

    def truncate(self, offset: int) -> None:
        """Drop the records that a new leader lacks, and rebuild the producer state.

        If `offset` is below the log start offset, the log is emptied and continues at its start
        offset, because records below this offset cannot be read.

        Raises:
            OSError: the storage failed; `needs_truncation` is True.
        """
        self.needs_truncation = True
        start = self.log.start_offset
        self.log.truncate(offset)
        if self.log.end_offset < start:
            self.log.restart_at(start)
        end = self.log.end_offset
        self.replica_states.truncate(end)
        producers, transactions = self.producers, self.transactions
        self.forget_producers()
        try:
            for batch in self.log:
                self.replay(batch.data)
        except OSError:
            self.producers = producers
            self.transactions = transactions
            raise
        self.producers.restore(producers, end)
        self.transactions.restore(transactions, end)
        self.needs_truncation = False

    def append(
        self, records: memoryview | bytes | None, options: log_validator.AppendOptions
    ) -> AppendResult:
        """Validate a batch and append it. For a duplicate batch, return the original result.

        The coordinator must have verified that the transaction of the batch includes the partition.

        Raises:
            RejectedBatchError: the batch was not appended.
        """
        batch, header = log_validator.validate(records, options)
        if header.producer_id < 0:
            return self._append_to_log(batch, header, options)
        # While it is unknown whether an earlier batch was written, all later batches fail with the
        # storage's error. After OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka sends all of them again
        # with a new epoch.
        with _storage_errors():
            self.log.storage.remove_failed_append()
        verdict = self.producers.check_sequence(header)
        if isinstance(verdict, BatchMetadata):
            with _storage_errors():
                self.log.storage.verify()
            return AppendResult(base_offset=verdict.base_offset, append_time=verdict.append_time)
        if error := self._check_transaction(header, verdict):
            raise log_validator.RejectedBatchError(error, _sequence_message(self, header))
        try:
            result = self._append_to_log(batch, header, options)
        except log_validator.RejectedBatchError as rejected:
            if rejected.code is ErrorCode.kafka_storage_error and not header.is_transactional:
                # A partition accepts any first batch of a producer. Wait for the retry of this one.
                self.transactions.verify(header, starts_at_zero=False)
            raise
        self._remember_batch(header, result)
        return result

    def is_ongoing(self, header: BatchHeader) -> bool:
        """Return True if this partition already has records of a batch's transaction."""
        entry = self.producers.entries.get(header.producer_id)
        is_open = header.producer_id in self.transactions.ongoing
        return is_open and entry is not None and entry.epoch == header.producer_epoch

    def marker_error(self, marker: EndTransactionMarker, *, is_v2: bool) -> ErrorCode:
        """Return an error if a marker of a client has an old epoch.

        With transactions V2, its epoch must be newer than that of the transaction's records.
        """
        entry = self.producers.entries.get(marker.producer_id)
        if entry is None:
            return ErrorCode.none
        is_open = marker.producer_id in self.transactions.ongoing
        if marker.epoch < entry.epoch or (is_v2 and is_open and marker.epoch == entry.epoch):
            return ErrorCode.invalid_producer_epoch
        is_fenced = marker.coordinator_epoch < entry.coordinator_epoch
        return ErrorCode.transaction_coordinator_fenced if is_fenced else ErrorCode.none

    def end_transaction(self, marker: EndTransactionMarker, now_ms: int) -> None:
        """Append a transaction marker; `now_ms` is in milliseconds since 1970."""
        batch = encode_control_batch(marker, now_ms)
        options = log_validator.AppendOptions(config=self.config, produce_version=0, now_ms=now_ms)
        result = self._append_to_log(batch, BatchHeader.parse(batch), options)
        lacks_batches = self.log.start_offset > 0
        self._apply_marker(marker, result.base_offset, now_ms, lacks_batches=lacks_batches)
        self.transactions.drop_replicated(self.high_watermark)

    def replay(self, batch: memoryview | bytes) -> None:
        """Restore producer and transaction state from a batch in the log.

        For a data batch, the header is sufficient. A control batch must be complete.
        """
        header = BatchHeader.parse(batch)
        if header.producer_id < 0:
            return
        if not header.is_control:
            time = header.max_timestamp if header.is_log_append_time else _NO_TIME
            result = AppendResult(base_offset=header.base_offset, append_time=time)
            self._remember_batch(header, result)
        elif marker := read_marker(batch, header):
            self._apply_marker(marker, header.base_offset, header.max_timestamp, lacks_batches=True)

    def recover(self, load: Callable[[OnBatch], LogStorage], start_offset: int) -> None:
        """Open a log that was stored before a restart, and restore the state from its batches.

        Afterwards, all replicas are at the end of the log, because they share the log.

        Args:
            load: opens the log, and calls its argument with each batch.
            start_offset: the first offset that can be read.
        """
        epochs = LeaderEpochCache()

        def on_batch(header: BatchHeader, batch: memoryview) -> None:
            epochs.assign(header.leader_epoch, header.base_offset)
            self.replay(batch)

        storage = load(on_batch)
        if storage.end_offset < start_offset:
            self._restart_log(storage, start_offset)
            epochs = LeaderEpochCache()
        self.log = UnifiedLog(storage, epochs)
        self.log.delete_records(start_offset)
        self.replica_states.begin(self.log.end_offset)
        for node in self.replicas:
            self.replica_states.ends[node] = self.log.end_offset
        self.transactions.drop_replicated(self.high_watermark)

    def expire_producers(self) -> None:
        """Delete the state of idle producer ids; see `ProducerStateManager.expire`."""
        self.producers.expire(self.transactions.ongoing)
        self.transactions.expire_verifications()

    def forget_producers(self) -> None:
        """Delete the producer and transaction state."""
        self.producers = ProducerStateManager()
        self.transactions = LogTransactions()

    def leadership_error(self, node: int, epoch: int) -> ErrorCode:
        """Return an error if `node` is not the leader at the client's leader epoch (KIP-320).

        A negative `epoch` is not checked.
        """
        if node != self.leader:
            return ErrorCode.not_leader_or_follower
        if epoch < 0 or epoch == self.leader_epoch:
            return ErrorCode.none
        is_fenced = epoch < self.leader_epoch
        return ErrorCode.fenced_leader_epoch if is_fenced else ErrorCode.unknown_leader_epoch

    def _check_transaction(self, header: BatchHeader, verdict: ErrorCode) -> ErrorCode:
        """Return an error if a batch is not allowed in the transaction of its producer."""
        if verdict:
            return verdict
        pending = self.transactions.verifying.get(header.producer_id)
        if pending is not None and not pending.admits(header, self.producers):
            return ErrorCode.out_of_order_sequence_number
        is_mixed = not header.is_transactional and header.producer_id in self.transactions.ongoing
        return ErrorCode.invalid_txn_state if is_mixed else ErrorCode.none

    def _remember_batch(self, header: BatchHeader, result: AppendResult) -> None:
        time = header.max_timestamp if result.append_time == _NO_TIME else result.append_time
        self.producers.remember(header, result.base_offset, time)
        self.transactions.verifying.pop(header.producer_id, None)
        if header.is_transactional:
            self.transactions.begin(header.producer_id, result.base_offset)

    def _apply_marker(
        self, marker: EndTransactionMarker, offset: int, time_ms: int, *, lacks_batches: bool
    ) -> None:
        self.producers.end_transaction(marker, offset, time_ms, lacks_batches=lacks_batches)
        self.transactions.verifying.pop(marker.producer_id, None)
        self.transactions.end(marker.producer_id, offset, commit=marker.is_commit)
        self.transactions.forget_before(self.log.start_offset)

    def _restart_log(self, storage: LogStorage, start_offset: int) -> None:
        """Continue a log at its start offset if the log ends below it (Kafka's LogLoader).

        Offsets before the start offset cannot be read, so records appended there would be lost.
        """
        _LOG.warning(
            "%s-%d is damaged: its log ends at offset %d, before its start offset %d; continuing "
            "at the start offset",
            self.topic,
            self.index,
            storage.end_offset,
            start_offset,
        )
        storage.restart_at(start_offset)
        self.forget_producers()

    def _append_to_log(
        self, records: memoryview | bytes, header: BatchHeader, options: log_validator.AppendOptions
    ) -> AppendResult:
        records, header = log_validator.recompress_records(records, header, options.config)
        time = options.now_ms if options.config.stamps_records else None
        with _storage_errors(), log_validator.rejected_as(ErrorCode.corrupt_message):
            base = self.log.append(records, header, self.leader_epoch, time)
        self.log.storage.drop_surplus(self.high_watermark)
        return AppendResult(base_offset=base, append_time=_NO_TIME if time is None else time)


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Raise a RejectedBatchError with KAFKA_STORAGE_ERROR for a failure of the storage."""
    try:
        yield
    except OSError as error:
        raise log_validator.RejectedBatchError(ErrorCode.kafka_storage_error, str(error)) from error


def _sequence_message(partition: Partition, header: BatchHeader) -> str:
    sent = (
        f"Producer {header.producer_id} of epoch {header.producer_epoch} sent sequence "
        f"{header.base_sequence} to {partition.topic}-{partition.index}"
    )
    entry = partition.producers.entries.get(header.producer_id)
    if entry is None:
        return sent
    return f"{sent}, which is at epoch {entry.epoch}, sequence {entry.last_sequence}"
