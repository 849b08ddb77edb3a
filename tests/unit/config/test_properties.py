"""Java's .properties syntax; tests/golden compares it with java.util.Properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.profiles import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# comment\n\n  ! comment\n a.b = c=d \nempty=\n", {"a.b": "c=d ", "empty": ""}),
        ("a:b\nc d\r\ne", {"a": "b", "c": "d", "e": ""}),
        ('a=x \\\n   y="\\\\"\nb=1', {"a": 'x y="\\"', "b": "1"}),
        ("a\\=b=\\u00fc\\t", {"a=b": "ü\t"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_error_of_a_truncated_escape_omits_the_value() -> None:
    with pytest.raises(ConfigError, match="value of a") as caught:
        parse_properties("a=sentinel\\u12")
    assert "sentinel" not in str(caught.value)


_NAMES = st.from_regex(r"[A-Za-z.]{1,9}", fullmatch=True)
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ "}


@given(st.dictionaries(_NAMES, st.text()))
def test_escaped_text_round_trips(values: dict[str, str]) -> None:
    lines = (
        name + "=" + "".join(_ESCAPES.get(letter, letter) for letter in value)
        for name, value in values.items()
    )
    assert parse_properties("\n".join(lines)) == values
