"""JSON compared with a per-row reference: json.loads returns the row's values."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import (
    EncoderSpec,
    compile_encoder,
    derive_schema,
)
from tests.support.generated import OTHER_TYPES, PLAIN_TYPES, Generated, rows, types
from tests.unit.formats.json.json_reference import ZONE, expected, read

SPEC = EncoderSpec(format=Format.JSON, zone=ZONE)
NAN, INFINITY = float("nan"), float("inf")
TYPES = types(
    PLAIN_TYPES + OTHER_TYPES, (pa.string(), pa.large_string(), pa.int64(), pa.bool_(), pa.date32())
)


def encode(array: pa.Array[Any], spec: EncoderSpec = SPEC) -> list[str | None]:
    """Encode structs without errors."""
    errors = EncodingErrors(len(array))
    encoded = compile_encoder(spec, array.type).encode(array, errors)  # type: ignore[arg-type]
    encoded.validate(full=True)
    assert not errors, list(errors)
    return [None if text is None else text.decode() for text in encoded.to_pylist()]


def column(type_: pa.DataType, values: list[Any]) -> list[str | None]:
    """Encode values as field `a` and return its text, or None for an omitted field."""
    rows = pa.array([{"a": value} for value in values], pa.struct([("a", type_)]))
    texts = encode(rows)
    return [None if text == "{}" else text[5:-1] for text in texts if text is not None]


@pytest.mark.parametrize(
    ("type_", "values", "texts"),
    [
        (pa.int8(), [-128, 0, 127, None], ["-128", "0", "127", None]),
        (pa.int64(), [-(2**63), 2**63 - 1, 10**8], [str(-(2**63)), str(2**63 - 1), "100000000"]),
        (pa.bool_(), [True, None, False], ["true", None, "false"]),
        (pa.float64(), [-35.0, -0.0, 12.25, 0.1], ["-35.0", "-0.0", "12.25", "0.1"]),
        (pa.float64(), [float("nan"), float("-inf")], ['"NaN"', '"-Infinity"']),
        (pa.float32(), [0.1, 16777216.0, 1234567.875], ["0.1", "1.6777216E7", "1234567.9"]),
        (pa.float64(), [123456789012345.0, 1e15], ["1.23456789012345E14", "1.0E15"]),
        (pa.float64(), [1 / 3] * 2 + [123456789.0], ["0.3333333333333333"] * 2 + ["1.23456789E8"]),
        (pa.float64(), [9999999.9, 1e7, 0.001, 0.00099], ["9999999.9", "1.0E7", "0.001", "9.9E-4"]),
        (pa.decimal128(10, 2), [Decimal("-0.01"), Decimal("12.00")], ["-0.01", "12.00"]),
        (pa.decimal128(38, 38), [Decimal("-0." + "9" * 38)], ["-0." + "9" * 38]),
        (pa.decimal128(38, 0), [Decimal("-" + "9" * 38)], ["-" + "9" * 38]),
        *(  # As with spark.sql.legacy.allowNegativeScaleOfDecimal.
            (
                pa.decimal128(digits, -zeros),
                [Decimal(f"-9E{digits + zeros - 1}"), Decimal(f"1E{zeros}"), None, Decimal(0)],
                [f"-9{'0' * (digits + zeros - 1)}", f"1{'0' * zeros}", None, "0"],
            )
            for digits, zeros in ((1, 1), (5, 2), (18, 20), (30, 8), (1, 37))
        ),
        (pa.string(), ['"\\\n\x1fé', None, ""], ['"\\"\\\\\\n\\u001Fé"', None, '""']),
        (pa.binary(), [b"\0\xff\x10\1", b"", None], ['"AP8QAQ=="', '""', None]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29)], ['"0001-01-01"', '"2024-02-29"']),
        (
            pa.time64("ns"),
            [dt.time(1, 2, 3), dt.time(1, 2, 3, 120)],
            ['"01:02:03"', '"01:02:03.00012"'],
        ),
        (  # TIME(9) of Spark 4.3
            pa.time64("ns"),
            [86_399_999_999_999, 1, 10, 100_000_000, 1_234_567_890, 0],
            [
                f'"{text}"'
                for text in (
                    "23:59:59.999999999",
                    "00:00:00.000000001",
                    "00:00:00.00000001",
                    "00:00:00.1",
                    "00:00:01.23456789",
                    "00:00:00",
                )
            ],
        ),
        (pa.null(), [None, None], [None, None]),
        (
            pa.duration("us"),
            [dt.timedelta(days=1, hours=2, microseconds=500_000), dt.timedelta(microseconds=-1)],
            [
                "\"INTERVAL '1 02:00:00.5' DAY TO SECOND\"",
                "\"INTERVAL '-0 00:00:00.000001' DAY TO SECOND\"",
            ],
        ),
        (pa.list_(pa.int32()), [[1, None], [], None, [2]], ["[1,null]", "[]", None, "[2]"]),
        (
            pa.map_(pa.int32(), pa.string()),
            [[(1, "x"), (2, None)], [], None],
            ['{"1":"x","2":null}', "{}", None],
        ),
        *(
            (
                pa.map_(type_, type_),
                [[(NAN, NAN), (INFINITY, 1.5), (-INFINITY, 2.5), *((key, 0.5) for key in keys)]],
                [
                    '{"NaN":"NaN","Infinity":1.5,"-Infinity":2.5'
                    + "".join(f',"{key}":0.5' for key in keys)
                    + "}"
                ],
            )
            for type_ in (pa.float32(), pa.float64())
            for keys in ((), (0.5, -2.0, 3.0, 4.25), (0.3333333,))
        ),
    ],
)
def test_column_is_written_as_by_the_reference(
    type_: pa.DataType, values: list[Any], texts: list[str | None]
) -> None:
    assert column(type_, values) == texts


def test_timestamps_have_the_offset_of_the_time_zone() -> None:
    times = [
        dt.datetime(2020, 3, 29, 0, 59, 59, 999_999, dt.UTC),
        dt.datetime(2020, 3, 29, 1, 0, tzinfo=dt.UTC),
        dt.datetime(1, 1, 2, tzinfo=dt.UTC),
    ]
    assert column(pa.timestamp("us", "UTC"), times[:2]) == [
        '"2020-03-29T01:59:59.999+01:00"',
        '"2020-03-29T03:00:00.000+02:00"',
    ]
    assert column(pa.timestamp("us", "UTC"), times)[2] == '"0001-01-02T00:53:28.000+00:53:28"'
    assert column(pa.timestamp("us"), [times[1].replace(tzinfo=None)]) == [
        '"2020-03-29T01:00:00.000"'
    ]


@pytest.mark.parametrize("zone", ["America/New_York", "Africa/Casablanca", "Australia/Lord_Howe"])
def test_offsets_match_zoneinfo_in_any_year(zone: str) -> None:
    years = (1, 1799, 1883, 1916, 1970, 2024, 2038, 2101, 2499, 2501, 9998)
    days = [
        dt.datetime(year, month, 15, 3, tzinfo=dt.UTC) for year in years for month in (1, 7, 11)
    ]
    spec = EncoderSpec(format=Format.JSON, zone=zone)
    for instants in (days, days[12:15], days[-3:]):
        array = pa.array(
            [{"a": instant} for instant in instants], pa.struct([("a", pa.timestamp("us", "UTC"))])
        )
        times = [json.loads(text or "")["a"] for text in encode(array, spec)]
        local = [instant.astimezone(ZoneInfo(zone)) for instant in instants]
        texts = [time.isoformat(timespec="milliseconds") for time in local]
        assert times == [re.sub(r"\+00:00$", "Z", text) for text in texts]


@pytest.mark.parametrize(
    ("zone", "micros", "text"),
    [  # as Spark 4.3's to_json writes them
        ("Europe/Berlin", 2**63 - 1, "+294247-01-10T05:00:54.775+01:00"),
        ("UTC", 2**63 - 1, "+294247-01-10T04:00:54.775Z"),
        ("-05:00", -(2**63), "-290308-12-21T14:59:05.224-05:00"),
        ("UTC", -(2**63), "-290308-12-21T19:59:05.224Z"),
    ],
)
def test_first_and_last_timestamps_do_not_wrap_around(zone: str, micros: int, text: str) -> None:
    type_ = pa.struct([("v", pa.timestamp("us", "UTC"))])
    array = pa.array([{"v": micros}, {"v": 0}], type_)
    assert encode(array, replace(SPEC, zone=zone))[0] == f'{{"v":"{text}"}}'


@pytest.mark.usefixtures("without_zones")
def test_a_zone_is_needed_only_by_timestamps() -> None:
    instants = pa.struct([("a", pa.list_(pa.timestamp("us", "UTC")))])
    for zone, text in (("Etc/UTC", "00.000Z"), ("GMT+2", "00.000+02:00"), ("EST", "00.000-05:00")):
        spec = EncoderSpec(format=Format.JSON, zone=zone)
        rows = pa.array([{"a": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]}], instants)
        assert (encode(rows, spec)[0] or "").endswith(f':00:{text}"]}}')
    spec = EncoderSpec(format=Format.JSON, zone="Asia/Pontianak")
    assert encode(pa.array([{"a": 1}]), spec) == ['{"a":1}']
    with pytest.raises(ConfigError, match=r"'Asia/Pontianak' is unknown .* package tzdata"):
        compile_encoder(spec, instants)


def test_null_structs_fields_and_values_below_them() -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    rows = [
        {"a": None, "s": {"x": 1, "y": ["p", None]}},
        None,
        {"a": "b", "s": None},
        {"a": None, "s": {"x": None, "y": None}},
        {},
    ]
    array = pa.array(rows, pa.struct([("a", pa.string()), ("s", inner)]))
    texts = ['{"s":{"x":1,"y":["p",null]}}', None, '{"a":"b"}', '{"s":{}}', "{}"]
    assert encode(array) == texts
    assert encode(array.slice(1, 3)) == texts[1:4]
    assert encode(array.slice(5)) == []
    with_nulls = EncoderSpec(format=Format.JSON, writes_nulls=True)
    assert encode(array.slice(2, 1), with_nulls) == ['{"a":"b","s":null}']


def test_strings_that_are_not_utf8_are_encoding_errors() -> None:
    names = pa.array([b"good", b"\xff", b"", b"\xc3\x28"]).cast(pa.binary())
    bad = pa.Array.from_buffers(pa.string(), 4, names.buffers())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), bad)
    rows = pa.StructArray.from_arrays([lists], ["names"])
    errors = EncodingErrors(3)
    compile_encoder(SPEC, rows.type).encode(rows, errors)
    assert list(errors) == [
        (1, "names[]", "is not valid UTF-8"),
        (2, "names[]", "is not valid UTF-8"),
    ]


def test_unsupported_types_are_rejected_with_their_path() -> None:
    type_ = pa.struct([("a", pa.list_(pa.struct([("b", pa.month_day_nano_interval())])))])
    with pytest.raises(ColumnError, match=r"`a\[\]\.b` .*month_day_nano_interval"):
        compile_encoder(SPEC, type_)


def test_rows_round_trip() -> None:
    values = [{"n": n, "f": n / 3, "s": "x" * (n % 30)} for n in range(1000)]
    texts = encode(pa.array(values))
    assert [json.loads(text) for text in texts if text] == values


def test_derived_schema_validates_the_rows() -> None:
    point = pa.struct([pa.field("x", pa.float64(), nullable=False), ("note", pa.string())])
    type_ = pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("points", pa.list_(point)),
            ("when", pa.date32()),
        ]
    )
    rows = [
        {"id": 1, "points": [{"x": 1.5, "note": None}, None], "when": dt.date(2020, 1, 1)},
        {"id": 2, "points": [{"x": float("nan"), "note": "n"}]},
    ]
    derived = derive_schema(Format.JSON_CONFLUENT, type_, "Order", "shop")
    assert derived.name == "shop.Order"
    schema = json.loads(derived.text)
    for nulls in (False, True):
        spec = EncoderSpec(format=Format.JSON, writes_nulls=nulls)
        for text in encode(pa.array(rows, type_), spec):
            jsonschema.validate(json.loads(text or ""), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"points": None}, schema)


@given(rows(TYPES))
def test_generated_rows_match_the_reference(generated: Generated) -> None:
    values = [read(text) for text in encode(generated.array())]
    assert values == [expected(generated.type, row) for row in generated.rows]
