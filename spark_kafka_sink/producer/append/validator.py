"""The first stage of a chunk: look up the topics and reject rows that cannot be written.

The first bad row fails the task. If errors are tolerated, bad rows are counted and sent as dead
letters.

Source: Kafka Connect's error handling (KIP-298).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import RecordTooLargeError
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.kafka.records.record_encoder import size_bounds
from spark_kafka_sink.producer.append.chunk import Chunk
from spark_kafka_sink.producer.bad_rows.row_error import RowError, find_row_errors, out_of_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.producer.append.partitioner import Partitioner
    from spark_kafka_sink.producer.append.topic_metadata import TopicMetadata
    from spark_kafka_sink.producer.bad_rows.bad_row_counter import BadRowCounter
    from spark_kafka_sink.producer.bad_rows.dead_letter import DeadLetterTopic
    from spark_kafka_sink.producer.rows import Rows


@dataclass(kw_only=True, eq=False)
class RowValidator:
    """Validates the rows of a session, chunk by chunk; writer thread only."""

    config: ProducerConfig
    bad_rows: BadRowCounter
    dead_letter_topic: DeadLetterTopic | None
    topics: TopicMetadata
    partitioner: Partitioner

    def __post_init__(self) -> None:
        self._largest = self.config.max_record_size - HEADER_SIZE

    def validate(self, rows: Rows) -> list[Chunk]:
        """Return chunks of rows that can be written: dead letters of bad rows, then the good rows.

        Raises:
            KafkaProdError: a row cannot be written, and errors are not tolerated.
        """
        sizes = size_bounds(rows.columns)
        if self.bad_rows.policy.is_tolerant:
            return self._reject_bad_rows(rows, sizes)
        return self._check_sizes(Chunk(rows, self._resolve_topics(rows), sizes))

    def record_bad_rows(self, rows: Rows, errors: NDArray[np.int8]) -> list[Chunk]:
        """Count the rows by `RowError`, shape (n,); return their dead letters as chunks.

        The list is empty if there is no dead letter topic.

        Raises:
            DeliveryError: errors.maxRatio is reached.
        """
        self.bad_rows.add(rows, errors)
        if self.dead_letter_topic is None:
            return []
        bad = np.flatnonzero(errors)
        dead_letters = self.dead_letter_topic.to_dead_letters(rows.select(bad), errors[bad])
        topics = self.topics.await_topics(dead_letters.topics)
        return self._check_sizes(Chunk(dead_letters, topics, size_bounds(dead_letters.columns)))

    def _reject_bad_rows(self, rows: Rows, sizes: NDArray[np.int64]) -> list[Chunk]:
        self.bad_rows.count_rows(len(rows))
        results = self.topics.await_topics_or_errors(rows.topics)
        if out_of_range(rows, results) is not None and self.topics.refresh_and_wait():
            results = self.topics.await_topics_or_errors(rows.topics)
        errors = find_row_errors(rows, sizes, results, self._largest)
        dead_letters: list[Chunk] = []
        if errors is not None:
            dead_letters = self.record_bad_rows(rows, errors)
            good = np.flatnonzero(errors == RowError.NONE)
            rows, sizes = rows.select(good), sizes[good]
        topics = tuple(topic for topic in results if not isinstance(topic, RowError))
        if len(topics) < len(results):
            good_topics = [i for i, topic in enumerate(results) if not isinstance(topic, RowError)]
            rows = rows.with_topics(good_topics)
        return dead_letters + self._check_sizes(Chunk(rows, topics, sizes))

    def _resolve_topics(self, rows: Rows) -> tuple[ClusterTopic, ...]:
        """Return the rows' topics; wait for unknown ones only if the rows need their partitions."""
        if self.partitioner.may_choose_later(rows):
            topics = self.topics.cached_topics(rows.topics)
            # After the lookup, so that topics that disappear in between are also awaited.
            self.topics.start_waiting(rows.topics)
            return topics
        topics = self.topics.await_topics(rows.topics)
        if out_of_range(rows, topics) is not None and self.topics.refresh_and_wait():
            topics = self.topics.await_topics(rows.topics)
        return topics

    def _check_sizes(self, chunk: Chunk) -> list[Chunk]:
        """Return [chunk], or [] if it has no rows; raise an error if a row is too large."""
        if not len(chunk):
            return []
        if int(chunk.sizes.max()) > self._largest:
            raise self._too_large_error(chunk, int(chunk.sizes.argmax()))
        return [chunk]

    def _too_large_error(self, chunk: Chunk, row: int) -> RecordTooLargeError:
        rows, limit = chunk.rows, self.config.max_record_size
        by_size = limit == self.config.max_request_size
        name = "max.request.size" if by_size else "buffer.memory"
        also = " (and the topic's max.message.bytes)" if by_size else ""
        return RecordTooLargeError(
            f"{rows.name(row)} is {int(chunk.sizes[row]) + HEADER_SIZE:,} bytes "
            f"when serialized, more than {name} = {limit:,}",
            topic=rows.topics[0 if rows.topic_indexes is None else rows.topic_indexes[row]],
            partition=None if rows.partition is None else rows.partition[row].as_py(),
            hint=f"Raise kafka.{name}{also}, or make the row smaller.",
        )
