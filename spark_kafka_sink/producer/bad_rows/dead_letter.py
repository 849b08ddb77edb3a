"""Dead letters: bad rows sent to another topic, with headers that describe the error.

Dead letters are ordinary rows of the dead letter topic: they are laid out, encoded and acknowledged
like all others. A dead letter that is too large omits parts of its row: first the value, then the
larger of key and headers, then both.

Source: Kafka Connect's ``DeadLetterQueueReporter`` (KIP-298), which defines the header names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.java_integers import MAX_INT
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.columns import lengths_of, nullable_lengths
from spark_kafka_sink.kafka.records.header_lists import constant_column, list_lengths, with_headers
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.kafka.records.record_encoder import encode_headers, size_bounds
from spark_kafka_sink.producer.bad_rows.dead_letter_parts import (
    ALL_PARTS,
    RowPart,
    add_omission,
    omission_note,
    omit_more,
)
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from spark_kafka_sink.producer.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
    from spark_kafka_sink.kafka.records.record_decoder import Record
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.bad_rows.dead_letter_parts import Parts

    Headers = tuple[tuple[str, bytes | None], ...]
    Errors = NDArray[np.int8]
    """The `RowError` of each of n rows."""

_MAX_DETAILS_CHARS = 500
"""Maximum length of a broker's error message, in characters."""
_CONTEXT = tuple(
    f"__connect.errors.{name}"
    for name in (
        "topic",
        "partition",
        "connector.name",
        "task.id",
        "stage",
        "class.name",
        "exception.class.name",
        "exception.message",
    )
)
"""The names of a letter's last headers, in order. A row of a dead letter topic of Kafka Connect has
some of the same names, in another order.
"""
_CONNECTOR = b"kafkaprod"
_STAGE = b"KAFKA_PRODUCE"
SINK_CLASS = b"spark_kafka_sink.KafkaProdDataSource"
_EVERY_PART = range(ALL_PARTS + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTopic:
    """The dead letter topic, and the conversion of bad rows to dead letters."""

    name: str
    context_headers: bool
    task: int
    """The number of the Spark task, which is written to a header."""
    largest: int = MAX_INT
    """The maximum size of a record in bytes."""
    acls: AclAdvisor | None = None
    """Determines missing ACLs."""

    @classmethod
    def of(
        cls, policy: DeadLetterPolicy, task: int, max_record_size: int, acls: AclAdvisor
    ) -> Self | None:
        """Return the dead letter topic of a session; None if dead letters are not written."""
        if policy.dead_letter_topic is None:
            return None
        return cls(
            name=policy.dead_letter_topic,
            context_headers=policy.context_headers,
            task=task,
            largest=max_record_size - HEADER_SIZE,
            acls=acls,
        )

    def to_dead_letters(
        self, rows: Rows, errors: Errors, details: Sequence[str] | None = None
    ) -> Rows:
        """Return n bad rows as rows of the dead letter topic.

        A letter contains the key, value, headers and timestamp of its row. The value of an
        oversized row is omitted, because it would also be too large for the dead letter topic; if
        the letter is still too large, the key or the headers are also omitted. `details` are the
        broker's error messages, one per row.
        """
        omitted = np.where(
            errors == RowError.OVERSIZED, np.int8(RowPart.VALUE), np.int8(RowPart.NONE)
        )
        keys, headers = _key_sizes(rows), _header_sizes(rows)
        while True:
            dead_letters = self._build_letters(rows, errors, omitted, details)
            too_large = size_bounds(dead_letters.columns) > self.largest
            reduced = omit_more(omitted, too_large, keys, headers)
            if np.array_equal(reduced, omitted):
                return dead_letters
            omitted = reduced

    def shrink(self, letter: Record) -> Record | None:
        """Return the letter with one more part omitted; None if only the context headers are left.

        Also return None for a record without context headers, because it is not a dead letter.
        """
        context = _context_of(letter)
        own_headers = letter.headers[: len(letter.headers) - len(context)]
        own_headers_size = sum(len(key) + len(value or b"") for key, value in own_headers)
        if not context or (letter.value is None and letter.key is None and not own_headers):
            return None
        if letter.value is not None:
            return replace(letter, value=None, headers=_add_omission(letter.headers, RowPart.VALUE))
        if letter.key is not None and len(letter.key) >= own_headers_size:
            return replace(letter, key=None, headers=_add_omission(letter.headers, RowPart.KEY))
        return replace(letter, headers=_add_omission(context, RowPart.HEADERS))

    def _build_letters(
        self, rows: Rows, errors: Errors, omitted: Parts, details: Sequence[str] | None
    ) -> Rows:
        """Return the letters of n rows with these `RowPart`s omitted."""
        columns = rows.columns
        lists = _omit_headers(rows.header_lists, omitted)
        if self.context_headers:
            messages = self._error_messages(rows, errors, omitted & _present_parts(rows), details)
            lists = with_headers(lists, self._context_headers(rows, errors, messages))
        key = columns.key
        return Rows(
            columns=replace(
                columns,
                value=_replace_by_null(columns.value, omitted & RowPart.VALUE),
                key=None if key is None else _replace_by_null(key, omitted & RowPart.KEY),
                headers=None if lists is None else encode_headers(lists),
            ),
            topics=(self.name,),
            first_row=rows.first_row,
            row_numbers=rows.row_numbers,
        )

    def _error_messages(
        self, rows: Rows, errors: Errors, omitted: Parts, details: Sequence[str] | None
    ) -> pa.Array[Any]:
        """Return the error message of each row, including the parts that its letter omits."""
        if details is not None:
            entries = zip(errors.tolist(), omitted.tolist(), details, strict=True)
            return pa.array(
                [
                    _letter_message(RowError(error), RowPart(parts), text)
                    for error, parts, text in entries
                ]
            )
        texts = [
            _letter_message(error, RowPart(parts)) for error in RowError for parts in _EVERY_PART
        ]
        numbers = errors.astype(np.int32) * len(_EVERY_PART) + omitted
        denied = errors == RowError.TOPIC_UNAUTHORIZED
        if self.acls is not None and denied.any():
            topic_indexes = (
                rows.topic_indexes
                if rows.topic_indexes is not None
                else np.zeros(len(rows), np.int32)
            )
            for topic in np.unique(topic_indexes[denied]).tolist():
                here = denied & (topic_indexes == topic)
                numbers[here] = len(texts) + omitted[here]
                hint = self.acls.hint(ErrorCode.topic_authorization_failed, rows.topics[topic])
                error = RowError.TOPIC_UNAUTHORIZED
                texts += [_letter_message(error, RowPart(parts), hint) for parts in _EVERY_PART]
        messages = pa.array(texts, pa.binary()).take(numbers)
        return messages if rows.problems is None else _add_problems(messages, rows, errors, omitted)

    def _context_headers(
        self, rows: Rows, errors: Errors, messages: pa.Array[Any]
    ) -> list[tuple[str, pa.Array[Any]]]:
        """Return the name of each context header and its n values."""
        count = len(rows)
        classes = pa.array([error.error_class.encode() for error in RowError], pa.binary())
        values = [
            _topic_names(rows),
            _partitions(rows),
            constant_column(_CONNECTOR, count),
            constant_column(str(self.task).encode(), count),
            constant_column(_STAGE, count),
            constant_column(SINK_CLASS, count),
            classes.take(errors.astype(np.int32)),
            messages,
        ]
        return list(zip(_CONTEXT, values, strict=True))


def is_letter(record: Record) -> bool:
    """Return True if a record has context headers, which identify dead letters."""
    return bool(_context_of(record))


def _context_of(record: Record) -> Headers:
    """Return the context headers, which follow the headers of the row, or () without them."""
    last = record.headers[-len(_CONTEXT) :]
    return last if tuple(name for name, _ in last) == _CONTEXT else ()


def _letter_message(error: RowError, omitted: RowPart, details: str = "") -> bytes:
    cause = f": {details[:_MAX_DETAILS_CHARS]}" if details else ""
    return f"{error.message}{cause}{omission_note(omitted)}".encode()


def _add_problems(
    messages: pa.Array[Any], rows: Rows, errors: Errors, omitted: Parts
) -> pa.Array[Any]:
    """Return the messages, including the problem of each row that cannot be serialized."""
    bad = errors == RowError.UNSERIALIZABLE
    problems = cast("pa.StringArray", rows.problems).filter(pa.array(bad)).to_pylist()
    texts = [
        _letter_message(RowError.UNSERIALIZABLE, RowPart(parts), problem or "")
        for problem, parts in zip(problems, omitted[bad].tolist(), strict=True)
    ]
    replaced = pc.replace_with_mask(messages, pa.array(bad), pa.array(texts, pa.binary()))
    return cast("pa.Array[Any]", replaced)


def _add_omission(headers: Headers, part: RowPart) -> Headers:
    """Return a letter's headers, with a message that mentions one more omitted part."""
    *headers_before, (name, message) = headers
    return (*headers_before, (name, add_omission((message or b"").decode(), part)))


def _present_parts(rows: Rows) -> Parts:
    """Return the `RowPart`s that are not null in each row."""
    columns, lists = rows.columns, rows.header_lists
    present = np.where(np.asarray(columns.value.is_null()), RowPart.NONE, RowPart.VALUE)
    if columns.key is not None:
        present |= np.where(np.asarray(columns.key.is_null()), RowPart.NONE, RowPart.KEY)
    if lists is not None:
        present |= np.where(list_lengths(lists) > 0, RowPart.HEADERS, RowPart.NONE)
    return present.astype(np.int8)


def _key_sizes(rows: Rows) -> NDArray[np.int32]:
    key = rows.columns.key
    return np.zeros(len(rows), np.int32) if key is None else nullable_lengths(key)


def _header_sizes(rows: Rows) -> NDArray[np.int32]:
    headers = rows.columns.headers
    return np.zeros(len(rows), np.int32) if headers is None else lengths_of(headers)


def _replace_by_null(column: pa.BinaryArray, out: Parts) -> pa.BinaryArray:
    """Return the column with null in the rows marked in `out`."""
    if not out.any():
        return column
    kept = pc.if_else(pa.array(out == 0), column, pa.scalar(None, pa.binary()))
    return cast("pa.BinaryArray", kept)


def _omit_headers(lists: pa.ListArray[Any] | None, omitted: Parts) -> pa.ListArray[Any] | None:
    """Return the header lists, null for rows whose headers are omitted."""
    out = (omitted & RowPart.HEADERS) != 0
    if lists is None or not out.any():
        return lists
    numbers = pa.array(np.arange(len(lists)), pa.int64(), mask=out)
    return pc.take(lists, numbers)


def _topic_names(rows: Rows) -> pa.Array[Any]:
    """Return the topic of each row, even an invalid topic; null for rows without a topic."""
    if rows.topic_names is not None:
        return rows.topic_names
    names = pa.array([*rows.topics, None], pa.string()).cast(pa.binary())
    if rows.topic_indexes is None:
        numbers = np.zeros(len(rows), np.int32)
    else:
        numbers = rows.topic_indexes.astype(np.int32)
    if rows.errors is not None:
        numbers = np.where(rows.errors == RowError.NULL_TOPIC, np.int32(len(rows.topics)), numbers)
    return names.take(numbers)


def _partitions(rows: Rows) -> pa.Array[Any]:
    """Return the explicit partition of each row as text; null if there is none."""
    if rows.partition is None:
        return pa.nulls(len(rows), pa.binary())
    return rows.partition.cast(pa.string()).cast(pa.binary())
