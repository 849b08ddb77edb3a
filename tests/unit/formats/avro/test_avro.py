"""Avro compared with fastavro, which encodes and decodes row by row."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.avro.avro_schema import PRIMITIVES
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import (
    EncoderSpec,
    Framing,
    compile_encoder,
    derive_schema,
)
from tests.unit.formats.avro.fastavro_rows import encode, read, record, try_to_encode, written
from tests.unit.formats.generated import OTHER_TYPES, PLAIN_TYPES, Generated, rows, types

TYPES = types(PLAIN_TYPES + OTHER_TYPES, (pa.string(), pa.large_string()))
UNTYPED: list[Any] = [{}, {"name": "string"}, {"type": {}}, None, 5, [None], [{}]]
UUID = {"type": "string", "logicalType": "uuid"}
TIME = {"type": "int", "logicalType": "time-millis"}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 4}


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


def test_fields_are_matched_by_name_and_filled_with_defaults() -> None:
    array = pa.array([{"b": 1, "a": "x"}, {"b": None, "a": "y"}])
    schema = record(
        ("a", ["string", "null"]),
        {
            "name": "color",
            "type": {"type": "enum", "name": "C", "symbols": ["R", "G"]},
            "default": "G",
        },
        {"name": "tags", "type": {"type": "array", "items": "int"}, "default": [1, -2]},
        {"name": "m", "type": {"type": "map", "values": "double"}, "default": {"k": 0.5}},
        {"name": "in", "type": record(("x", "long")) | {"name": "I"}, "default": {"x": 7}},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        ("nothing", ["int", "null"]),
        ("b", ["null", "long"]),
    )
    filled = {
        "color": "G", "tags": [1, -2], "m": {"k": 0.5}, "in": {"x": 7}, "raw": b"\xff",
        "nothing": None,
    }  # fmt: skip
    values = [read(schema, data) for data in encode(array, schema)]
    assert values == [{"a": "x", "b": 1, **filled}, {"a": "y", "b": None, **filled}]


@pytest.mark.parametrize("type_", ["float", "double", ["float", "null"]])
@pytest.mark.parametrize("default", ["NaN", "Infinity", "-Infinity"])
def test_default_that_json_numbers_cannot_represent(default: str, type_: Any) -> None:
    """Java prints such a default as text."""
    schema = record(("a", "int"), {"name": "f", "type": type_, "default": default})
    (data,) = encode(pa.array([{"a": 1}]), schema)
    assert repr(read(schema, data)["f"]) == repr(float(default))


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
    ("schema", "message"),
    [
        ("{", "it is not JSON"),
        *(
            (json.dumps({"type": kind, **attributes}), f"type {kind} needs a name and {needed}")
            for kind, needed, content in (
                ("record", "fields", []),
                ("error", "fields", []),
                ("enum", "symbols", ["A"]),
                ("fixed", "size", 4),
            )
            for attributes in (
                {needed: content},
                {"name": "R"},
                {"name": ["R"], needed: content},
                {"name": "R", needed: "A B"},
            )
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"x.Y"}]}',
            "'x.Y' is not declared",
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"1"}]}',
            'the default "1" of `a` does not fit the type int',
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"NaN"}]}',
            'the default "NaN" of `a` does not fit the type int',
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"float","default":1e39}]}',
            r"the default 1e\+39 of `a` does not fit the type float",
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"R","default":{}}]}',
            "the default {} of `a` does not fit the type R",
        ),
        *(
            (json.dumps({**record(("v", "int")), "name": name, "namespace": ""}), f"a {name} is a")
            for name in sorted(PRIMITIVES)
        ),
        *((json.dumps(record(("v", part))), "has no type") for part in UNTYPED),
        ('{"subject": "s", "version": 1, "id": 5, "schema": "{}"}', "has no type"),
        ('{"protocol": "p", "types": []}', "has no type"),
        ('{"type":"fixed","name":"F","size":-1}', "the size of F is negative"),
        ('["null",["int"]]', "a union contains a union"),
        ('["null","int","int"]', "a union has 'int' twice"),
        (json.dumps(record(("v", "int"), ("v", "long"))), "n.R has 'v' twice"),
        (json.dumps(record(("a.b", "int"))), "'a.b' is not a valid name"),
        ('{"type":"enum","name":"E","symbols":["A","B","A"]}', "E has 'A' twice"),
        ('{"type":"enum","name":"E","symbols":["1X"]}', "'1X' is not a valid name"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"Z"}', "'Z' is not a symbol of E"),
        ('{"type":"fixed","name":"1 x","size":4}', "'1 x' is not a valid name"),
        (
            json.dumps([record(("v", "int")), record(("v", "long"))]),
            "the type n.R is declared twice",
        ),
        (
            '{"type":"array","items":{"type":"map","values":["int",{"type":["string"]}]}}',
            "a union contains a union",
        ),
    ],
)
def test_invalid_schemas_are_rejected(schema: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_encoder(EncoderSpec(format=Format.AVRO, schema=schema), pa.struct([]))


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        (UUID, ""),
        (UUID, "00000000"),
        (UUID, "0" * 16),
        (UUID, f"{uuid.UUID(int=5)}\n"),
        ([UUID, "null"], "x"),
        (TIME, 86_400_000),
        ({"type": "long", "logicalType": "time-micros"}, -1),
        (AMOUNT, ""),
        ({**AMOUNT, "logicalType": "big-decimal"}, ""),
        ({"type": "array", "items": UUID}, [""]),
        ({**record(("u", UUID)), "name": "Inner"}, {"u": ""}),
    ],
)
def test_defaults_without_their_logical_meaning(schema: Any, default: Any) -> None:
    text = record(("v", "int"))
    text["fields"].append({"name": "x", "type": schema, "default": default})
    array = pa.array([{"v": 1}], pa.struct([("v", pa.int32())]))
    with pytest.raises(ConfigError, match="of `x` does not fit the type"):
        encode(array, text)
    written_column = pa.array(
        [{"v": 1, "x": None}], pa.struct([("v", pa.int32()), ("x", pa.null())])
    )
    if isinstance(schema, list):  # The default is not needed.
        assert read(text, encode(written_column, text)[0]) == {"v": 1, "x": None}


@pytest.mark.parametrize(
    ("schema", "default", "expected"),
    [
        (UUID, str(uuid.UUID(int=5)), uuid.UUID(int=5)),
        (TIME, 86_399_999, dt.time(23, 59, 59, 999_000)),
        (AMOUNT, "\0", Decimal(0)),
        (AMOUNT, "\u00ff", Decimal(-1)),
        ({"type": "string", "logicalType": "unknown"}, "", ""),
    ],
)
def test_defaults_with_logical_types(schema: Any, default: Any, expected: Any) -> None:
    text = record(("v", "int"))
    text["fields"].append({"name": "x", "type": schema, "default": default})
    (data,) = encode(pa.array([{"v": 1}], pa.struct([("v", pa.int32())])), text)
    assert read(text, data) == {"v": 1, "x": expected}


@pytest.mark.parametrize("size", [None, 20, 32, 40])
@pytest.mark.parametrize(("precision", "scale"), [(64, 20), (64, 40), (76, 38), (64, 10), (90, 45)])
def test_decimals_that_exceed_128_bits_with_the_scale_of_the_schema(
    precision: int, scale: int, size: int | None
) -> None:
    """Kafka Connect declares 64 digits if it does not know the precision."""
    if size is not None and 10**precision >= 1 << 8 * size - 1:
        return
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


def test_names_are_resolved_in_namespaces_and_other_branches() -> None:
    city = {"type": "record", "name": "geo.City", "fields": [{"name": "zip", "type": "string"}]}
    tree = record(("city", "geo.City"), ("next", ["null", "R"]), ("other", "R2"))
    other = {
        "type": "record",
        "name": "n.R2",
        "fields": [{"name": "home", "type": ["null", city]}],
    }
    city_type = pa.struct([("zip", pa.string())])
    inner = pa.struct([("city", city_type), ("other", pa.struct([("home", city_type)]))])
    type_ = pa.struct([*inner, ("next", inner)])
    row = {"city": {"zip": "1"}, "other": {"home": {"zip": "2"}}}
    named = [other, "geo.City", tree]
    spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(named))
    encoder = compile_encoder(spec, type_)
    array = pa.array([{**row, "next": row}], type_)
    data = encoder.encode(array, EncodingErrors(1))[0].as_py()  # type: ignore[arg-type]
    assert read(named, data or b"") == {**row, "next": {**row, "next": None}}


@pytest.mark.parametrize("name", ["record", "error", "enum", "fixed", "array", "map", "union"])
def test_types_with_the_name_of_a_kind(name: str) -> None:
    def tree(name: str) -> Any:
        fields = [{"name": "id", "type": "int"}, {"name": "next", "type": ["null", name]}]
        return {"type": "record", "name": name, "fields": fields}

    (data,) = encode(pa.array([{"id": 1, "next": {"id": 2}}]), tree(name))
    # Names are not encoded; fastavro cannot read these.
    assert read(tree("Tree"), data) == {"id": 1, "next": {"id": 2, "next": None}}


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


def test_union_of_null_and_a_record() -> None:
    schema = ["null", record(("a", "int"))]
    array = pa.array([{"a": 5}, None], pa.struct([("a", pa.int32())]))
    assert encode(array, schema) == [b"\2\n", None]


def test_prefix_precedes_each_payload_except_tombstones() -> None:
    array = pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())]))
    framing = Framing(b"\0\0\0\0\1")
    spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(record(("a", "int"))), framing=framing)
    encoded = compile_encoder(spec, array.type).encode(array, EncodingErrors(2))  # type: ignore[arg-type]
    assert encoded.to_pylist() == [b"\0\0\0\0\1\2", None]


def test_derived_names_follow_the_path() -> None:
    point = pa.struct([pa.field("x", pa.decimal128(9, 2), nullable=False)])
    type_ = pa.struct([("points", pa.list_(pa.field("element", point, nullable=False)))])
    schema = json.loads(derive_schema(Format.AVRO, type_, "Order", "shop").text)
    items = schema["fields"][0]["type"][1]["items"]
    assert (items["namespace"], items["name"]) == ("shop.Order", "points")
    fixed = items["fields"][0]["type"]
    assert (fixed["namespace"], fixed["name"], fixed["size"]) == ("shop.Order.points.x", "fixed", 4)
    assert schema["fields"][0]["default"] is None


def test_derived_record_has_no_primitive_name() -> None:
    type_ = pa.struct([("string", pa.struct([("int", pa.struct([("a", pa.int32())]))]))])
    with pytest.raises(ConfigError, match="a string is a primitive type"):
        derive_schema(Format.AVRO, type_, "string")
    assert derive_schema(Format.AVRO, type_, "string", "n").name == "n.string"


@pytest.mark.parametrize("name", ["1st", "with space", "é", ""])
def test_columns_with_invalid_avro_names_are_rejected(name: str) -> None:
    type_ = pa.struct([("s", pa.struct([(name, pa.int32())]))])
    with pytest.raises(ColumnError, match="Avro does not allow"):
        derive_schema(Format.AVRO, type_, "Order")
