"""Java's .properties syntax; tests/golden compares it with java.util.Properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.profiles import parse_properties


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
