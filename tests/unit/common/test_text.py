"""Sizes, counts, lists and external texts in messages."""

import pytest

from spark_kafka_sink.common.text import is_topic_name, listed, plural, quoted, size_text


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


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (1, ("row",), "1 row"),
        (0, ("row",), "0 rows"),
        (1.4, ("row",), "1 row"),
        (2_000, ("retry", "retries"), "2,000 retries"),
    ],
)
def test_noun_depends_on_the_rounded_count(count: float, words: tuple[str], text: str) -> None:
    assert plural(count, *words) == text


@pytest.mark.parametrize(("limit", "text"), [(1, "a and 2 more"), (2, "a, b and 1 more")])
def test_long_list_is_cut(limit: int, text: str) -> None:
    assert listed(["a", "b", "c"], limit) == text
    assert listed(["a", "b", "c"], 3) == "a, b, c"


def test_external_text_is_one_short_line() -> None:
    assert quoted("a\nb\x1b[31m") == "a\ufffdb\ufffd[31m"
    assert quoted("x" * 300) == "x" * 200 + "…"


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a\n", "ä", "a" * 250])
def test_invalid_topic_names(name: str) -> None:
    assert not is_topic_name(name)


def test_valid_topic_names() -> None:
    assert is_topic_name("a.b_C-9")
    assert is_topic_name("a" * 249)
