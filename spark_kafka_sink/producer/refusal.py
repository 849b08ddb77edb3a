"""Records that a broker refuses one by one: dead letters, while the rest of their batch goes again.

Rare, so records may be handled one by one here. Source: KIP-467 (record errors).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.producer.batch import UNDESIGNATED, ProducerBatch, TopicPartition
from spark_kafka_sink.producer.flaws import Flaw
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.split import (
    closed_batch,
    columns_of,
    header_lists,
    piece_of,
    recompress,
    records_of,
)

if TYPE_CHECKING:
    from spark_kafka_sink.base.config import ProducerConfig
    from spark_kafka_sink.producer.books import Books
    from spark_kafka_sink.producer.requests import PartitionAnswer
    from spark_kafka_sink.records.decoder import Record

_TOO_LARGE = frozenset({10, 18})
_ABOUT_DATA = frozenset({10, 18, 32, 87})
"""MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD."""


class Refusals:
    """Decides whether single records can be set aside, and takes their batch apart."""

    def __init__(self, config: ProducerConfig, books: Books) -> None:
        self._config = config
        self._books = books

    def apply_to(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        """Whether the failure is about single records, and such are tolerated.

        A dead letter that is refused itself is not: there is nowhere to send it. Nor is what the
        log may hold: its records may have been taken before they were refused.
        """
        if batch.ambiguous:
            return False
        letters = self._books.letters
        if not self._books.ward.policy.tolerant:
            return False
        if letters is not None and batch.partition.topic == letters.name:
            return False
        return bool(answer.record_errors) or (batch.records == 1 and answer.code in _ABOUT_DATA)

    def divide(
        self, batch: ProducerBatch, answer: PartitionAnswer
    ) -> tuple[list[ProducerBatch], list[Record]]:
        """The rest of the batch (no batch, or one without a number), and the refused records."""
        records = records_of(batch)
        named = {index for index, _ in answer.record_errors if 0 <= index < len(records)}
        bad = named or set(range(len(records)))
        refused = [record for index, record in enumerate(records) if index in bad]
        kept = [record for index, record in enumerate(records) if index not in bad]
        self._count(batch, answer, len(refused))
        if not kept:
            return [], refused
        rest = piece_of(batch, kept)
        rest.label, rest.order, rest.attempts = batch.label, batch.order, batch.attempts
        recompress(rest, batch.codec, self._config.compression_level)
        return [rest], refused

    def letters(
        self, batch: ProducerBatch, refused: list[Record], answer: PartitionAnswer
    ) -> list[ProducerBatch]:
        """The refused records as a batch of the dead letter topic, if there is one."""
        topic = self._books.letters
        if topic is None:
            return []
        flaw = Flaw.OVERSIZED if answer.code in _TOO_LARGE else Flaw.REFUSED
        rows = Rows(
            columns=columns_of(refused),
            topics=(batch.partition.topic,),
            partition=pa.array([batch.partition.partition] * len(refused), pa.int32()),
            header_lists=header_lists(refused),
        )
        dead = topic.letters(rows, np.full(len(refused), flaw, np.int8), _details(answer))
        place = TopicPartition(topic.name, UNDESIGNATED)
        letter = closed_batch(place, batch.created, dead.columns)
        recompress(letter, batch.codec, self._config.compression_level)
        return [letter]

    def _count(self, batch: ProducerBatch, answer: PartitionAnswer, count: int) -> None:
        place = f"{batch.partition.topic}-{batch.partition.partition}"
        texts = [text or "" for _, text in answer.record_errors] or [answer.message or ""]
        self._books.ward.refused(Flaw.REFUSED, count, [f"{place}: {text}" for text in texts])


def _details(answer: PartitionAnswer) -> str:
    texts = [text for _, text in answer.record_errors if text]
    return texts[0] if texts else answer.message or ""
