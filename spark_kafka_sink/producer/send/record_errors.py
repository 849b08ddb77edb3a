"""Handle rejected records: dead letters, retries of the other records, and splits.

If a broker rejects some records of a batch, these records become dead letters and the other records
are sent again. Rejections are rare, so records may be processed one by one here.

Source: KIP-467.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.records import record_encoder
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.producer.append.batch_layout import ranges_within
from spark_kafka_sink.producer.dead_letter import DeadLetterTopic, is_letter
from spark_kafka_sink.producer.row_error import TOPIC_ROW_ERRORS, RowError
from spark_kafka_sink.producer.rows import RowNumbers, Rows
from spark_kafka_sink.producer.send.batch_failure import too_large
from spark_kafka_sink.producer.send.batch_split import (
    closed_batch,
    columns_of,
    header_lists,
    piece_of,
    recompress,
    records_of,
)

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.kafka.records.record_decoder import Record
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.bad_rows import BadRows
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.partition_state import PartitionState


class RejectionCause(Enum):
    """The cause of a rejected batch: some records, the topic, or something else."""

    RECORDS = auto()
    """Some records are the cause; the partition and the broker work."""
    TOPIC = auto()
    """The topic is the cause; the broker works."""
    OTHER = auto()


class BatchResult(NamedTuple):
    """The broker's response to a batch, or the reason why there is none, and the partition."""

    state: PartitionState
    batch: ProducerBatch
    response: PartitionResponse

    @property
    def error(self) -> str:
        """The name of the error."""
        return error_name(self.response.code)

    @property
    def cause(self) -> RejectionCause:
        """The cause of the rejection."""
        if self.response.record_errors or self.response.code in error_codes.INVALID_RECORDS:
            return RejectionCause.RECORDS
        return (
            RejectionCause.TOPIC if self.response.code in TOPIC_ROW_ERRORS else RejectionCause.OTHER
        )

    @property
    def row_error(self) -> RowError:
        """The error of each rejected record."""
        if self.response.code in error_codes.RECORDS_TOO_LARGE:
            return RowError.OVERSIZED
        return TOPIC_ROW_ERRORS.get(self.response.code, RowError.REFUSED)

    @property
    def rejected(self) -> set[int]:
        """The indexes of the records listed in the response; all if the topic is the cause."""
        if self.cause is RejectionCause.TOPIC:
            return set(range(self.batch.records))
        errors = self.response.record_errors
        return {index for index, _ in errors if 0 <= index < self.batch.records}


class Remedy(Enum):
    """The next step after a rejected batch."""

    NONE = auto()
    """No remedy: the task fails."""
    SET_ASIDE = auto()
    """The rejected records are known and become dead letters; the others are retried."""
    HALVE = auto()
    """The rejected records are unknown: the batch is halved until each bad record is isolated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordErrorHandler:
    """Decides how to handle rejected records, and separates them from their batch.

    Sender thread only. The records are counted in `BadRows`, which has its own lock.
    """

    config: ProducerConfig
    clock: Clock
    bad_rows: BadRows
    dead_letters: DeadLetterTopic | None
    acls: AclAdvisor

    def remedy(self, result: BatchResult) -> Remedy | ProducerBatch:
        """Return the remedy for a permanently failed batch, if errors are tolerated.

        If a dead letter is rejected because of its size or timestamp, return the batch to send
        instead; dead letters rejected for other reasons have no remedy. An ambiguous batch has no
        remedy either, because its records may have been appended before the rejection.
        """
        letters, batch, cause = self.dead_letters, result.batch, result.cause
        if batch.is_ambiguous or not self.bad_rows.policy.tolerant or cause is RejectionCause.OTHER:
            return Remedy.NONE
        if letters is not None and batch.topic_partition.topic == letters.name:
            return self._corrected(result, letters) or Remedy.NONE
        if cause is RejectionCause.TOPIC or batch.records == 1 or result.rejected:
            return Remedy.SET_ASIDE
        return Remedy.HALVE

    def divide(self, result: BatchResult) -> tuple[list[ProducerBatch], list[Record]]:
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
        remaining = piece_of(batch, kept, _without(batch.row_numbers(), bad))
        remaining.take_place_of(batch)
        recompress(remaining, batch.codec, self.config.compression_level)
        return [remaining], rejected

    def letters(self, result: BatchResult, rejected: list[Record]) -> list[ProducerBatch]:
        """Return dead letters for the rejected records, in batches.

        The list is empty if there is no dead letter topic.
        """
        topic, batch = self.dead_letters, result.batch
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
        letter_rows = topic.letters(rows, errors, details)
        topic_partition = TopicPartition(topic.name, UNASSIGNED)
        sizes = record_encoder.size_bounds(letter_rows.columns)
        bounds = ranges_within(sizes, self.config.batch_size - HEADER_SIZE)
        letters = [
            closed_batch(topic_partition, batch.created_at, letter_rows.columns.slice(start, stop))
            for start, stop in bounds
        ]
        for letter in letters:
            recompress(letter, batch.codec, self.config.compression_level)
        return letters

    def _corrected(self, result: BatchResult, letters: DeadLetterTopic) -> ProducerBatch | None:
        """Return rejected dead letters in a corrected batch; None if correction is impossible."""
        batch, code = result.batch, result.response.code
        if code == ErrorCode.invalid_timestamp:
            return self._restamped(result)
        if code not in error_codes.RECORDS_TOO_LARGE or batch.records > 1:
            return None
        record = letters.smaller(records_of(batch)[0])
        return None if record is None else self._replacement(batch, [record])

    def _restamped(self, result: BatchResult) -> ProducerBatch | None:
        """Return dead letters with the current time as timestamp; None if it was also rejected."""
        if result.batch.is_restamped:
            return None
        records = records_of(result.batch)
        wrong = result.rejected or set(range(len(records)))
        if not all(is_letter(records[index]) for index in wrong):
            return None
        stamped = enumerate(zip(records, self._with_current_time(records), strict=True))
        mixed = [now if index in wrong else old for index, (old, now) in stamped]
        return replace(self._replacement(result.batch, mixed), is_restamped=True)

    def _replacement(self, batch: ProducerBatch, records: list[Record]) -> ProducerBatch:
        """Return a batch with the sequences of `batch`, which has the same number of records."""
        piece = piece_of(batch, records)
        piece.take_place_of(batch, 0)
        piece.number(batch.producer_id, batch.epoch, batch.sequence)
        recompress(piece, batch.codec, self.config.compression_level)
        return piece

    def _with_current_time(self, records: list[Record]) -> list[Record]:
        """Return the records with the current time as timestamp."""
        now = self.clock.wall_ms()
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
        self.bad_rows.count_rejected(result.row_error, count, examples)


def _assigned_partitions(partition: int, count: int) -> pa.Int32Array:
    """Return the partition of each rejected record; null if unassigned."""
    return pa.array([None if partition == UNASSIGNED else partition] * count, pa.int32())


def _without(rows: RowNumbers | None, bad: set[int]) -> RowNumbers | None:
    """Return the row numbers of the records that are not bad."""
    if rows is None:
        return None
    return rows._replace(numbers=np.delete(np.asarray(rows.numbers), sorted(bad)))
