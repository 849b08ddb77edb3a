"""Patterns of a JSON Schema have JavaScript's meaning."""

import pyarrow as pa
import pytest

from tests.unit.formats.json.checked_rows import an_object, errors_of, records


@pytest.mark.parametrize(
    ("pattern", "names", "matches"),
    [
        ("^a$", ["a", "a\n", "\na"], [True, False, False]),
        (r"^\d+$", ["12", "\u0661"], [True, False]),
        (r"^\w$", ["w", "\u00e9"], [True, False]),
        (r"^[$a]\$$", ["$$", "a$", "a"], [True, True, False]),
        ("^[[]$", ["[", "a"], [True, False]),
        (r"^[a\[[&&b||~~-]+$", ["a[&|~-b", "]", "c"], [True, False, False]),
        ("^[+--]$", ["+", ",", "-", "."], [True, True, True, False]),
        (r"^[\]&&[]$", ["]", "&", "[", "x"], [True, True, True, False]),
        (r"^(\w+\s?)*$", ["a b", "a" * 60 + "!"], [True, False]),  # exponential in Python
        (r"^([a-z0-9]+(-[a-z0-9]+)*)+$", ["a-b", "a" * 60 + "!"], [True, False]),
        (r"^(?!x)\p{L}$", ["\u00e9"], [True]),  # unknown to both engines
        (r"^\p{L}+$", ["\u00e9", "1"], [True, False]),
        (r"^(?!x)[a-z]$", ["a", "x"], [True, False]),
        (r"^\u0061$", ["a", "b"], [True, False]),
        (r"^a{2,1100}$", ["aa", "a"], [True, False]),
        ("(?i)a", ["A"], [True]),  # no JavaScript, and not valid within a group of Python
    ],
)
@pytest.mark.filterwarnings("error")
def test_patterns_are_those_of_javascript(
    pattern: str, names: list[str], matches: list[bool]
) -> None:
    type_ = pa.map_(pa.string(), pa.int32())
    array = records([[(name, 1)] for name in names], type_)
    schema = {"patternProperties": {pattern: {}}, "additionalProperties": False}
    bad_rows = errors_of(array, an_object(v=schema)).rows.tolist()
    assert bad_rows == [row for row, is_match in enumerate(matches) if not is_match]
