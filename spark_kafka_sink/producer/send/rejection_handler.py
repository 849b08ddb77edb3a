"""Handle batches that brokers have rejected permanently.

If errors are tolerated, the rejected records become dead letters and the other records are sent
again; otherwise the batch and the session fail. Rejections are rare, so records may be processed
one by one here.

Source: KIP-467.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.client.size_limits import half
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.records import record_encoder
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.producer.buffer.batch_layout import ranges_within
from spark_kafka_sink.producer.dead_letter import DeadLetterTopic, is_letter
from spark_kafka_sink.producer.rows import RowNumbers, Rows
from spark_kafka_sink.producer.send.batch_completer import status_of
from spark_kafka_sink.producer.send.batch_failure import batch_error, too_large
from spark_kafka_sink.producer.send.batch_result import BatchResult, RejectionCause
from spark_kafka_sink.producer.send.batch_split import (
    closed_batch,
    columns_of,
    header_lists,
    piece_of,
    recompress,
    records_of,
    split,
)
from spark_kafka_sink.producer.send.partition_state import PartitionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.delivery_status import DeliveryStatus
    from spark_kafka_sink.kafka.client.client import Client
    from spark_kafka_sink.kafka.records.record_decoder import Record
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.bad_rows import BadRowCounter
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
    from spark_kafka_sink.producer.send.session_outcome import SessionOutcome
    from spark_kafka_sink.producer.send.session_partitions import SessionPartitions

_DENIED = PartitionResponse(code=ErrorCode.topic_authorization_failed)
_CORRECTABLE = error_codes.RECORDS_TOO_LARGE | {ErrorCode.invalid_timestamp}


class Remedy(Enum):
    """The next step after a rejected batch."""

    NONE = auto()
    """No remedy: the task fails."""
    REMOVE_REJECTED = auto()
    """The rejected records are known and become dead letters; the others are retried."""
    HALVE = auto()
    """The rejected records are unknown: the batch is halved until each bad record is isolated."""
    CORRECT = auto()
    """The rejected records are dead letters, which are shrunk or get the current time, if possible.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RejectionHandler:
    """Separates rejected records from their batch, or fails the batch and the session.

    Sender thread only. The records are counted in `BadRowCounter`, which has its own lock.
    """

    client: Client
    partitions: SessionPartitions
    completer: BatchCompleter
    outcome: SessionOutcome
    bad_rows: BadRowCounter
    dead_letter_topic: DeadLetterTopic | None
    acls: AclAdvisor

    def repair(self, result: BatchResult) -> bool:
        """Separate the rejected records if errors are tolerated; return False without a remedy."""
        match self._choose_remedy(result):
            case Remedy.NONE:
                return False
            case Remedy.REMOVE_REJECTED:
                self._remove_rejected(result)
            case Remedy.HALVE:
                self.split(result, half(result.batch.raw_size))
            case Remedy.CORRECT:
                replacement = self._corrected(result)
                if replacement is None:
                    return False
                self.completer.replace(result, [replacement])
        return True

    def fail(self, result: BatchResult, status: DeliveryStatus) -> None:
        """Fail the batch and the session."""
        state, batch, response = result
        transactional = self.outcome.is_transactional
        error = batch_error(batch, response, self.acls, transactional=transactional)
        state.remove(batch)
        self.completer.fail(batch, status, result.error)
        self.outcome.fail(error)

    def split(self, result: BatchResult, size: int) -> None:
        """Send the batch again in batches of at most `size` bytes before compression."""
        pieces = split(result.batch, size, self.client.config.compression_level)
        self.completer.replace(result, pieces, split_size=size)

    def reject_unauthorized(self, topics: frozenset[str]) -> None:
        """Reject the waiting batches of topics that the metadata reports as unauthorized."""
        self._reject_waiting(topics, self.acls.topic_error)

    def reject_unwritable(self, topics: frozenset[str]) -> None:
        """Reject the waiting batches of topics that the coordinator does not allow to write to."""
        self._reject_waiting(topics, self.acls.write_error)

    def _reject_waiting(
        self, topics: frozenset[str], topic_error: Callable[[str], DeliveryError]
    ) -> None:
        """Treat waiting batches as if the leaders of their partitions had rejected them.

        Batches in flight wait for their responses; batches being compressed wait for the next
        metadata.
        """

        def is_rejected(batch: ProducerBatch) -> bool:
            return batch.topic_partition.topic in topics and batch.is_ready

        for batch in self.partitions.take_waiting(is_rejected):
            topic_partition = batch.topic_partition
            state = self.partitions.get(topic_partition) or PartitionState(topic_partition)
            result = BatchResult(state, batch, _DENIED)
            if self._choose_remedy(result) is Remedy.REMOVE_REJECTED:
                self._remove_rejected(result)
                continue
            self.completer.fail(batch, status_of(batch), result.error)
            self.outcome.fail(topic_error(topic_partition.topic))

    def _remove_rejected(self, result: BatchResult) -> None:
        """Convert the rejected records to dead letters, and retry the other records.

        If too many rows are bad, fail the session.
        """
        remaining, rejected = self._split_off_rejected(result)
        letters = self._dead_letter_batches(result, rejected)
        try:
            self.bad_rows.check_ratio()
        except DeliveryError as error:
            self.outcome.fail(error)
        self.completer.remove_rejected(result, remaining, letters)

    def _choose_remedy(self, result: BatchResult) -> Remedy:
        """Return the remedy for a permanently failed batch, if errors are tolerated.

        Dead letters are corrected if they are rejected because of their size or timestamp; for
        other reasons, they have no remedy. A possibly persisted batch has no remedy either, because
        its records may have been appended before the rejection.
        """
        topic, batch, cause = self.dead_letter_topic, result.batch, result.cause
        is_tolerated = self.bad_rows.policy.is_tolerant and cause is not RejectionCause.OTHER
        if batch.delivery.is_possibly_persisted or not is_tolerated:
            return Remedy.NONE
        if topic is not None and batch.topic_partition.topic == topic.name:
            return Remedy.CORRECT if result.response.code in _CORRECTABLE else Remedy.NONE
        if cause is RejectionCause.TOPIC or batch.records == 1 or result.rejected:
            return Remedy.REMOVE_REJECTED
        return Remedy.HALVE

    def _split_off_rejected(self, result: BatchResult) -> tuple[list[ProducerBatch], list[Record]]:
        """Remove the rejected records; return the remaining batch, and the rejected records.

        The first element is a list with one batch without a sequence, or an empty list if no
        records remain.
        """
        batch = result.batch
        records = records_of(batch)
        bad = result.rejected or set(range(len(records)))
        rejected = [record for index, record in enumerate(records) if index in bad]
        kept = [record for index, record in enumerate(records) if index not in bad]
        self._count(result, len(rejected))
        if not kept:
            return [], rejected
        remaining = piece_of(batch, kept, _row_numbers_without(batch.row_numbers(), bad))
        remaining.inherit_position(batch)
        recompress(remaining, batch.codec, self.client.config.compression_level)
        return [remaining], rejected

    def _dead_letter_batches(
        self, result: BatchResult, rejected: list[Record]
    ) -> list[ProducerBatch]:
        """Return dead letters for the rejected records, in batches.

        The list is empty if there is no dead letter topic.
        """
        topic, batch = self.dead_letter_topic, result.batch
        if topic is None:
            return []
        if result.response.code == ErrorCode.invalid_timestamp:
            rejected = self._with_current_time(rejected)
        rows = Rows(
            columns=columns_of(rejected),
            topics=(batch.topic_partition.topic,),
            partition=_assigned_partitions(batch.topic_partition.partition, len(rejected)),
            header_lists=header_lists(rejected),
        )
        general = self._message(result)
        texts = dict(result.response.record_errors)
        named = sorted(result.rejected & texts.keys())
        details = [texts[index] or general for index in named] or [general] * len(rejected)
        errors = np.full(len(rejected), result.row_error, np.int8)
        letter_rows = topic.to_dead_letters(rows, errors, details)
        topic_partition = TopicPartition(topic.name, UNASSIGNED)
        sizes = record_encoder.size_bounds(letter_rows.columns)
        bounds = ranges_within(sizes, self.client.config.batch_size - HEADER_SIZE)
        letters = [
            closed_batch(topic_partition, batch.created_at, letter_rows.columns.slice(start, stop))
            for start, stop in bounds
        ]
        for letter in letters:
            recompress(letter, batch.codec, self.client.config.compression_level)
        return letters

    def _corrected(self, result: BatchResult) -> ProducerBatch | None:
        """Return rejected dead letters in a corrected batch; None if correction is impossible."""
        if result.response.code == ErrorCode.invalid_timestamp:
            return self._restamp(result)
        topic, batch = self.dead_letter_topic, result.batch
        if topic is None or batch.records > 1:
            return None
        record = topic.shrink(records_of(batch)[0])
        return None if record is None else self._replacement(batch, [record])

    def _restamp(self, result: BatchResult) -> ProducerBatch | None:
        """Return dead letters with the current time as timestamp; None if it was also rejected."""
        if result.batch.delivery.is_restamped:
            return None
        records = records_of(result.batch)
        wrong = result.rejected or set(range(len(records)))
        if not all(is_letter(records[index]) for index in wrong):
            return None
        stamped = enumerate(zip(records, self._with_current_time(records), strict=True))
        mixed = [now if index in wrong else old for index, (old, now) in stamped]
        replacement = self._replacement(result.batch, mixed)
        replacement.delivery.is_restamped = True
        return replacement

    def _replacement(self, batch: ProducerBatch, records: list[Record]) -> ProducerBatch:
        """Return a batch with the sequences of `batch`, which has the same number of records."""
        piece = piece_of(batch, records)
        piece.inherit_position(batch, 0)
        piece.set_sequence(batch.producer_id, batch.epoch, batch.sequence)
        recompress(piece, batch.codec, self.client.config.compression_level)
        return piece

    def _with_current_time(self, records: list[Record]) -> list[Record]:
        """Return the records with the current time as timestamp."""
        now = self.client.clock.wall_ms()
        return [replace(record, timestamp=now) for record in records]

    def _message(self, result: BatchResult) -> str:
        """Return the broker's message; if an ACL is missing, also a hint."""
        message, code = result.response.message or "", result.response.code
        if code not in error_codes.AUTHORIZATION_FAILED:
            return message
        hint = self.acls.hint(code, result.batch.topic_partition.topic)
        return f"{message}; {hint}" if message else hint

    def _count(self, result: BatchResult, count: int) -> None:
        batch, response = result.batch, result.response
        texts = [text or result.error for _, text in response.record_errors]
        if response.code in error_codes.RECORDS_TOO_LARGE and count == batch.records == 1:
            texts = [too_large(batch, response)]
        examples = [
            f"{batch.topic_partition}: {text}"
            for text in texts or [self._message(result) or result.error]
        ]
        self.bad_rows.count_error(result.row_error, count, examples)


def _assigned_partitions(partition: int, count: int) -> pa.Int32Array:
    """Return the partition of each rejected record; null if unassigned."""
    return pa.array([None if partition == UNASSIGNED else partition] * count, pa.int32())


def _row_numbers_without(row_numbers: RowNumbers | None, bad: set[int]) -> RowNumbers | None:
    """Return the row numbers of the records that are not bad."""
    if row_numbers is None:
        return None
    return row_numbers._replace(numbers=np.delete(np.asarray(row_numbers.numbers), sorted(bad)))
