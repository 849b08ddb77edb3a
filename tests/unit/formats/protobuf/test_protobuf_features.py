"""Features of editions, and groups, compared with Google's runtime."""

import base64
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.decoder import decode_payload
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema
from tests.support.protoc import compile_files, message_class
from tests.unit.formats.protobuf.encoded_messages import (
    CLOSED,
    E2023,
    INNER,
    PROTO2,
    encode,
    part,
    set_in_base64,
)

DELIMITED = "option features.message_encoding = DELIMITED; "


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (INNER + "message E { S m = 1 [features.message_encoding = DELIMITED]; }", {"m": {"x": 5}}),
        (DELIMITED + INNER + "message E { repeated S m = 1; }", {"m": [{"x": 5}, {"x": 6}]}),
        (DELIMITED + INNER + "message E { map<string, S> m = 1; }", {"m": [("k", {"x": 5})]}),
        (
            DELIMITED + "message E { message I { E e = 1; int32 n = 2; } I i = 1; }",
            {"i": {"e": {"i": {"n": 3}}, "n": 4}},
        ),
        (
            INNER + "message E { oneof o { S m = 1 [features.message_encoding = DELIMITED]; } }",
            {"m": {"x": 5}},
        ),
        ("message E { repeated int32 n = 1; }", {"n": [1, 300]}),
        (
            (
                "option features.repeated_field_encoding = EXPANDED; message E {"
                " repeated bool b = 2 [features.repeated_field_encoding = PACKED];"
                " repeated int32 n = 1; }"
            ),
            {"n": [1, 300], "b": [True, False]},
        ),
        ("message E { int32 n = 1 [features.field_presence = LEGACY_REQUIRED]; }", {"n": 0}),
        ("option features.field_presence = IMPLICIT; message E { int32 n = 1; }", {"n": 7}),
        ("message E { string s = 1 [features.utf8_validation = NONE]; }", {"s": "é"}),
        (
            (
                'import "google/protobuf/cpp_features.proto";'
                'import "google/protobuf/java_features.proto";'
                "option features.(pb.cpp).string_type = CORD;"
                "option features.(pb.java).utf8_validation = VERIFY;"
                "message E { string s = 1 [features.(pb.cpp).string_type = VIEW];"
                " repeated int32 n = 2 [features.repeated_field_encoding = EXPANDED]; }"
            ),
            {"s": "é", "n": [1, 2]},
        ),
        (
            (
                PROTO2 + 'import "google/protobuf/descriptor.proto";'
                "message Options { optional group Sub = 1 { optional int32 x = 1;"
                " optional group Inner = 2 { optional string y = 1; } } optional fixed64 f = 3; }"
                "extend google.protobuf.FieldOptions { optional group Rule = 50001 { optional"
                " Options o = 1; } optional Options options = 50002; }"
                "extend google.protobuf.FileOptions { optional Options file_options = 50001; }"
                "option (file_options).sub.inner.y = 'a';"
                "message E { optional int32 n = 1 [(rule).o.sub.x = 5, (options).f = 7]; }"
            ),
            {"n": 7},
        ),
        (PROTO2 + "message E { optional group G = 1 { required int32 x = 1; } }", {"g": {"x": 2}}),
        (
            PROTO2
            + "message E { repeated group G = 1 { optional E e = 1; } optional int32 n = 2; }",
            {"g": [{"e": {"n": 3}}, {"e": {"n": 4}}]},
        ),
    ],
)
def test_features_and_groups_are_encoded_like_google(text: str, row: dict[str, Any]) -> None:
    text = text if text.startswith("syntax") else E2023 + text
    schema = set_in_base64(text)
    cls = message_class(compile_files({"m.proto": text}).values(), "p.E")
    maps = {"m": pa.map_(pa.string(), pa.struct([("x", pa.int32())]))} if "map<" in text else {}
    columns = [pa.array([value], maps.get(name)) for name, value in row.items()]
    array: Any = pa.StructArray.from_arrays(columns, [*row])
    encoded, errors = encode(schema, array)
    assert not errors
    value = {key: dict(entry) if key in maps else entry for key, entry in row.items()}
    expected = json_format.ParseDict(value, cls())
    assert encoded == [expected.SerializeToString(deterministic=True)]
    assert cls.FromString(encoded[0]).IsInitialized()
    assert decode_payload(Format.PROTOBUF, configured_schema(part(schema, "p.E")), encoded[0])


def test_legacy_required_field() -> None:
    text = E2023 + "message E { string must = 1 [features.field_presence = LEGACY_REQUIRED]; "
    schema = set_in_base64(text + "string id = 2; }")
    with pytest.raises(ColumnError, match="required field `must`"):
        encode(schema, pa.array([{"id": "a"}]))
    _, errors = encode(schema, pa.array([{"must": "a"}, {"must": None}]))
    assert errors == [(1, "must", "is null, but must not be")]


@pytest.mark.parametrize(
    ("text", "is_closed"),
    [
        (E2023 + CLOSED + "message E { Color c = 1; }", True),
        (
            E2023 + "option features.enum_type = CLOSED; enum Color { RED = 0; }"
            " message E { Color c = 1; }",
            True,
        ),
        (E2023 + "enum Color { RED = 0; } message E { Color c = 1; }", False),
        (PROTO2 + "enum Color { RED = 0; } message E { optional Color c = 1; }", True),
    ],
)
def test_numbers_that_readers_of_a_closed_enum_drop(text: str, is_closed: bool) -> None:
    encoded, errors = encode(set_in_base64(text), pa.array([{"c": 0}, {"c": 7}, {"c": None}]))
    assert errors == ([(1, "c", "is not in the enum")] if is_closed else [])
    cls = message_class(compile_files({"m.proto": text}).values(), "p.E")
    assert cls.FromString(encoded[1]).HasField("c") is not is_closed


@pytest.mark.parametrize(
    ("edition", "features", "problem"),
    [
        ("99999_TEST_ONLY", {}, "unsupported edition 99999"),
        ("2023", {"field_presence": 0}, "feature field_presence to the unsupported value 0"),
    ],
)
def test_unknown_editions_and_features_are_rejected(
    edition: str, features: dict[str, Any], problem: str
) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="editions")
    file.edition = descriptor_pb2.Edition.Value(f"EDITION_{edition}")
    file.options.features.MergeFrom(descriptor_pb2.FeatureSet(**features))
    file.message_type.add(name="E")
    schema = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(ConfigError, match=problem):
        encode(schema, pa.array([{}], pa.struct([])))
