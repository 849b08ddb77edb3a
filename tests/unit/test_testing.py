"""Messages of `assert_written`."""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from spark_kafka_sink.testing import _row as row_of
from spark_kafka_sink.testing import compare_rows


def rows(*pairs: tuple[Any, Any]) -> list[Any]:
    return [row_of(("key", "value"), {"key": key, "value": value}) for key, value in pairs]


def test_same_rows_in_any_order_are_equal() -> None:
    assert compare_rows(rows(("a", "1"), ("b", None)), rows(("b", None), ("a", b"1"))) == []


def test_json_is_compared_by_content() -> None:
    assert compare_rows(rows(("a", '{"x": 1, "y": [2]}')), rows(("a", '{"y":[2],"x":1}'))) == []
    assert compare_rows(rows(("a", "1.0")), rows(("a", "1"))) != []
    assert compare_rows(rows(("a", '{"x": null}')), rows(("a", "{}"))) == [
        "1 row expected, 1 record found: 1 different",
        '  different: a: value {"x": null} expected, {} found',
    ]


@pytest.mark.parametrize(
    ("value", "other", "shown"),
    [
        (300_000_000_000, 3, "300000000000"),
        (-1, 1, "-1"),
        (1.5, 1.0, "1.5"),
        (True, False, "true"),
        (Decimal("1.50"), Decimal("1.5"), '"1.50"'),
        (UUID(int=1), UUID(int=2), f'"{UUID(int=1)}"'),
        (dt.date(2024, 2, 29), dt.date(2024, 3, 1), '"2024-02-29"'),
        ([None, "é", b"1"], ["é"], """[null, "é", "b'1'"]"""),
        ([{"b": 1, "a": 2}], [], '[{"a": 2, "b": 1}]'),
    ],
)
def test_decoded_keys_and_values_without_a_record(value: Any, other: Any, shown: str) -> None:
    assert compare_rows(rows((value, value)), rows((value, value))) == []
    assert compare_rows(rows((value, "x")), rows((other, "x"))) != []
    (_, line) = compare_rows(rows(("k", value)), rows(("k", other)))
    assert line.startswith(f"  different: k: value {shown} expected, ")


def test_rows_are_listed_by_key() -> None:
    expected = rows(("alice", '{"n": 1, "m": 2}'), ("bob", "x"), (None, "no key"))
    actual = rows(("alice", '{"n": 3, "m": 2}'), ("eve", b"\xff"))
    assert compare_rows(expected, actual) == [
        "3 rows expected, 2 records found: 2 missing, 1 unexpected, 1 different",
        "  missing: no key",
        "  missing: bob = x",
        r"  unexpected: eve = \xff",
        "  different: alice: n 1 expected, 3 found",
    ]


def test_duplicates_are_unexpected() -> None:
    assert compare_rows(rows(("a", "1")), rows(("a", "1"), ("a", "1"))) == [
        "1 row expected, 2 records found: 1 unexpected",
        "  unexpected: a = 1",
    ]


def test_several_rows_of_a_key_are_not_paired() -> None:
    lines = compare_rows(rows(("a", "1"), ("a", "2")), rows(("a", "3")))
    assert lines[0] == "2 rows expected, 1 record found: 2 missing, 1 unexpected"


def test_long_messages_are_truncated() -> None:
    lines = compare_rows(rows(*[(str(n), "v" * 1000) for n in range(100)]), [])
    assert len(lines) == 12
    assert lines[-1] == "  and 90 more"
    assert max(map(len, lines)) < 250


def test_headers_and_topics() -> None:
    names = ("key", "value", "topic", "headers")
    columns = {"key": "a", "value": "v", "topic": "t"}
    with_header = row_of(names, {**columns, "headers": [("h", b"1")]})
    other = row_of(names, {**columns, "headers": None})
    assert compare_rows([with_header], [other])[1:] == [
        "  different: a in t: headers h=1 expected, none found"
    ]
