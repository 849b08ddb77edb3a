"""Avro compared with fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.encoder_spec import (
    EncoderSpec,
    compile_encoder,
    derive_schema,
)
from tests.support.generated import OTHER_TYPES, PLAIN_TYPES, Generated, rows, types
from tests.unit.formats.avro.fastavro_rows import encode, read, record, try_to_encode, written

TYPES = types(PLAIN_TYPES + OTHER_TYPES, (pa.string(), pa.large_string()))


def for_fastavro(type_: pa.DataType, value: Any) -> Any:
    """Convert a value to fastavro's input."""
    if value is None:
        return None
    if isinstance(type_, pa.StructType):
        return {field.name: for_fastavro(field.type, value[field.name]) for field in type_}
    if isinstance(type_, pa.MapType):
        return {key: for_fastavro(type_.item_type, item) for key, item in value}
    if isinstance(type_, pa.ListType):
        return [for_fastavro(type_.value_type, item) for item in value]
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    return value


@given(rows(TYPES))
def test_generated_rows_match_fastavro(generated: Generated) -> None:
    derived = derive_schema(Format.AVRO, generated.type, "Order", "shop.v1")
    assert derived.name == "shop.v1.Order"
    schema = json.loads(derived.text)
    expected = [
        None if row is None else written(schema, for_fastavro(generated.type, row))
        for row in generated.rows
    ]
    assert encode(generated.array(), schema) == expected


@pytest.mark.parametrize(
    ("type_", "values", "schema", "expected"),
    [
        (pa.int8(), [1, -1], "long", [1, -1]),
        (pa.int64(), [2**31 - 1], "int", [2**31 - 1]),
        (pa.int32(), [3], "double", [3.0]),
        (pa.float32(), [0.5], "double", [0.5]),
        (pa.string(), ["é"], "bytes", ["é".encode()]),
        (pa.binary(), [b"ab"], {"type": "bytes", "logicalType": "big-decimal"}, [b"ab"]),
        (pa.binary(), ["é".encode()], "string", ["é"]),
        (pa.binary(), [b"abcd"], {"type": "fixed", "name": "F", "size": 4}, [b"abcd"]),
        (pa.string(), ["B", "A"], {"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["B", "A"]),
        (pa.int64(), [2**40, 3], ["null", "int", "long"], [2**40, 3]),
        (
            pa.decimal128(5, 2),
            [Decimal("-1.25"), Decimal("999.99"), Decimal("0.00"), Decimal("1.28")],
            {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4},
            [Decimal("-1.25"), Decimal("999.99"), Decimal("0.00"), Decimal("1.28")],
        ),
        (
            pa.decimal128(38, 0),
            [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(-1), Decimal(2**127 // 10**1)],
            {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 38},
            [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(-1), Decimal(2**127 // 10**1)],
        ),
        (
            pa.timestamp("us", "UTC"),
            [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)],
            {"type": "long", "logicalType": "timestamp-millis"},
            [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC)],
        ),
        (
            pa.time64("ns"),
            [dt.time(1, 2, 3, 4567)],
            {"type": "int", "logicalType": "time-millis"},
            [dt.time(1, 2, 3, 4000)],
        ),
    ],
)
def test_convertible_column_types(
    type_: pa.DataType, values: list[Any], schema: Any, expected: list[Any]
) -> None:
    array = pa.array([{"a": value} for value in values], pa.struct([("a", type_)]))
    whole = record(("a", schema))
    assert [read(whole, data)["a"] for data in encode(array, whole)] == expected


def test_minimal_decimals_match_java() -> None:
    bits, more, sign = range(126), (-1, 0, 1), (1, -1)
    edges = [power * (2**bit + step) for bit in bits for step in more for power in sign]
    type_ = pa.struct([("a", pa.decimal128(38, 0))])
    array = pa.array([{"a": Decimal(unscaled)} for unscaled in edges], type_)
    schema = record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 38}))
    sizes = [(unscaled ^ (unscaled >> 127)).bit_length() // 8 + 1 for unscaled in edges]
    expected = [
        bytes([size * 2]) + unscaled.to_bytes(size, "big", signed=True)
        for unscaled, size in zip(edges, sizes, strict=True)
    ]
    assert encode(array, schema) == expected


@pytest.mark.parametrize(
    ("type_", "values", "schema", "bad", "path", "problem"),
    [
        (pa.int32(), [1, None], "int", [1], "a", "is null, but must not be"),
        (
            pa.int64(),
            [2**31, 1, -(2**31), -(2**31) - 1],
            "int",
            [0, 3],
            "a",
            "has a number beyond 32 bits",
        ),
        (
            pa.timestamp("us", "UTC"),
            [None, dt.datetime(9999, 1, 1, tzinfo=dt.UTC)],
            ["null", {"type": "long", "logicalType": "timestamp-nanos"}],
            [1],
            "a",
            "has a number beyond 64 bits",
        ),
        (
            pa.list_(pa.string()),
            [["A"], None, ["A", "Z"], []],
            ["null", {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A"]}}],
            [2],
            "a[]",
            "is not in the enum",
        ),
        (
            pa.binary(),
            [b"ab", b"abc"],
            {"type": "fixed", "name": "F", "size": 2},
            [1],
            "a",
            "is not 2 bytes long",
        ),
        (
            pa.decimal128(6, 2),
            [Decimal("99.99"), Decimal("100.00"), Decimal("-100.00"), Decimal("-99.99")],
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            [1, 2],
            "a",
            "has more than 2 digits before the point",
        ),
        (
            pa.decimal128(38, 0),
            [Decimal(10**36), Decimal(10**36 - 1), Decimal(-(10**38) + 1)],
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            [0, 2],
            "a",
            "has more than 36 digits before the point",
        ),
        (
            pa.map_(pa.string(), pa.struct([("x", pa.int32())])),
            [[], [("k", {"x": 1}), ("l", {"x": None})]],
            {"type": "map", "values": record(("x", "int")) | {"name": "I"}},
            [1],
            "a.value.x",
            "is null, but must not be",
        ),
    ],
)
def test_rows_that_do_not_fit(
    type_: pa.DataType, values: list[Any], schema: Any, bad: list[int], path: str, problem: str
) -> None:
    array = pa.array([{"a": value} for value in values], pa.struct([("a", type_)]))
    encoded, errors = try_to_encode(array, record(("a", schema)))
    assert list(errors) == [(row, path, problem) for row in bad]
    good = [row for row in range(len(values)) if row not in bad]
    alone = encode(array.take(pa.array(good, pa.int64())), record(("a", schema)))
    assert [encoded[row] for row in good] == alone


@pytest.mark.parametrize(
    ("type_", "schema", "message"),
    [
        (
            pa.struct([("b", pa.int32())]),
            record(("a", "int")),
            "field `a` of n.R",
        ),
        (
            pa.struct([("a", pa.int32()), ("c", pa.int32())]),
            record(("a", "int")),
            "`c` is not a field",
        ),
        (pa.struct([("a", pa.string())]), record(("a", "int")), "`a` has type string"),
        (pa.struct([("a", pa.float64())]), record(("a", "float")), "Avro float"),
        *(
            (
                pa.struct([("a", type_)]),
                record(("a", {"type": "bytes", "logicalType": "big-decimal"})),
                r"Avro bytes \(big-decimal\)",
            )
            for type_ in (pa.string(), pa.int64(), pa.float64())
        ),
        (
            pa.struct([("a", pa.timestamp("us"))]),
            record(("a", {"type": "long", "logicalType": "timestamp-micros"})),
            "timestamp-micros",
        ),
        (
            pa.struct([("a", pa.list_(pa.map_(pa.int32(), pa.int32())))]),
            record(("a", {"type": "array", "items": {"type": "map", "values": "int"}})),
            r"`a\[\].key` has type int32",
        ),
    ],
)
def test_columns_that_do_not_fit_a_schema_are_rejected(
    type_: pa.StructType, schema: Any, message: str
) -> None:
    spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(schema))
    with pytest.raises(ColumnError, match=message):
        compile_encoder(spec, type_)


@pytest.mark.parametrize(
    ("size", "precision", "scale"),
    [
        (size, precision, scale)
        for size in (None, 20, 32, 40)
        for precision, scale in ((64, 20), (64, 40), (76, 38), (64, 10), (90, 45))
        if size is None or 10**precision < 1 << 8 * size - 1
    ],
)
def test_decimals_that_exceed_128_bits_with_the_scale_of_the_schema(
    size: int | None, precision: int, scale: int
) -> None:
    """Kafka Connect declares 64 digits if it does not know the precision."""
    numbers = ["12345678901234567890123456.5", "-1e-10", "0", "-0.1", "1e27", "-5e27", "127", "128"]
    values = [*map(Decimal, numbers), None]
    values = [value for value in values if not value or abs(value) < 10 ** (precision - scale)]
    array = pa.array([{"v": value} for value in values], pa.struct([("v", pa.decimal128(38, 10))]))
    fixed: dict[str, Any] = {"type": "fixed", "name": "F", "size": size}
    plain = {"type": "bytes"} if size is None else fixed
    logical = {**plain, "logicalType": "decimal", "precision": precision, "scale": scale}
    schema = record(("v", ["null", logical]))
    encoded, errors = try_to_encode(array, schema)
    assert not errors
    for value, data in zip(values, encoded, strict=True):
        source = io.BytesIO(data or b"")
        raw = read(record(("v", ["null", plain])), source.read())["v"]
        expected = None if value is None else int(value.scaleb(scale))
        assert (None if raw is None else int.from_bytes(raw, "big", signed=True)) == expected
        if expected is not None and size is None:  # as few bytes as in Java
            magnitude = expected if expected >= 0 else ~expected
            assert len(raw) == magnitude.bit_length() // 8 + 1


@pytest.mark.parametrize("start", ["timestamp", "local-timestamp"])
def test_first_and_last_timestamps_in_nanoseconds(start: str) -> None:
    last = (2**63 - 1) // 1000
    values = [last + 1, last, -last, -last - 1]
    type_ = pa.timestamp("us", "UTC" if start == "timestamp" else None)
    array = pa.array([{"v": value} for value in values], pa.struct([("v", type_)]))
    schema = record(("v", {"type": "long", "logicalType": f"{start}-nanos"}))
    encoded, errors = try_to_encode(array, schema)
    assert [*errors.rows] == [0, 3]
    plain = record(("v", "long"))
    assert [read(plain, data)["v"] for data in encoded[1:3]] == [1000 * last, -1000 * last]


def test_wide_decimals_that_do_not_fit() -> None:
    values = [Decimal(10**24), Decimal(10**26), Decimal(-(10**25)), Decimal(10**25 - 1)]
    array = pa.array([{"v": value} for value in values], pa.struct([("v", pa.decimal128(38, 10))]))
    logical = {"type": "bytes", "logicalType": "decimal", "precision": 45, "scale": 20}
    _, errors = try_to_encode(array, record(("v", logical)))
    assert list(errors) == [
        (row, "v", "has more than 25 digits before the point") for row in (1, 2)
    ]


def test_enum_without_symbols() -> None:
    enum = {"type": "enum", "name": "E", "symbols": []}
    _, errors = try_to_encode(pa.array([{"a": "x"}, {"a": None}]), record(("a", ["null", enum])))
    assert list(errors) == [(0, "a", "is not in the enum")]


@pytest.mark.parametrize(
    ("type_", "logical", "day"),
    [("int", "time-millis", 86_400_000), ("long", "time-micros", 86_400_000_000)],
)
def test_numbers_are_times_of_day(type_: str, logical: str, day: int) -> None:
    schema = record(("a", {"type": type_, "logicalType": logical}))
    rows = [{"a": number} for number in (0, day - 1, day, -1)]
    encoded, errors = try_to_encode(pa.array(rows, pa.struct([("a", pa.int64())])), schema)
    assert errors.rows.tolist() == [2, 3]
    assert [read(schema, data or b"")["a"] for data in encoded[:2]] == [
        dt.time(),
        dt.time.max.replace(microsecond=999_000 if type_ == "int" else 999_999),
    ]
