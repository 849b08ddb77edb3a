"""The first stage of a chunk: its topics are looked up, and rows that can't be written sorted out.

The first bad row fails the task, or bad rows are counted and become dead letters where errors are
tolerated. Source: Kafka Connect's error handling (KIP-298).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.client.topic_partition import UNASSIGNED
from spark_kafka_sink.common.errors import RecordTooLargeError
from spark_kafka_sink.producer.append.chunk import Chunk
from spark_kafka_sink.producer.row_errors import Limits, RowError, find_row_errors, out_of_range
from spark_kafka_sink.records.encoder import size_bounds
from spark_kafka_sink.records.record_batch import HEADER_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.producer.append.partitioner import Partitioner
    from spark_kafka_sink.producer.append.topic_metadata import TopicMetadata
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.rows import Rows


class RowValidator:
    """Checks the rows of each chunk of one session; writer thread only."""

    def __init__(
        self, context: SessionContext, topics: TopicMetadata, partitioner: Partitioner
    ) -> None:
        self._bad_rows = context.bad_rows
        self._dead_letters = context.dead_letters
        self._config = context.config
        self._largest = context.largest_record
        self._topics = topics
        self._partitioner = partitioner

    def validate(self, rows: Rows) -> list[Chunk]:
        """Chunks of rows that can be written: the dead letters of the others come first.

        Raises:
            KafkaProdError: a row can't be written, and that is not tolerated.
        """
        sizes = size_bounds(rows.columns)
        if self._bad_rows.policy.tolerant:
            return self._sort_out(rows, sizes)
        return self._writable(Chunk(rows, self._look_up(rows), sizes))

    def send_to_dlq(self, rows: Rows, errors: NDArray[np.int8]) -> list[Chunk]:
        """Count the rows that have a `RowError`, shape (n,); their dead letters as a chunk.

        None without a dead letter topic.

        Raises:
            DeliveryError: too large a share of the task's rows is bad.
        """
        self._bad_rows.add(rows, errors)
        if self._dead_letters is None:
            return []
        bad = np.flatnonzero(errors)
        letters = self._dead_letters.letters(rows.take(bad), errors[bad])
        topics = self._topics.lookup(letters.topics)
        return self._writable(Chunk(letters, topics, size_bounds(letters.columns)))

    def _sort_out(self, rows: Rows, sizes: NDArray[np.int64]) -> list[Chunk]:
        self._bad_rows.seen(len(rows))
        found = self._topics.find(rows.topics)
        if self._learned_partitions(rows, found):
            found = self._topics.find(rows.topics)
        errors = find_row_errors(rows, sizes, Limits(found, self._largest - HEADER_SIZE))
        letters: list[Chunk] = []
        if errors is not None:
            letters = self.send_to_dlq(rows, errors)
            good = np.flatnonzero(errors == RowError.NONE)
            rows, sizes = rows.take(good), sizes[good]
        topics = tuple(topic for topic in found if not isinstance(topic, RowError))
        if len(topics) < len(found):
            good_topics = [i for i, topic in enumerate(found) if not isinstance(topic, RowError)]
            rows = rows.with_topics(good_topics)
        return letters + self._writable(Chunk(rows, topics, sizes))

    def _look_up(self, rows: Rows) -> tuple[TopicInfo, ...]:
        """The rows' topics; waits for what is not known of them, if they can't do without."""
        if self._partitioner.may_choose_later(rows):
            return self._topics.expect(rows.topics)
        topics = self._topics.lookup(rows.topics)
        if self._learned_partitions(rows, topics):
            return self._topics.lookup(rows.topics)
        return topics

    def _learned_partitions(self, rows: Rows, topics: tuple[TopicInfo | RowError, ...]) -> bool:
        """Ask the brokers again where rows name partitions that are not known.

        Returns whether they have answered since.
        """
        return out_of_range(rows, topics) is not None and self._topics.update()

    def _writable(self, chunk: Chunk) -> list[Chunk]:
        """The chunk, if it has any rows; raises where one of them is too large."""
        if not len(chunk):
            return []
        if int(chunk.sizes.max()) + HEADER_SIZE > self._largest:
            raise self._too_large(chunk, int(chunk.sizes.argmax()))
        return [chunk]

    def _too_large(self, chunk: Chunk, row: int) -> RecordTooLargeError:
        route = self._partitioner.assign(chunk.rows, chunk.topics)
        topic, partition = route.target(int(route.targets[row]))
        limit = self._largest
        by_size = limit == self._config.max_request_size
        name = "max.request.size" if by_size else "buffer.memory"
        also = " (and the topic's max.message.bytes)" if by_size else ""
        return RecordTooLargeError(
            f"{chunk.rows.name(row)} is {int(chunk.sizes[row]) + HEADER_SIZE:,} bytes "
            f"when serialized, more than {name} = {limit:,}",
            topic=topic.name,
            partition=None if partition == UNASSIGNED else partition,
            hint=f"raise kafka.{name}{also}, or make the row smaller",
        )
