"""Batches of dead letters for records that brokers have rejected.

Rejections are rare, so records are processed one by one here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.records import record_encoder
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.producer.bad_rows.dead_letter import DeadLetterTopic, is_letter
from spark_kafka_sink.producer.buffer.batch_layout import ranges_within
from spark_kafka_sink.producer.rows import Rows
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
    from spark_kafka_sink.kafka.records.record_decoder import Record
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.batch_result import BatchResult


@dataclass(frozen=True, slots=True, eq=False)
class DeadLetterBatches:
    """Builds the batches for the dead letter topic of one session; sender thread only."""

    config: ProducerConfig
    clock: Clock
    topic: DeadLetterTopic

    def build(
        self, result: BatchResult, rejected: list[Record], message: str
    ) -> list[ProducerBatch]:
        """Return dead letters for the rejected records, in batches.

        `message` describes the errors of records for which the response contains no text.
        """
        topic, batch = self.topic, result.batch
        if result.response.code == ErrorCode.invalid_timestamp:
            rejected = self._with_current_time(rejected)
        rows = Rows(
            columns=columns_of(rejected),
            topics=(batch.topic_partition.topic,),
            partition=_assigned_partitions(batch.topic_partition.partition, len(rejected)),
            header_lists=header_lists(rejected),
        )
        texts = dict(result.response.record_errors)
        explained = sorted(result.rejected & texts.keys())
        details = [texts[index] or message for index in explained] or [message] * len(rejected)
        errors = np.full(len(rejected), result.row_error, np.int8)
        letter_rows = topic.to_dead_letters(rows, errors, details)
        topic_partition = TopicPartition(topic.name, UNASSIGNED)
        sizes = record_encoder.size_bounds(letter_rows.columns)
        bounds = ranges_within(sizes, self.config.batch_size - HEADER_SIZE)
        batches = [
            closed_batch(topic_partition, batch.created_at, letter_rows.columns.slice(start, stop))
            for start, stop in bounds
        ]
        for dead_letter_batch in batches:
            recompress(dead_letter_batch, batch.codec, self.config.compression_level)
        return batches

    def correct(self, result: BatchResult) -> ProducerBatch | None:
        """Return rejected dead letters in a corrected batch; None if correction is impossible."""
        if result.response.code == ErrorCode.invalid_timestamp:
            return self._restamp(result)
        if result.batch.records > 1:
            return None
        record = self.topic.shrink(records_of(result.batch)[0])
        return None if record is None else self._replacement(result.batch, [record])

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
        recompress(piece, batch.codec, self.config.compression_level)
        return piece

    def _with_current_time(self, records: list[Record]) -> list[Record]:
        """Return the records with the current time as timestamp."""
        now = self.clock.wall_ms()
        return [replace(record, timestamp=now) for record in records]


def _assigned_partitions(partition: int, count: int) -> pa.Int32Array:
    """Return the partition of each rejected record; null if unassigned."""
    return pa.array([None if partition == UNASSIGNED else partition] * count, pa.int32())
