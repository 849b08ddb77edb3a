"""Names and faults of Avro schemas."""

import json
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.avro.avro_schema import PRIMITIVES, AvroSchema
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from tests.unit.formats.avro.fastavro_rows import encode, read, record

UNTYPED: list[Any] = [{}, {"name": "string"}, {"type": {}}, None, 5, [None], [{}]]


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


def test_names_that_begin_with_a_dot_have_no_namespace() -> None:
    city = {"type": "record", "name": ".City", "fields": [{"name": "zip", "type": "string"}]}
    schema = record(("a", city), ("b", "City"), ("c", ".City"))
    (data,) = encode(pa.array([{name: {"zip": name} for name in "abc"}]), schema)
    plain = record(("a", {**city, "name": "n.City"}), ("b", "City"), ("c", "n.City"))
    assert read(plain, data) == {name: {"zip": name} for name in "abc"}
    assert AvroSchema.parse(json.dumps(city)).subject_name == "City"
