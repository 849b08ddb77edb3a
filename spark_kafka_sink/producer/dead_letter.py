"""Dead letters: poison rows on their way to another topic, with headers that say what was wrong.

They are ordinary rows of the dead letter topic: planned, encoded and acknowledged like any other.
Source: Kafka Connect's ``DeadLetterQueueReporter`` (KIP-298), whose header names these are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.producer.flaws import Flaw
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.records.encoder import encode_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER_LISTS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
"""Header columns in this shape can become dead letters."""

_PREFIX = "__connect.errors."
_CONNECTOR = b"kafkaprod"
_STAGE = b"KAFKA_PRODUCE"
_CLASS = b"spark_kafka_sink.producer.session.ProducerSession"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTopic:
    """Where dead letters go; `task` is the number of the Spark task, for a header."""

    name: str
    context_headers: bool
    task: int

    def letters(self, rows: Rows, flaws: NDArray[np.int8], details: str = "") -> Rows:
        """Turn n poison rows into rows of the dead letter topic.

        Keys, values, headers and timestamps stay; the value of an oversized row is left out, as
        the dead letter topic could not take it either. `details` is what a broker said of them.
        """
        columns = rows.columns
        lists = rows.header_lists
        if self.context_headers:
            lists = _joined(lists, self._context(rows, flaws, details))
        oversized = flaws == Flaw.OVERSIZED
        value = columns.value
        if oversized.any():
            value = pc.if_else(pa.array(~oversized), value, pa.scalar(None, pa.binary()))
        headers = None if lists is None else encode_headers(lists)
        return Rows(
            columns=replace(columns, value=value, headers=headers),
            topics=(self.name,),
            first_row=rows.first_row,
        )

    def _context(
        self, rows: Rows, flaws: NDArray[np.int8], details: str
    ) -> list[tuple[str, pa.Array[Any]]]:
        """The name and the n values of each context header."""
        count = len(rows)
        reasons = list(Flaw)
        more = f": {details}" if details else ""
        return [
            ("topic", _topic_names(rows)),
            ("partition", _partitions(rows)),
            ("connector.name", _constant(_CONNECTOR, count)),
            ("task.id", _constant(str(self.task).encode(), count)),
            ("stage", _constant(_STAGE, count)),
            ("class.name", _constant(_CLASS, count)),
            ("exception.class.name", _per_flaw([flaw.error_class for flaw in reasons], flaws)),
            ("exception.message", _per_flaw([flaw.message + more for flaw in reasons], flaws)),
        ]


def _constant(value: bytes, count: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(value, pa.binary()), count)


def _per_flaw(texts: list[str], flaws: NDArray[np.int8]) -> pa.Array[Any]:
    return pa.array([text.encode() for text in texts], pa.binary()).take(flaws.astype(np.int32))


def _topic_names(rows: Rows) -> pa.Array[Any]:
    """The topic of each row; null where it has none."""
    names = pa.array([*rows.topics, None], pa.string()).cast(pa.binary())
    if rows.topic_of is None:
        numbers = np.zeros(len(rows), np.int32)
    else:
        numbers = rows.topic_of.astype(np.int32)
    if rows.flaws is not None:
        numbers = np.where(rows.flaws == Flaw.NULL_TOPIC, np.int32(len(rows.topics)), numbers)
    return names.take(numbers)


def _partitions(rows: Rows) -> pa.Array[Any]:
    """The partition that each row asks for, as text; null where it asks for none."""
    if rows.partition is None:
        return pa.nulls(len(rows), pa.binary())
    return rows.partition.cast(pa.string()).cast(pa.binary())


def _joined(
    lists: pa.ListArray[Any] | None, context: list[tuple[str, pa.Array[Any]]]
) -> pa.ListArray[Any]:
    """Each row's own headers, then its context headers."""
    count = len(context[0][1])
    own = np.zeros(count, np.int64) if lists is None else _list_lengths(lists)
    width = len(context)
    keys = [pa.array([f"{_PREFIX}{name}".encode()], pa.binary()) for name, _ in context]
    added = pa.StructArray.from_arrays(
        [
            pa.concat_arrays([key.take(np.zeros(count, np.int32)) for key in keys]),
            pa.concat_arrays([values for _, values in context]),
        ],
        names=["key", "value"],
    )
    entries = added if lists is None else pa.concat_arrays([lists.flatten(), added])
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(own + width, out=offsets[1:])
    order = np.empty(int(offsets[-1]), np.int64)
    base = len(entries) - len(added)
    ends = offsets[1:].astype(np.int64)
    for place in range(width):
        order[ends - width + place] = base + place * count + np.arange(count)
    is_own = np.ones(len(order), np.bool_)
    for place in range(width):
        is_own[ends - width + place] = False
    order[is_own] = np.arange(base)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries.take(order))


def _list_lengths(lists: pa.ListArray[Any]) -> NDArray[np.int64]:
    return np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)


def without_null_keys(lists: pa.ListArray[Any]) -> pa.ListArray[Any]:
    """The same lists with an empty key for each null one: a dead letter must not be poison too."""
    entries = lists.flatten()
    keys = pc.struct_field(entries, 0)
    if not keys.null_count:
        return lists
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(_list_lengths(lists), out=offsets[1:])
    filled = pa.StructArray.from_arrays(
        [keys.fill_null(b""), pc.struct_field(entries, 1)], names=["key", "value"]
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), filled)
