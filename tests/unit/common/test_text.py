"""Sizes as text."""

import pytest

from spark_kafka_sink.common.text import size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1.0 kB"),
        (1_000, "1.0 kB"),
        (3_440, "3.4 kB"),
        (999_949, "999.9 kB"),
        (999_960, "1.0 MB"),
        (163_340_000, "163.3 MB"),
        (12_345_600_000, "12,345.6 MB"),
    ],
)
def test_unit_depends_on_the_size(size: float, text: str) -> None:
    assert size_text(size) == text
