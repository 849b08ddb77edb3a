"""Chunks of rows for the producer, and the errors of rows that cannot be written.

If errors are tolerated, `BadRows` counts bad rows, and the task fails once their ratio reaches
errors.maxRatio.

Source: Kafka Connect's ``RetryWithToleranceOperator`` (KIP-298).
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from enum import IntEnum
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    ColumnError,
    DeliveryError,
    KafkaProdError,
    RecordTooLargeError,
    UnknownTopicError,
)
from spark_kafka_sink.common.text import plural, shown
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.report.delivery_counters import EXAMPLES_KEPT, PoisonCount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
    from spark_kafka_sink.kafka.client.cluster_snapshot import TopicInfo
    from spark_kafka_sink.kafka.records.columns import Columns
    from spark_kafka_sink.producer.acl import AclAdvisor


_KEY_BYTES = 32
"""Maximum number of bytes of a non-text key in an error message."""
UNKNOWN_ROW = -1
"""Placeholder for an unknown row number."""


class RowNumbers(NamedTuple):
    """Row numbers of consecutive records in a Spark partition, for error messages."""

    numbers: range | NDArray[np.int64]
    spark_partition: int | None

    def slice(self, start: int, stop: int) -> RowNumbers:
        """Return the numbers of records start..stop."""
        return RowNumbers(self.numbers[start:stop], self.spark_partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A chunk of n rows for the producer.

    `topic_of` is the index of each row's topic in `topics` (None: all rows go to topics[0]).
    `partition` is int32, null for rows that the partitioner assigns (None: all rows). `first_row`
    is the first row's number in error messages, counted from 0 within the task. If the row numbers
    are not consecutive, `numbers` contains all of them, shape (n,). `spark_partition` is the task's
    partition number, None outside a task. `errors` are the `RowError`s that were found when the
    rows were read, int8 of shape (n,) (None: no errors). `header_lists` (the headers before
    encoding) and `topic_names` (the text of the topic column) are needed for dead letters.
    """

    columns: Columns
    topics: tuple[str, ...]
    topic_of: NDArray[np.int32] | None = None
    partition: pa.Int32Array | None = None
    first_row: int = 0
    numbers: NDArray[np.int64] | None = None
    spark_partition: int | None = None
    errors: NDArray[np.int8] | None = None
    header_lists: pa.ListArray[Any] | None = None
    topic_names: pa.BinaryArray | None = None
    problems: pa.StringArray | None = None
    serialise_s: float = 0.0

    def __len__(self) -> int:
        return len(self.columns)

    def name(self, row: int) -> str:
        """Return a row's name for error messages: number, Spark partition, and key if any."""
        column = self.columns.key
        key = None if column is None else column[row].as_py()
        return row_name(self.number(row), self.spark_partition, key)

    def number(self, row: int) -> int:
        """Return the number of a row in error messages."""
        return self.first_row + row if self.numbers is None else int(self.numbers[row])

    def with_topics(self, kept: Sequence[int]) -> Rows:
        """Return the rows with only the topics at these indexes; no row may use another topic."""
        topic_of = self.topic_of
        if topic_of is not None:
            numbers = np.zeros(len(self.topics), np.int32)
            numbers[list(kept)] = np.arange(len(kept), dtype=np.int32)
            topic_of = numbers[topic_of] if len(kept) > 1 else None
        return replace(self, topics=tuple(self.topics[n] for n in kept), topic_of=topic_of)

    def slice(self, start: int, stop: int) -> Rows:
        """Return rows start..stop as views."""
        columns = self.columns.slice(start, stop)
        rows = self._picked(columns, lambda column: column[start:stop])
        return replace(rows, first_row=self.first_row + start)

    def take(self, numbers: NDArray[np.intp]) -> Rows:
        """Return the rows at these positions, copied."""
        rows = self._picked(self.columns.take(numbers), lambda column: column.take(numbers))
        return rows if self.numbers is not None else replace(rows, numbers=numbers + self.first_row)

    def _picked(self, columns: Columns, pick: Callable[[Any], Any]) -> Rows:
        """Return some of the rows: these columns, and what `pick` returns for each other column."""
        return Rows(
            columns=columns,
            topics=self.topics,
            topic_of=_apply(pick, self.topic_of),
            partition=_apply(pick, self.partition),
            numbers=_apply(pick, self.numbers),
            spark_partition=self.spark_partition,
            errors=_apply(pick, self.errors),
            header_lists=_apply(pick, self.header_lists),
            topic_names=_apply(pick, self.topic_names),
            problems=_apply(pick, self.problems),
        )


def _apply(pick: Callable[[Any], Any], column: Any) -> Any:
    return None if column is None else pick(column)


def row_name(number: int, spark_partition: int | None, key: str | bytes | None = None) -> str:
    """Format as "row 17 of Spark partition 3 (key 'k1')"; non-UTF-8 keys are in hexadecimal."""
    name = "a row" if number == UNKNOWN_ROW else f"row {number:,}"
    if spark_partition is not None:
        name = f"{name} of Spark partition {spark_partition}"
    return name if key is None else f"{name} (key {_shown_key(key)})"


def _shown_key(key: str | bytes) -> str:
    if isinstance(key, str):
        return shown(key)
    try:
        return shown(key.decode())
    except UnicodeDecodeError:
        return f"0x{key[:_KEY_BYTES].hex()}" + ("..." if len(key) > _KEY_BYTES else "")


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
        "the record is larger than max.request.size or than the broker accepts",
    )
    REFUSED = 5, DeliveryError, "the broker rejected the record"
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
    UNSERIALISABLE = 12, ColumnError, "a field cannot be serialized"
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
    rows: Rows, sizes: NDArray[np.int64], topics: tuple[TopicInfo | RowError, ...], largest: int
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


def _topic_errors(rows: Rows, topics: tuple[TopicInfo | RowError, ...]) -> NDArray[np.int8] | None:
    """Return the error of each row's topic; None if all topics can be written to."""
    if not any(isinstance(topic, RowError) for topic in topics):
        return None
    found = [topic if isinstance(topic, RowError) else RowError.NONE for topic in topics]
    errors = np.array(found, np.int8)
    if rows.topic_of is None:
        return np.full(len(rows), errors[0])
    return errors[rows.topic_of]


def out_of_range(rows: Rows, topics: tuple[TopicInfo | RowError, ...]) -> NDArray[np.bool_] | None:
    """Return a mask of the rows whose explicit partition does not exist; None if all exist."""
    column = rows.partition
    if column is None or not topics or column.null_count == len(column):
        return None
    known = [0 if isinstance(topic, RowError) else topic.partition_count for topic in topics]
    counts = np.array(known, np.int32)
    count_of = counts[0] if rows.topic_of is None else counts[rows.topic_of]
    partitions = np.asarray(column.fill_null(0) if column.null_count else column)
    if rows.topic_of is None and partitions.min() >= 0 and partitions.max() < count_of:
        return None
    out_of_range_rows: NDArray[np.bool_] = (partitions < 0) | (partitions >= count_of)
    return out_of_range_rows if out_of_range_rows.any() else None


_LOG = logging.getLogger("spark_kafka_sink.poison")
_MIN_ROWS = 1_000
"""Minimum number of rows after which the ratio of bad rows can fail a task."""


class BadRows:
    """Counts bad rows by error, stores examples, and fails the task if too many rows are bad.

    Called by the writer and the sender thread.
    """

    def __init__(self, policy: DeadLetterPolicy, acls: AclAdvisor | None = None) -> None:
        self.policy = policy
        self._acls = acls
        self._lock = Lock()

        # Guarded by the lock.
        self._counts: Counter[RowError] = Counter()
        self._examples: dict[RowError, list[str]] = {}
        self._rows = 0

    def seen(self, count: int) -> None:
        """Add to the number of received rows, which includes bad rows."""
        with self._lock:
            self._rows += count

    def add(self, rows: Rows, errors: NDArray[np.int8]) -> None:
        """Count the bad rows of a chunk by their `RowError`, shape (n,).

        Raises:
            DeliveryError: too many of the task's rows are bad.
        """
        found, counts = np.unique(errors[errors != RowError.NONE], return_counts=True)
        for code, count in zip(found.tolist(), counts.tolist(), strict=True):
            error = RowError(code)
            firsts = np.flatnonzero(errors == code)[:EXAMPLES_KEPT].tolist()
            examples = [
                f"{row_name(rows.number(row), rows.spark_partition)}: {error.message}"
                f"{self._hint(error, rows, row)}"
                for row in firsts
            ]
            self.refused(error, count, examples)
        self.check_ratio()

    def _hint(self, error: RowError, rows: Rows, row: int) -> str:
        """Return the row's problem, or a hint if access to its topic is denied."""
        if error is RowError.UNSERIALISABLE and rows.problems is not None:
            return f": {rows.problems[row].as_py()}"
        if self._acls is None or error is not RowError.TOPIC_UNAUTHORIZED:
            return ""
        topic = rows.topics[0 if rows.topic_of is None else int(rows.topic_of[row])]
        return f": {self._acls.hint(ErrorCode.topic_authorization_failed, topic)}"

    def refused(self, error: RowError, count: int, examples: list[str]) -> None:
        """Count records that have the same error; log the first record with this error."""
        with self._lock:
            first = not self._counts[error]
            self._counts[error] += count
            kept = self._examples.setdefault(error, [])
            kept += examples[: EXAMPLES_KEPT - len(kept)]
        if first:
            dead_letter_topic = self.policy.dead_letter_topic
            destination = (
                f"dead letter topic {dead_letter_topic}" if dead_letter_topic else "dropped"
            )
            _LOG.warning("bad rows (%s), %s; first: %s", error.message, destination, examples[:1])

    def check_ratio(self) -> None:
        """Raise DeliveryError once errors.maxRatio is reached."""
        with self._lock:
            bad, rows = sum(self._counts.values()), self._rows
            if rows < _MIN_ROWS or bad < rows * self.policy.max_ratio:
                return
            reasons = "; ".join(
                f"{count:,} {error.name}, first {self._examples[error][0]}"
                for error, count in self._counts.most_common()
            )
        raise DeliveryError(
            f"{bad:,} of {plural(rows, 'row')} of the task cannot be written, but errors.maxRatio "
            f"is {self.policy.max_ratio}: {reasons}",
            hint="correct the rows or the topics, or raise errors.maxRatio; dead letters of the "
            "last rows may not have been written",
        )

    def build(self) -> tuple[PoisonCount, ...]:
        """Return the counts of bad rows for the delivery report."""
        kept = self.policy.dead_letter_topic is not None
        with self._lock:
            return tuple(
                PoisonCount(
                    reason=error.name,
                    dead_lettered=count if kept else 0,
                    dropped=0 if kept else count,
                    examples=tuple(sorted(self._examples[error])),
                )
                for error, count in sorted(self._counts.items(), key=lambda item: item[0].name)
            )
