"""The errors of rows that cannot be written, and the search for them in a chunk."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Self

import numpy as np

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    ColumnError,
    DeliveryError,
    KafkaProdError,
    RecordTooLargeError,
    UnknownTopicError,
)
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.producer.rows import Rows


class RowError(IntEnum):
    """The reason why a row cannot be written; int8 error masks contain these numbers.

    Each member has a number, the class of the exception if errors are not tolerated, and a
    description.
    """

    error_class: str
    message: str

    NONE = 0
    NULL_TOPIC = 1, ColumnError, "the topic is null"
    NULL_HEADER_KEY = 2, ColumnError, "a header has no key"
    PARTITION_OUT_OF_RANGE = 3, ColumnError, "the topic has no such partition"
    OVERSIZED = (
        4,
        RecordTooLargeError,
        "the record is larger than max.request.size or buffer.memory, or than the broker accepts",
    )
    REJECTED = 5, DeliveryError, "the broker rejected the record"
    """The broker listed the record in the response (KIP-467)."""
    BREAKER_OPEN = 6, DeliveryError, "the circuit breaker of the partition is open"
    UNKNOWN_TOPIC = 7, UnknownTopicError, "the topic does not exist (UNKNOWN_TOPIC_OR_PARTITION)"
    TOPIC_UNAUTHORIZED = (
        8,
        AuthorizationError,
        "not authorized to write to the topic (TOPIC_AUTHORIZATION_FAILED)",
    )
    INVALID_TOPIC = 9, ColumnError, "the topic name is invalid (INVALID_TOPIC_EXCEPTION)"
    """The topic name is invalid according to the client or the broker."""
    INVALID_HEADER_KEY = 10, ColumnError, "a header's key is not UTF-8"
    NEGATIVE_TIMESTAMP = 11, ColumnError, "the timestamp is before 1970"
    UNSERIALIZABLE = 12, ColumnError, "a field cannot be serialized"
    """A field does not match the format or the schema."""

    def __new__(
        cls, number: int, error: type[KafkaProdError] | None = None, message: str = ""
    ) -> Self:
        """Create a member from a row of the table."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.error_class = f"spark_kafka_sink.{error.__name__}" if error else ""
        member.message = message
        return member


TOPIC_ROW_ERRORS: Mapping[int, RowError] = {
    ErrorCode.unknown_topic_or_partition: RowError.UNKNOWN_TOPIC,
    ErrorCode.invalid_topic_exception: RowError.INVALID_TOPIC,
    ErrorCode.topic_authorization_failed: RowError.TOPIC_UNAUTHORIZED,
}
"""The error of all rows of a topic, by the topic's error code in the metadata."""


def find_row_errors(
    rows: Rows, sizes: NDArray[np.int64], topics: tuple[ClusterTopic | RowError, ...], largest: int
) -> NDArray[np.int8] | None:
    """Return the first error of each row, shape (n,); None if there are no errors.

    Args:
        rows: n rows; errors found when they were read take precedence.
        sizes: upper bound of each record in bytes, shape (n,).
        topics: match `rows.topics` by position; each element is a topic, or the error of all rows
            for that topic.
        largest: maximum size of a record in bytes.
    """
    oversized = sizes > largest
    out_of_range_rows = out_of_range(rows, topics)
    topic_errors = _topic_errors(rows, topics)
    if (
        rows.errors is None
        and topic_errors is None
        and out_of_range_rows is None
        and not oversized.any()
    ):
        return None
    errors = np.zeros(len(rows), np.int8) if rows.errors is None else rows.errors.copy()
    if topic_errors is not None:
        errors = np.where(errors == RowError.NONE, topic_errors, errors)
    if out_of_range_rows is not None:
        errors[(errors == RowError.NONE) & out_of_range_rows] = RowError.PARTITION_OUT_OF_RANGE
    errors[(errors == RowError.NONE) & oversized] = RowError.OVERSIZED
    return errors if errors.any() else None


def _topic_errors(
    rows: Rows, topics: tuple[ClusterTopic | RowError, ...]
) -> NDArray[np.int8] | None:
    """Return the error of each row's topic; None if all topics can be written to."""
    if not any(isinstance(topic, RowError) for topic in topics):
        return None
    by_topic = [topic if isinstance(topic, RowError) else RowError.NONE for topic in topics]
    errors = np.array(by_topic, np.int8)
    if rows.topic_indexes is None:
        return np.full(len(rows), errors[0])
    return errors[rows.topic_indexes]


def out_of_range(
    rows: Rows, topics: tuple[ClusterTopic | RowError, ...]
) -> NDArray[np.bool_] | None:
    """Return a mask of the rows whose explicit partition does not exist; None if all exist."""
    column = rows.partition
    if column is None or not topics or column.null_count == len(column):
        return None
    partition_counts = [
        0 if isinstance(topic, RowError) else topic.partition_count for topic in topics
    ]
    counts = np.array(partition_counts, np.int32)
    count_of = counts[0] if rows.topic_indexes is None else counts[rows.topic_indexes]
    partitions = np.asarray(column.fill_null(0) if column.null_count else column)
    if rows.topic_indexes is None and partitions.min() >= 0 and partitions.max() < count_of:
        return None
    out_of_range_rows: NDArray[np.bool_] = (partitions < 0) | (partitions >= count_of)
    return out_of_range_rows if out_of_range_rows.any() else None
