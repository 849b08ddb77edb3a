"""Names of map entries in a JSON Schema."""

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
from tests.unit.formats.json.checked_rows import TEXT, an_object, errors_of, invalid_rows


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
