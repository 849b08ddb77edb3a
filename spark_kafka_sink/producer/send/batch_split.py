"""Rejected records: split batches, dead letters and retries (KIP-467).

A batch is split if it is too large for a broker. The pieces keep the batch's sequences: they
contain the same records, so batches sent later remain valid. If a broker rejects some records of a
batch, these records become dead letters and the other records are sent again.

Rejections are rare, so records may be processed one by one here. Source: ``ProducerBatch.split``,
KIP-467.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.client.cluster_snapshot import UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.records import decoder, encoder
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, NO_SEQUENCE, BatchHeader
from spark_kafka_sink.producer.append.planner import BatchLimits, plan, ranges_within
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.dead_letter import HEADER_LISTS, is_letter
from spark_kafka_sink.producer.row_error import TOPIC_ROW_ERRORS, RowError
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.send.batch_failure import too_large

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.enums import Codec
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.kafka.records.decoder import Record
    from spark_kafka_sink.producer.acl import AclAdvisor
    from spark_kafka_sink.producer.bad_rows import BadRows
    from spark_kafka_sink.producer.dead_letter import DeadLetterTopic
    from spark_kafka_sink.producer.rows import RowNumbers
    from spark_kafka_sink.producer.send.partition_state import PartitionState


def split(batch: ProducerBatch, size: int, level: int | None) -> list[ProducerBatch]:
    """Return batches of at most `size` bytes before compression, headers included.

    A larger record gets its own batch; a batch of one record cannot be split. The result has at
    least two batches if `size` is at most half of the batch (see `half`).
    """
    sequence, rows = batch.sequence, batch.row_numbers()
    whole = b"".join(bytes(part) for part in batch.encode())
    header = BatchHeader.parse(whole)
    columns, sizes = decoder.read_rows(decoder.records_section(whole, header), header)
    layout = plan(np.zeros(batch.records, np.int8), sizes, 0, lambda _: None, BatchLimits(size))
    pieces = []
    for number, (_, start, stop, *_) in enumerate(layout.segments):
        piece = closed_batch(batch.partition, batch.created, columns.slice(start, stop))
        piece.rows = [None if rows is None else rows.slice(start, stop)]
        piece.label, piece.order = (*batch.label, number), (*batch.order, number)
        piece.ambiguous = batch.ambiguous
        if sequence != NO_SEQUENCE:
            piece.number(batch.producer_id, batch.epoch, sequence)
            sequence = piece.next_sequence
        recompress(piece, batch.codec, level)
        pieces.append(piece)
    return pieces


def records_of(batch: ProducerBatch) -> list[Record]:
    """Return the records of a batch as objects."""
    return list(decoder.read_records(b"".join(bytes(part) for part in batch.encode())))


def recompress(piece: ProducerBatch, codec: Codec, level: int | None) -> None:
    """Compress a piece with the codec of its batch, unless compression makes the piece larger."""
    if not codec:
        return
    payload = compress(codec, bytes(piece.parts[0]), level)
    if len(payload) < piece.held:
        piece.hold([payload])
        piece.codec = codec


def piece_of(batch: ProducerBatch, records: list[Record]) -> ProducerBatch:
    """Return an uncompressed batch of some of a batch's records, without a sequence."""
    return closed_batch(batch.partition, batch.created, columns_of(records))


def closed_batch(partition: TopicPartition, created: float, columns: Columns) -> ProducerBatch:
    """Return a batch of these rows that is ready to be sent; the rows must have timestamps."""
    stamps = columns.timestamps
    assert stamps is not None
    base = int(stamps[0])
    piece = ProducerBatch(partition, created, base, base, ready=True)
    encoded = encoder.encode_records(
        columns, np.arange(len(columns), dtype=np.int32), stamps - base
    )
    piece.add(encoder.slice_records(encoded, 0, len(columns)), len(columns), int(stamps.max()))
    return piece


def columns_of(records: list[Record]) -> Columns:
    """Convert records to columns."""
    return Columns(
        value=pa.array([record.value for record in records], pa.binary()),
        key=pa.array([record.key for record in records], pa.binary()),
        headers=encoder.encode_headers(header_lists(records)),
        timestamps=np.array([record.timestamp for record in records], np.int64),
    )


def header_lists(records: list[Record]) -> pa.ListArray[Any]:
    """Return the records' headers as a column of lists."""
    lists = pa.array([_headers(record) for record in records], HEADER_LISTS)
    return cast("pa.ListArray[Any]", lists)


def _headers(record: Record) -> list[dict[str, bytes | None]]:
    return [{"key": key.encode(), "value": value} for key, value in record.headers]


class RejectionCause(Enum):
    """The cause of a rejected batch: some records, the topic, or something else."""

    RECORDS = auto()
    """Some records are the cause; the partition and the broker work."""
    TOPIC = auto()
    """The topic is the cause; the broker works."""
    OTHER = auto()


class Answer(NamedTuple):
    """The broker's response to a batch, or the reason why there is none, and the partition."""

    state: PartitionState
    batch: ProducerBatch
    response: PartitionResponse

    @property
    def error(self) -> str:
        """The name of the error."""
        return error_name(self.response.code)

    @property
    def fault(self) -> RejectionCause:
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
    def refused(self) -> set[int]:
        """The indexes of the records listed in the response; all if the topic is the cause."""
        if self.fault is RejectionCause.TOPIC:
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

    def remedy(self, answer: Answer) -> Remedy | ProducerBatch:
        """Return the remedy for a permanently failed batch, if errors are tolerated.

        If a dead letter is rejected because of its size or timestamp, return the batch to send
        instead; dead letters rejected for other reasons have no remedy. An ambiguous batch has no
        remedy either, because its records may have been appended before the rejection.
        """
        letters, batch, fault = self.dead_letters, answer.batch, answer.fault
        if batch.ambiguous or not self.bad_rows.policy.tolerant or fault is RejectionCause.OTHER:
            return Remedy.NONE
        if letters is not None and batch.partition.topic == letters.name:
            return self._corrected(answer, letters) or Remedy.NONE
        if fault is RejectionCause.TOPIC or batch.records == 1 or answer.refused:
            return Remedy.SET_ASIDE
        return Remedy.HALVE

    def divide(self, answer: Answer) -> tuple[list[ProducerBatch], list[Record]]:
        """Remove the rejected records; return the remaining batch, and the rejected records.

        The first element is a list with one batch without a sequence, or an empty list if no
        records remain.
        """
        batch = answer.batch
        records = records_of(batch)
        bad = answer.refused or set(range(len(records)))
        refused = [record for index, record in enumerate(records) if index in bad]
        kept = [record for index, record in enumerate(records) if index not in bad]
        self._count(answer, len(refused))
        if not kept:
            return [], refused
        rest = piece_of(batch, kept)
        rest.rows = [_without(batch.row_numbers(), bad)]
        rest.label, rest.order, rest.attempts = batch.label, batch.order, batch.attempts
        recompress(rest, batch.codec, self.config.compression_level)
        return [rest], refused

    def letters(self, answer: Answer, refused: list[Record]) -> list[ProducerBatch]:
        """Return dead letters for the rejected records, in batches.

        The list is empty if there is no dead letter topic.
        """
        topic, batch = self.dead_letters, answer.batch
        if topic is None:
            return []
        if answer.response.code == ErrorCode.invalid_timestamp:
            refused = self._with_current_time(refused)
        rows = Rows(
            columns=columns_of(refused),
            topics=(batch.partition.topic,),
            partition=_assigned_partitions(batch.partition.partition, len(refused)),
            header_lists=header_lists(refused),
        )
        general = self._message(answer)
        texts = dict(answer.response.record_errors)
        named = sorted(answer.refused & texts.keys())
        details = [texts[index] or general for index in named] or [general] * len(refused)
        errors = np.full(len(refused), answer.row_error, np.int8)
        letter_rows = topic.letters(rows, errors, details)
        partition = TopicPartition(topic.name, UNASSIGNED)
        sizes = encoder.size_bounds(letter_rows.columns)
        bounds = ranges_within(sizes, self.config.batch_size - HEADER_SIZE)
        letters = [
            closed_batch(partition, batch.created, letter_rows.columns.slice(start, stop))
            for start, stop in bounds
        ]
        for letter in letters:
            recompress(letter, batch.codec, self.config.compression_level)
        return letters

    def _corrected(self, answer: Answer, letters: DeadLetterTopic) -> ProducerBatch | None:
        """Return rejected dead letters in a corrected batch; None if correction is impossible."""
        batch, code = answer.batch, answer.response.code
        if code == ErrorCode.invalid_timestamp:
            return self._restamped(answer)
        if code not in error_codes.RECORDS_TOO_LARGE or batch.records > 1:
            return None
        record = letters.smaller(records_of(batch)[0])
        return None if record is None else self._replacement(batch, [record])

    def _restamped(self, answer: Answer) -> ProducerBatch | None:
        """Return dead letters with the current time as timestamp; None if it was also rejected."""
        if answer.batch.restamped:
            return None
        records = records_of(answer.batch)
        wrong = answer.refused or set(range(len(records)))
        if not all(is_letter(records[index]) for index in wrong):
            return None
        stamped = enumerate(zip(records, self._with_current_time(records), strict=True))
        mixed = [now if index in wrong else old for index, (old, now) in stamped]
        piece = self._replacement(answer.batch, mixed)
        piece.restamped = True
        return piece

    def _replacement(self, batch: ProducerBatch, records: list[Record]) -> ProducerBatch:
        """Return a batch with the sequences of `batch`, which has the same number of records."""
        piece = piece_of(batch, records)
        piece.label, piece.order = (*batch.label, 0), (*batch.order, 0)
        piece.number(batch.producer_id, batch.epoch, batch.sequence)
        recompress(piece, batch.codec, self.config.compression_level)
        return piece

    def _with_current_time(self, records: list[Record]) -> list[Record]:
        """Return the records with the current time as timestamp."""
        now = self.clock.wall_ms()
        return [replace(record, timestamp=now) for record in records]

    def _message(self, answer: Answer) -> str:
        """Return the broker's message; if an ACL is missing, also a hint."""
        message, code = answer.response.message or "", answer.response.code
        if code not in error_codes.AUTHORIZATION_FAILED:
            return message
        hint = self.acls.hint(code, answer.batch.partition.topic)
        return f"{message}; {hint}" if message else hint

    def _count(self, answer: Answer, count: int) -> None:
        batch, response = answer.batch, answer.response
        texts = [text or answer.error for _, text in response.record_errors]
        if response.code in error_codes.RECORDS_TOO_LARGE and count == batch.records == 1:
            texts = [too_large(batch, response)]
        examples = [
            f"{batch.partition}: {text}"
            for text in texts or [self._message(answer) or answer.error]
        ]
        self.bad_rows.refused(answer.row_error, count, examples)


def _assigned_partitions(partition: int, count: int) -> pa.Int32Array:
    """Return the partition of each rejected record; null if unassigned."""
    return pa.array([None if partition == UNASSIGNED else partition] * count, pa.int32())


def _without(rows: RowNumbers | None, bad: set[int]) -> RowNumbers | None:
    """Return the row numbers of the records that are not bad."""
    if rows is None:
        return None
    return rows._replace(numbers=np.delete(np.asarray(rows.numbers), sorted(bad)))
