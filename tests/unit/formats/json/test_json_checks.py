"""Names of map entries and patterns of a JSON Schema."""

import json
import math
import re
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from tests.unit.formats.json.checked_rows import TEXT, an_object, errors_of, invalid_rows, records


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        (pa.int32(), [1, -12]),
        (pa.bool_(), [True, False]),
        (pa.float64(), [1.5, math.nan]),
        (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("-0.01")]),
        (pa.date32(), [date(2024, 2, 29), date(1900, 1, 1)]),
        (pa.time64("ns"), [time(1, 2, 3), time(0)]),
        (pa.duration("us"), [timedelta(1), timedelta(0)]),
        (pa.binary(), [b"ab", b""]),
        (pa.string(), ['a"b', ""]),
    ],
)
def test_names_of_map_entries(type_: pa.DataType, keys: list[Any]) -> None:
    first, second = keys
    maps = [[(first, 5)], [(second, 5)], [(second, 6), (first, 6)], []]
    array: Any = pa.array(
        [{"m": entries} for entries in maps],
        pa.struct([pa.field("m", pa.map_(type_, pa.int64()), nullable=False)]),
    )
    encoded = compile_encoder(EncoderSpec(format=Format.JSON), array.type).encode(
        array, EncodingErrors(4)
    )
    (name,) = json.loads(encoded[0].as_py())["m"]
    for schema in (
        {"required": [name]},
        {"properties": {name: {"const": 5}}},
        {"properties": {name: {}}, "additionalProperties": False},
        {"patternProperties": {f"^{re.escape(name)}$": TEXT}},
    ):
        bad_rows = errors_of(array, an_object(m=schema)).rows.tolist()
        assert bad_rows == invalid_rows(array, an_object(m=schema), writes_nulls=False)
        assert 0 < len(bad_rows) < len(maps)


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
