"""Counts in messages."""

from __future__ import annotations

import pytest

from spark_kafka_sink.common.text import plural


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2, ("record",), "2 records"),
        (1_000, ("record",), "1,000 records"),
        (1, ("retry", "retries"), "1 retry"),
        (3, ("retry", "retries"), "3 retries"),
        (1.2, ("byte",), "1 byte"),
        (0.6, ("byte",), "1 byte"),
        (1.5, ("byte",), "2 bytes"),
    ],
)
def test_singular_and_plural(count: float, words: tuple[str, ...], text: str) -> None:
    assert plural(count, *words) == text
