"""Messages of `assert_written`."""

from typing import Any

from spark_kafka_sink.testing import _row as row_of
from spark_kafka_sink.testing import compare_rows


def rows(*pairs: tuple[str | None, str | bytes | None]) -> list[Any]:
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
