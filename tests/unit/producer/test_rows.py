"""Parts of a chunk of rows keep all of its fields; names of rows in errors."""

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.header_lists import HEADER_LISTS
from spark_kafka_sink.producer.rows import Rows, row_name

COUNT = 6
TEXTS = pa.array([f"{row}" for row in range(COUNT)])
BYTES = pa.array([b"%d" % row for row in range(COUNT)], pa.binary())
PARTS = {
    "slice": lambda rows: rows.slice(2, 5),
    "select": lambda rows: rows.select(np.array([2, 3, 4])),
}


def chunk(**changes: Any) -> Rows:
    """Return rows with all fields set, so that a part with a missing field is found."""
    return Rows(
        **{
            "columns": Columns(value=BYTES),
            "topics": ("a", "b"),
            "topic_indexes": np.arange(COUNT, dtype=np.int32) % 2,
            "partition": pa.array(range(COUNT), pa.int32()),
            "first_row": 100,
            "row_numbers": np.arange(COUNT) * 10,
            "spark_partition": 3,
            "errors": np.arange(COUNT, dtype=np.int8),
            "header_lists": pa.array([[]] * COUNT, HEADER_LISTS),
            "topic_names": BYTES,
            "problems": TEXTS,
            "serialize_s": 0.6,
            **changes,
        }
    )


def list_of(column: Any) -> list[Any]:
    items: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return items


@pytest.mark.parametrize("numbers", [None, np.arange(COUNT) * 10])
@pytest.mark.parametrize("part", PARTS)
def test_part_keeps_all_fields(part: str, numbers: Any) -> None:
    rows = chunk(row_numbers=numbers)
    picked = PARTS[part](rows)
    for entry in fields(Rows):
        whole, some = getattr(rows, entry.name), getattr(picked, entry.name)
        if isinstance(whole, np.ndarray | pa.Array):
            assert list_of(some) == list_of(whole)[2:5], entry.name
        elif entry.name not in {"columns", "first_row", "row_numbers", "serialize_s"}:
            assert some == whole, entry.name
    assert picked.columns.value.to_pylist() == [b"2", b"3", b"4"]
    assert [picked.number(row) for row in range(3)] == [rows.number(row) for row in (2, 3, 4)]


def test_parts_share_the_time_of_their_serialization() -> None:
    rows = chunk()
    times = [rows.slice(0, 2).serialize_s, rows.slice(2, COUNT).serialize_s]
    assert times == pytest.approx([0.2, 0.4])
    assert rows.select(np.arange(3)).serialize_s == pytest.approx(0.3)
    assert chunk(columns=Columns(value=pa.array([], pa.binary()))).slice(0, 0).serialize_s == 0


@pytest.mark.parametrize(
    ("number", "spark_partition", "key", "name"),
    [
        (17, None, None, "row 17"),
        (12_345, 3, None, "row 12,345 of Spark partition 3"),
        (0, 0, b"k1", "row 0 of Spark partition 0 (key 'k1')"),
        (0, None, "k\n", "row 0 (key 'k\\n')"),
        (0, None, b"\xff\x00", "row 0 (key 0xff00)"),
        (0, None, b"\xff" * 40, f"row 0 (key 0x{'ff' * 32}...)"),
        (0, None, b"x" * 200, "row 0 (key a text of 200 characters)"),
    ],
)
def test_row_is_named_by_number_partition_and_key(
    number: int, spark_partition: int | None, key: str | bytes | None, name: str
) -> None:
    assert row_name(number, spark_partition, key) == name
