"""Avro types of single columns, texts of UUIDs, and rounded integers."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.avro.avro_schema import without_comments
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, Framing, compile_encoder
from tests.unit.formats.avro.fastavro_rows import encode, read, record, try_to_encode
from tests.unit.formats.avro.union_cases import ENUM, FOUR, MILLIS, NOON, encoded_by, logical


@pytest.mark.parametrize(
    ("type_", "values", "schema"),
    [
        (pa.string(), ["a", "é"], "string"),
        (pa.string(), ["a"], '["string", "long"]'),
        (pa.map_(pa.string(), pa.int32()), [{"a": 1}], '{"type": "map", "values": "int"}'),
        (pa.int64(), [1, -(2**63)], ' "long" '),
        (pa.int32(), [5], "long"),
        (pa.float64(), [0.5], "double"),
        (pa.bool_(), [True], "boolean"),
        (pa.binary(), [b"\xff"], "bytes"),
        (pa.string(), ["A"], json.dumps(ENUM)),
        (pa.binary(), [b"abcd"], json.dumps(FOUR)),
        (pa.timestamp("us", "UTC"), [NOON], json.dumps(MILLIS)),
        (pa.list_(pa.string()), [["a"], []], '{"type": "array", "items": "string"}'),
        (pa.string(), ["a"], '["null", "string", "long"]'),
        (pa.int64(), [1], '// the id\n{"type": /* of "keys" */ "long", "doc": "a // b"}'),
    ],
)
def test_single_column_without_a_record(type_: pa.DataType, values: list[Any], schema: str) -> None:
    array = pa.array([{"id": value} for value in [*values, None]], pa.struct([("id", type_)]))
    spec = EncoderSpec(format=Format.AVRO, schema=schema, fields=(0,))
    encoded = encoded_by(spec, array)
    parsed = json.loads(without_comments(schema))
    assert [read(parsed, data) for data in encoded[:-1]] == values
    assert encoded[-1] is None
    confluent = replace(spec, format=Format.AVRO_CONFLUENT, framing=Framing(b"\0\0\0\0\1"))
    framed = encoded_by(confluent, array)[0] or b""
    # Clients in Java and Python read and write bytes without their length.
    assert framed[5:] == (values[0] if schema == "bytes" else encoded[0])


def test_type_without_a_record_needs_one_column() -> None:
    spec = EncoderSpec(format=Format.AVRO, schema="string", fields=(0, 1))
    type_ = pa.struct([("a", pa.string()), ("b", pa.string())])
    with pytest.raises(ColumnError, match=r"Avro type string is written from one column.*2: a, b"):
        compile_encoder(spec, type_)
    with pytest.raises(ColumnError, match="the struct of all columns has type struct"):
        compile_encoder(replace(spec, fields=None, column=0), type_)


def test_schema_of_a_record_for_a_column_that_is_no_struct() -> None:
    """The other columns, which the record needs, are not selected."""
    spec = EncoderSpec(
        format=Format.AVRO,
        schema=json.dumps(record(("value", "long"), ("id", "string"))),
        fields=(0,),
        is_single=True,
    )
    with pytest.raises(ColumnError, match="`value` is not a struct") as caught:
        compile_encoder(spec, pa.struct([("value", pa.int64())]))
    assert "value.fields=" in str(caught.value)


@pytest.mark.parametrize("union", [False, True])
def test_texts_of_a_fixed_uuid(union: bool) -> None:
    uuids = ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-42661417ABCD"]
    texts = [*uuids, None, "x", uuids[0][:-1], f"{uuids[0]}0", uuids[0].replace("-", ""), "", "é"]
    array = pa.array([{"v": text} for text in texts])
    fixed = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    schema = record(("v", ["null", fixed, "string"] if union else ["null", fixed]))
    encoded, errors = try_to_encode(array, schema)
    plain = record(("v", ["null", {"type": "fixed", "name": "U", "size": 16}, "string"]))
    values = [read(plain, data)["v"] for data in encoded if data is not None]
    if union:
        assert not errors
        assert values == texts
    else:
        assert values[:3] == [UUID(uuids[0]).bytes, UUID(uuids[1]).bytes, None]
        assert [(error.row, error.problem) for error in errors] == [
            (row, "is not a UUID") for row in range(3, len(texts))
        ]


def test_texts_of_a_uuid() -> None:
    uuids = ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000"]
    texts = [*uuids, None, "x", uuids[0][:-1], f"{uuids[0]}0", uuids[0].replace("-", ""), ""]
    array = pa.array([{"v": text} for text in texts])
    schema = record(("v", ["null", logical("string", "uuid")]))
    encoded, errors = try_to_encode(array, schema)
    assert [(error.row, error.problem) for error in errors] == [
        (row, "is not a UUID") for row in range(3, len(texts))
    ]
    for text, data in zip(uuids, encoded, strict=False):
        assert read(schema, data) == {"v": UUID(text)}
    assert read(schema, encoded[2]) == {"v": None}
    union = ["bytes", logical("string", "uuid")]
    encoded, errors = try_to_encode(array.slice(0, 2), record(("v", union)))
    assert not errors
    encoded, errors = try_to_encode(array.slice(3), record(("v", union)))
    assert [read(record(("v", union)), data)["v"].decode() for data in encoded] == texts[3:]


@pytest.mark.parametrize("target", ["float", "double"])
def test_rounded_integers_are_bad_rows(target: str) -> None:
    largest = 2 ** (24 if target == "float" else 53)
    exact = [largest, -largest, 2 * largest, 2**62, -(2**63), 0]
    rounded = [largest + 1, -largest - 1, 2**63 - 1, -(2**63) + 1]
    array = pa.array([{"a": value} for value in exact + rounded], pa.struct([("a", pa.int64())]))
    encoded, errors = try_to_encode(array, record(("a", target)))
    assert errors.rows.tolist() == [*range(len(exact), len(array))]
    assert {error.problem for error in errors} == {
        f"is a number that a {32 if target == 'float' else 64}-bit float rounds"
    }
    assert [read(record(("a", target)), data)["a"] for data in encoded[: len(exact)]] == exact


@pytest.mark.parametrize(
    "annotation",
    [
        {"type": "long", "logicalType": "decimal"},
        {"type": "string", "logicalType": "timestamp-micros"},
        {"type": "long", "logicalType": ["x"]},
    ],
)
def test_invalid_logical_types_are_ignored(annotation: dict[str, Any]) -> None:
    value: Any = 7 if annotation["type"] == "long" else "x"
    array = pa.array([{"v": value}])
    data = encode(array, record(("v", annotation)))[0]
    assert read(record(("v", annotation["type"])), data) == {"v": value}
    with pytest.raises(ColumnError):
        encode(
            pa.array([{"v": NOON}], pa.struct([("v", pa.timestamp("us", "UTC"))])),
            record(("v", annotation)),
        )


@pytest.mark.parametrize(
    ("size", "precision"), [(0, 1), (0, 2**31 - 1), (2, 5), (4, 10), (4, 2**31 - 1)]
)
def test_decimals_that_exceed_their_fixed_type_are_bytes(size: int, precision: int) -> None:
    fixed = {"type": "fixed", "name": "F", "size": size}
    schema = record(("v", {**fixed, "logicalType": "decimal", "precision": precision}))
    array = pa.array([{"v": b"\1" * size}], pa.struct([("v", pa.binary())]))
    assert encode(array, schema) == [b"\1" * size]
    with pytest.raises(ColumnError, match=r"as Avro n\.F"):
        encode(pa.array([{"v": None}], pa.struct([("v", pa.decimal128(2, 0))])), schema)
