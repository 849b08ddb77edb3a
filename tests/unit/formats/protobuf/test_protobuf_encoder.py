"""Protobuf compared with Google's runtime."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    json_format,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import given

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import (
    EncoderSpec,
    Framing,
    compile_encoder,
    derive_schema,
)
from spark_kafka_sink.formats.protobuf.protobuf_indexes import message_indexes
from tests.support.generated import EPOCH, PLAIN_TYPES, Generated, rows, single_item_types

Proto = descriptor_pb2.FieldDescriptorProto
TYPES = single_item_types(
    (*PLAIN_TYPES, pa.large_string(), pa.duration("us"), pa.time64("ns")),
    (pa.string(), pa.int32(), pa.int64(), pa.bool_()),
)


def message_class(descriptor: str | descriptor_pb2.FileDescriptorProto, name: str) -> Any:
    """Return Google's class of a message."""
    if isinstance(descriptor, str):
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(descriptor))
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, duration_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(descriptor.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def fill(message: Any, type_: pa.StructType, row: dict[str, Any]) -> None:
    """Set the fields of a message to a row's values."""
    for field in type_:
        value = row[field.name]
        if value is not None:
            fill_field(message, field, value)


def fill_field(message: Any, field: pa.Field[Any], value: Any) -> None:
    target = getattr(message, field.name)
    if isinstance(field.type, pa.MapType):
        for key, item in value:
            if is_message(field.type.item_type):
                set_value(target[key], field.type.item_type, item)
            else:
                target[key] = plain(item)
    elif isinstance(field.type, pa.ListType):
        for item in value:
            if is_message(field.type.value_type):
                set_value(target.add(), field.type.value_type, item)
            else:
                target.append(plain(item))
    elif is_message(field.type):
        set_value(target, field.type, value)
    else:
        setattr(message, field.name, plain(value))


def is_message(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.StructType) or type_ in (
        pa.timestamp("us", "UTC"),
        pa.duration("us"),
    )


def set_value(message: Any, type_: pa.DataType, value: Any) -> None:
    message.SetInParent()
    if isinstance(type_, pa.StructType):
        fill(message, type_, value)
    elif isinstance(value, dt.timedelta):
        message.FromTimedelta(value)
    else:
        message.FromDatetime(value)


def plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    return f"{value:f}" if isinstance(value, Decimal) else value


def try_to_encode(
    array: pa.Array[Any], schema: str, name: str
) -> tuple[list[bytes | None], EncodingErrors]:
    errors = EncodingErrors(len(array))
    spec = EncoderSpec(format=Format.PROTOBUF, schema=schema, message=name)
    encoded = compile_encoder(spec, array.type).encode(array, errors)  # type: ignore[arg-type]
    encoded.validate(full=True)
    return encoded.to_pylist(), errors


@given(rows(TYPES))
def test_generated_rows_are_parsed_by_google(generated: Generated) -> None:
    derived = derive_schema(Format.PROTOBUF, generated.type, "Order", "shop.v1")
    assert derived.message == "shop.v1.Order"
    cls = message_class(derived.text, "shop.v1.Order")
    encoded, errors = try_to_encode(generated.array(), derived.text, "shop.v1.Order")
    assert not errors, list(errors)
    for row, data in zip(generated.rows, encoded, strict=True):
        assert (row is None) == (data is None)
        if row is None:
            continue
        expected = cls()
        fill(expected, generated.type, row)
        parsed = cls.FromString(data)
        assert parsed.SerializeToString(deterministic=True) == expected.SerializeToString(
            deterministic=True
        )


def file(*fields: dict[str, Any], syntax: str = "proto3") -> descriptor_pb2.FileDescriptorProto:
    """Return a file with the messages p.Other and p.M."""
    built = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax=syntax)
    built.dependency.append("google/protobuf/wrappers.proto")
    built.message_type.add(name="Other")
    message = built.message_type.add(name="M")
    enum = built.enum_type.add(name="Color")
    for name, number in (("RED", 0), ("GREEN", 5), ("NEGATIVE", -1)):
        enum.value.add(name=name, number=number)
    for number, field in enumerate(fields, 1):
        message.field.add(**{"name": "a", "label": Proto.LABEL_OPTIONAL, "number": number, **field})
    return built


def encoded_text(built: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(built.SerializeToString()).decode()


@pytest.mark.parametrize(
    ("type_", "values", "field", "expected"),
    [
        (pa.int64(), [-5, 2**31 - 1], {"type": Proto.TYPE_SINT32}, [-5, 2**31 - 1]),
        (pa.int32(), [-5, 7], {"type": Proto.TYPE_SFIXED32}, [-5, 7]),
        (pa.int64(), [-5, 7], {"type": Proto.TYPE_SFIXED64}, [-5, 7]),
        (pa.int64(), [2**32 - 1], {"type": Proto.TYPE_FIXED32}, [2**32 - 1]),
        (pa.int64(), [2**63 - 1], {"type": Proto.TYPE_FIXED64}, [2**63 - 1]),
        (pa.int64(), [2**63 - 1, 0], {"type": Proto.TYPE_UINT64}, [2**63 - 1, 0]),
        (pa.float32(), [0.5], {"type": Proto.TYPE_DOUBLE}, [0.5]),
        (pa.binary(), ["é".encode()], {"type": Proto.TYPE_STRING}, ["é"]),
        (
            pa.string(),
            ["GREEN", "NEGATIVE"],
            {"type": Proto.TYPE_ENUM, "type_name": ".p.Color"},
            [5, -1],
        ),
        (pa.int32(), [5], {"type": Proto.TYPE_ENUM, "type_name": ".p.Color"}, [5]),
        (pa.null(), [None], {"type": Proto.TYPE_STRING}, [""]),
    ],
)
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_convertible_column_types(
    type_: pa.DataType, values: list[Any], field: dict[str, Any], expected: list[Any], syntax: str
) -> None:
    built = file(field, syntax=syntax)
    array = pa.array([{"a": value} for value in values], pa.struct([("a", type_)]))
    encoded, errors = try_to_encode(array, encoded_text(built), "p.M")
    assert not errors
    cls = message_class(built, "p.M")
    assert [cls.FromString(data).a for data in encoded] == expected


@pytest.mark.parametrize("packed", [None, True, False])
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_lists_are_packed_as_declared(syntax: str, packed: bool | None) -> None:
    field: dict[str, Any] = {"type": Proto.TYPE_INT32, "label": Proto.LABEL_REPEATED}
    if packed is not None:
        field["options"] = descriptor_pb2.FieldOptions(packed=packed)
    built = file(field, syntax=syntax)
    lists: list[Any] = [[1, -1, 300], [], None, [7]]
    array = pa.array(
        [{"a": numbers} for numbers in lists], pa.struct([("a", pa.list_(pa.int32()))])
    )
    encoded, _ = try_to_encode(array, encoded_text(built), "p.M")
    cls = message_class(built, "p.M")
    assert encoded == [cls(a=numbers or []).SerializeToString() for numbers in lists]
    void = pa.array(
        [{"a": []}, {"a": None}, {"a": [None]}], pa.struct([("a", pa.list_(pa.null()))])
    )
    encoded, errors = try_to_encode(void, encoded_text(built), "p.M")
    assert (encoded[:2], errors.rows.tolist()) == ([b"", b""], [2])


def test_wrappers_distinguish_null_and_zero() -> None:
    kinds = {"i": "Int64Value", "s": "StringValue"}
    fields = [
        {"name": name, "type": Proto.TYPE_MESSAGE, "type_name": f".google.protobuf.{kind}"}
        for name, kind in kinds.items()
    ]
    built = file(*fields)
    array = pa.array([{"i": 0, "s": None}, {"i": None, "s": "x"}])
    encoded, _ = try_to_encode(array, encoded_text(built), "p.M")
    first, second = map(message_class(built, "p.M").FromString, encoded)
    assert (first.HasField("i"), first.i.value, first.HasField("s")) == (True, 0, False)
    assert (second.HasField("i"), second.s.value) == (False, "x")


@pytest.mark.parametrize(
    ("type_", "values", "field", "bad", "path", "problem"),
    [
        (
            pa.int32(),
            [1, None],
            {"type": Proto.TYPE_INT32, "label": Proto.LABEL_REQUIRED},
            [1],
            "a",
            "is null, but must not be",
        ),
        (
            pa.int64(),
            [2**31, 1, None, -(2**31) - 1],
            {"type": Proto.TYPE_INT32},
            [0, 3],
            "a",
            "has a number out of the range of int32",
        ),
        (
            pa.int8(),
            [-1, 1],
            {"type": Proto.TYPE_UINT32},
            [0],
            "a",
            "has a number out of the range of uint32",
        ),
        (
            pa.list_(pa.string()),
            [["RED"], None, ["RED", "BLUE"], [], ["GREEN", None]],
            {"type": Proto.TYPE_ENUM, "type_name": ".p.Color", "label": Proto.LABEL_REPEATED},
            [2],
            "a[]",
            "is not in the enum",
        ),
        (
            pa.list_(pa.string()),
            [["x"], ["x", None]],
            {"type": Proto.TYPE_STRING, "label": Proto.LABEL_REPEATED},
            [1],
            "a[]",
            "is null, but must not be",
        ),
        (
            pa.decimal128(20, 0),
            [Decimal(0), Decimal(2**64 - 1), Decimal(2**64), None, Decimal(-1)],
            {"type": Proto.TYPE_UINT64},
            [2, 4],
            "a",
            "has a number out of the range of uint64",
        ),
    ],
)
def test_rows_that_do_not_fit(
    type_: pa.DataType,
    values: list[Any],
    field: dict[str, Any],
    bad: list[int],
    path: str,
    problem: str,
) -> None:
    array = pa.array([{"a": value} for value in values], pa.struct([("a", type_)]))
    schema = encoded_text(file(field, syntax="proto2"))
    encoded, errors = try_to_encode(array, schema, "p.M")
    assert [error for error in errors if error.problem == problem] == [
        (row, path, problem) for row in bad
    ]
    good = [row for row in range(len(values)) if row not in errors.rows]
    alone, _ = try_to_encode(array.take(pa.array(good, pa.int64())), schema, "p.M")
    assert [encoded[row] for row in good] == alone


@pytest.mark.parametrize(
    ("type_", "field", "message"),
    [
        (pa.struct([("b", pa.int32())]), {"type": Proto.TYPE_INT32}, "`b` is not a field"),
        (
            pa.struct([]),
            {"type": Proto.TYPE_INT32, "label": Proto.LABEL_REQUIRED},
            "required field `a`",
        ),
        (pa.struct([("a", pa.string())]), {"type": Proto.TYPE_INT32}, "Protobuf int32"),
        (
            pa.struct([("a", pa.list_(pa.int32()))]),
            {"type": Proto.TYPE_INT32},
            "`a` has type list",
        ),
        (
            pa.struct([("a", pa.struct([("x", pa.int32())]))]),
            {"type": Proto.TYPE_MESSAGE, "type_name": ".p.Other"},
            "`a.x` is not a field",
        ),
    ],
)
def test_columns_that_do_not_fit_a_schema_are_rejected(
    type_: pa.StructType, field: dict[str, Any], message: str
) -> None:
    schema = encoded_text(file(field, syntax="proto2"))
    with pytest.raises(ColumnError, match=message):
        compile_encoder(EncoderSpec(format=Format.PROTOBUF, schema=schema, message="p.M"), type_)


@pytest.mark.parametrize("schema", ["", "!", "bm90IGEgZGVzY3JpcHRvcg=="])
def test_invalid_descriptor_is_rejected(schema: str) -> None:
    with pytest.raises(ConfigError, match=r"not a descriptor|has no message"):
        compile_encoder(EncoderSpec(format=Format.PROTOBUF, schema=schema), pa.struct([]))


def test_indexes_lead_to_nested_messages() -> None:
    built = file()
    built.message_type[1].nested_type.add(name="First")
    built.message_type[1].nested_type.add(name="Second").nested_type.add(name="Deep")
    schema = encoded_text(built)
    assert message_indexes(schema, None) == (0,)
    assert message_indexes(schema, "p.M") == (1,)
    assert message_indexes(schema, "p.M.Second.Deep") == (1, 1, 0)
    with pytest.raises(ConfigError, match=r"'p\.X'"):
        message_indexes(schema, "p.X")


def test_prefix_precedes_each_payload_except_tombstones() -> None:
    array: Any = pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())]))
    derived = derive_schema(Format.PROTOBUF, array.type, "M")
    spec = EncoderSpec(
        format=Format.PROTOBUF, schema=derived.text, framing=Framing(b"\0\0\0\0\1\0")
    )
    encoded = compile_encoder(spec, array.type).encode(array, EncodingErrors(2))
    assert encoded.to_pylist() == [b"\0\0\0\0\1\0\x08\1", None]


@pytest.mark.parametrize("kind", ["uint64", "fixed64"])
def test_decimals_are_written_as_unsigned_numbers(kind: str) -> None:
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 300]
    type_ = Proto.TYPE_UINT64 if kind == "uint64" else Proto.TYPE_FIXED64
    schema = encoded_text(file({"type": type_}, syntax="proto2"))
    array = pa.array([{"a": Decimal(v)} for v in values], pa.struct([("a", pa.decimal128(20, 0))]))
    encoded, errors = try_to_encode(array, schema, "p.M")
    assert not errors
    class_ = message_class(schema, "p.M")
    assert [class_.FromString(data).a for data in encoded] == values


@pytest.mark.parametrize("scale", [-3, 0, 3])
def test_decimals_are_written_as_texts_without_an_exponent(scale: int) -> None:
    values = [Decimal(sign * number).scaleb(-scale) for sign in (1, -1) for number in (0, 1, 12300)]
    array = pa.array([{"a": v} for v in values], pa.struct([("a", pa.decimal128(9, scale))]))
    derived = derive_schema(Format.PROTOBUF, array.type, "M", "p")
    encoded, errors = try_to_encode(array, derived.text, "p.M")
    assert not errors
    class_ = message_class(derived.text, "p.M")
    texts = [class_.FromString(data).a for data in encoded]
    assert [Decimal(text) for text in texts] == values
    assert not any("E" in text or text.startswith(("00", "-00")) for text in texts)


@pytest.mark.parametrize("type_", [pa.timestamp("us", "UTC"), pa.duration("us")])
def test_times_that_readers_reject(type_: pa.DataType) -> None:
    """Google's runtime checks the range of Timestamp and Duration when it writes them as JSON."""
    seconds = [-62_135_596_800, 253_402_300_799, 315_576_000_000, -315_576_000_000]
    near = [1_000_000 * second + step for second in seconds for step in (-1, 0, 1, 999_999, 10**6)]
    values = [*near, 0, 2**63 - 1, -(2**63)]
    array = pa.array([{"a": value} for value in values], pa.struct([("a", type_)]))
    derived = derive_schema(Format.PROTOBUF, array.type, "M", "p")
    encoded, errors = try_to_encode(array, derived.text, "p.M")
    class_ = message_class(derived.text, "p.M")
    for row, data in enumerate(encoded):
        try:
            json_format.MessageToJson(class_.FromString(data))
        except (ValueError, json_format.Error):
            assert row in errors.rows, values[row]
        else:
            assert row not in errors.rows, values[row]


def test_entries_of_a_map_from_a_list_of_structs_need_a_key_and_a_value() -> None:
    derived = derive_schema(
        Format.PROTOBUF, pa.struct([("m", pa.map_(pa.string(), pa.int32()))]), "M", "p"
    )
    entry = pa.struct([("key", pa.string()), ("value", pa.int32())])
    rows: list[Any] = [[("a", 1)], [(None, 1)], [("a", None)], [], None]
    array = pa.array(
        [
            {"m": row and [dict(zip(("key", "value"), pair, strict=True)) for pair in row]}
            for row in rows
        ],
        pa.struct([("m", pa.list_(entry))]),
    )
    encoded, errors = try_to_encode(array, derived.text, "p.M")
    assert [*errors.rows] == [1, 2]
    assert message_class(derived.text, "p.M").FromString(encoded[0]).m == {"a": 1}
