"""The sink's JSON equals that of Spark's `to_json` after parsing, for generated rows."""

import datetime as dt
import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from tests.spark.support.append import append
from tests.support.generated import PLAIN_TYPES, Generated, rows, types

ZONE = "Europe/Berlin"
SETTINGS = {"spark.sql.session.timeZone": ZONE, "spark.sql.timestampType": "TIMESTAMP_NTZ"}
"""The second setting maps Arrow timestamps without time zone to TIMESTAMP_NTZ."""
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(
        lambda n, power: float(f"{n}e{power}"), st.integers(1, 10**6), st.integers(-330, 303)
    ),
    st.integers(-(10**12), 10**12).map(lambda cents: cents / 100),
    st.integers(-(2**62), 2**62).map(float),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]),
)
FORM = r"-?\d+\.\d+|-?[1-9]\.\d+E-?\d+"
COLUMNS = """
    1 AS a, CAST(null AS STRING) AS b, timestamp_micros(0) AS t, CAST(null AS VOID) AS v,
    array(timestamp'1850-01-01 00:00:00', timestamp'9999-12-30 23:59:59.999999', null) AS times,
    timestamp_ntz'0001-01-01 00:00:00.1' AS n, date'-0044-03-15' AS d, date'+10000-01-01' AS e,
    array(float('NaN'), float('-0.0'), float('1e-40')) AS f, double('-Infinity') AS g,
    map(1, struct(null AS x), 2, null) AS m, map(true, 1.50BD) AS o, map(1.0BD, 'x') AS p,
    CAST('c' AS CHAR(3)) AS c, CAST('vc' AS VARCHAR(3)) AS w, unhex('00FF') AS y,
    interval '1 02:03:04.5' day to second AS i, 1e-20 AS k
"""
SESSIONS = (
    {"spark.sql.jsonGenerator.ignoreNullFields": "false"},
    {"spark.sql.jsonGenerator.ignoreNullFields": "TRUE"},
    *({"spark.sql.session.timeZone": zone} for zone in ("PST", "IST", "UT", "+1:30", "Etc/GMT+3")),
)


@pytest.fixture
def in_berlin(spark: SparkSession) -> Iterator[SparkSession]:
    before = {name: str(spark.conf.get(name)) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def encode_rows(array: pa.StructArray) -> list[str | None]:
    spec = EncoderSpec(format=Format.JSON, zone=ZONE)
    encoded = compile_encoder(spec, array.type).encode(array, EncodingErrors(len(array)))
    return [None if text is None else text.decode() for text in encoded.to_pylist()]


def to_json(spark: SparkSession, array: pa.StructArray) -> list[str | None]:
    """Return `to_json` of each struct, in order."""
    numbers = pa.array(range(len(array)))
    frame = spark.createDataFrame(pa.table({"number": numbers, "value": array}))
    texts = frame.select("number", sf.to_json("value").alias("text")).collect()
    return [row.text for row in sorted(texts, key=lambda row: row.number)]


def parsed(text: str | None, type_: pa.DataType) -> Any:
    return None if text is None else typed(json.loads(text, parse_float=Decimal), type_)


def typed(value: Any, type_: Any) -> Any:
    """Convert numbers to the column's type, because Java writes some with more digits."""
    if isinstance(type_, pa.MapType):
        return value and {key: typed(item, type_.item_type) for key, item in value.items()}
    if isinstance(value, dict):
        return {name: typed(item, type_.field(name).type) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item, type_.value_type) for item in value]
    if isinstance(value, Decimal) and pa.types.is_floating(type_):
        number = pa.scalar(float(value), type_).as_py()
        return math.copysign(1, number), number
    return value


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows(types((*PLAIN_TYPES, pa.duration("us")), (pa.string(), pa.int64(), pa.bool_()))))
def test_generated_rows_equal_to_json(in_berlin: SparkSession, generated: Generated) -> None:
    array = pa.array(generated.rows, generated.type)
    assert isinstance(array, pa.StructArray)
    ours, expected = encode_rows(array), to_json(in_berlin, array)
    assert [parsed(text, array.type) for text in ours] == [
        parsed(text, array.type) for text in expected
    ]


def test_format_of_common_types_equals_to_json(in_berlin: SparkSession) -> None:
    rows = [
        {
            "whole": 7,
            "price": 12.25,
            "even": 100.0,
            "minus": -0.0,
            "nan": math.nan,
            "amount": Decimal("12.00"),
            "text": 'a "quoted" \\ line\n\u0001\u001f é 😀',
            "raw": b"\0\xff\x10",
            "day": dt.date(2020, 2, 29),
            "summer": dt.datetime(2020, 7, 1, 12, 34, 56, 123_456, dt.UTC),
            "winter": dt.datetime(1850, 1, 1, tzinfo=dt.UTC),
            "nothing": None,
            "flags": [True, None, False],
            "nested": {"x": None, "y": [{"z": 1}, {"z": None}]},
        }
    ]
    array = pa.array(rows)
    assert isinstance(array, pa.StructArray)
    assert encode_rows(array) == to_json(in_berlin, array)


def is_same_text(text: str, expected: str, type_: pa.DataType) -> bool:
    """Return True for Java's text, or one of the same number with fewer digits.

    Releases before Java 19 do not always write the fewest (JDK-4511638).
    """
    if text == expected:
        return True
    number, other = (pa.scalar(number_text).cast(type_) for number_text in (text, expected))
    digits, more = (number_text.partition("E")[0].strip("-0.") for number_text in (text, expected))
    has_form = ("E" in text) is ("E" in expected) and bool(re.fullmatch(FORM, text))
    return number.equals(other) and has_form and len(digits) < len(more)


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()], ids=str)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(NUMBERS, min_size=50, max_size=200))
def test_numbers_have_the_text_of_to_json(
    in_berlin: SparkSession, type_: pa.DataType, numbers: list[float]
) -> None:
    with np.errstate(over="ignore"):
        values = np.array(numbers).astype(type_.to_pandas_dtype()).tolist()
    fields = [("n", type_), ("l", pa.list_(type_)), ("m", pa.map_(type_, type_))]
    struct = pa.struct([*fields, ("s", pa.struct([("n", type_)]))])
    rows = [
        {"n": value, "l": [value, None, -value], "m": [(value + 0.0, value)], "s": {"n": value}}
        for value in values
    ]
    array: Any = pa.array(rows, struct)
    for text, expected in zip(encode_rows(array), to_json(in_berlin, array), strict=True):
        parts, expected_parts = (
            re.split(r"([-\d.E]+)", json_text or "") for json_text in (text, expected)
        )
        assert parts[::2] == expected_parts[::2]
        for number, other in zip(parts[1::2], expected_parts[1::2], strict=True):
            assert is_same_text(number, other, type_), (number, other)


@pytest.mark.parametrize("session", SESSIONS, ids=str)
def test_json_follows_the_session(spark: SparkSession, session: dict[str, str]) -> None:
    before = {name: str(spark.conf.get(name)) for name in session}
    options = {"topic": "t", "value.format": "json", "summary": "off"}
    with EmbeddedBroker(topics={"t": 1}) as kafka:
        options["kafka.bootstrap.servers"] = kafka.bootstrap_servers
        for name, value in session.items():
            spark.conf.set(name, value)
        frame = spark.sql(f"SELECT {COLUMNS}")
        expected = frame.select(sf.to_json(sf.struct("*"))).collect()[0][0]
        append(frame, options)
        for name, value in before.items():
            spark.conf.set(name, value)
        written = kafka.records("t")[0].value or b""
    assert json.loads(written) == json.loads(expected)
