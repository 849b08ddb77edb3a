"""Rows that are written piece by piece, against bytes that are joined row by row."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.kafka.records.row_writer import RowWriter
from spark_kafka_sink.kafka.records.varint import varint

Step: TypeAlias = Callable[[RowWriter, list[bytes]], None]
ROWS = 3
TEXT = st.binary(max_size=20)
MASK = st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)


def constant(value: bytes) -> Step:
    def step(writer: RowWriter, rows: list[bytes]) -> None:
        writer.append_constant(value)
        rows[:] = [row + value for row in rows]

    return step


def column(values: list[bytes]) -> Step:
    def step(writer: RowWriter, rows: list[bytes]) -> None:
        writer.append_column(pa.array(values, pa.binary()))
        rows[:] = [row + value for row, value in zip(rows, values, strict=True)]

    return step


def numbers(values: list[int]) -> Step:
    def step(writer: RowWriter, rows: list[bytes]) -> None:
        writer.append_zigzag(np.array(values, np.int64))
        rows[:] = [row + varint(value) for row, value in zip(rows, values, strict=True)]

    return step


PLAIN = st.one_of(
    TEXT.map(constant),
    st.lists(TEXT, min_size=ROWS, max_size=ROWS).map(column),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=ROWS, max_size=ROWS).map(numbers),
    st.lists(st.integers(-70, 9_000), min_size=ROWS, max_size=ROWS).map(numbers),
)


def other(steps: list[Step], mask: list[bool] | None) -> Step:
    def step(writer: RowWriter, rows: list[bytes]) -> None:
        inner, added = written(steps)
        writer.append_rows(inner, None if mask is None else np.array(mask))
        kept = mask or [True] * ROWS
        rows[:] = [row + text * keep for row, text, keep in zip(rows, added, kept, strict=True)]

    return step


STEPS = st.recursive(
    PLAIN, lambda steps: st.builds(other, st.lists(steps, max_size=4), st.none() | MASK)
)


def written(steps: list[Step]) -> tuple[RowWriter, list[bytes]]:
    writer, rows = RowWriter(ROWS), [b""] * ROWS
    for step in steps:
        step(writer, rows)
    return writer, rows


@given(st.lists(STEPS, max_size=8), st.permutations(range(ROWS)), st.binary(max_size=8))
@settings(max_examples=300, deadline=None)
def test_rows_consist_of_their_pieces(steps: list[Step], order: list[int], tail: bytes) -> None:
    writer, rows = written([constant(tail), *steps])
    assert writer.row_sizes().tolist() == [len(row) for row in rows]
    joined = writer.join(np.array(order), tail)
    assert joined.to_pylist() == [rows[row].removeprefix(tail) + tail for row in order]
