"""Descriptions of rows in errors."""

import pytest

from spark_kafka_sink.producer.rows import row_name


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
def test_row_description(
    number: int, spark_partition: int | None, key: str | bytes | None, name: str
) -> None:
    assert row_name(number, spark_partition, key) == name
