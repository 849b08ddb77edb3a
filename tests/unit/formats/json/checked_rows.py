"""Rows, parts of JSON Schemas, and the rows that do not match a JSON Schema."""

import json
import pickle
from collections.abc import Mapping
from typing import Any, cast

import jsonschema
import pyarrow as pa

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.cells import Cells
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from spark_kafka_sink.formats.json.json_check_compiler import compile_check
from spark_kafka_sink.formats.json.json_references import JsonReferences

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
NULLABLE = {"type": ["string", "null"]}
ROWS: list[Any] = [
    {"a": "x", "b": [1, 2], "c": {"d": "R", "e": None}},
    {"a": None, "b": [1, None], "c": {"d": "B", "e": 1}},
    {"a": "y", "b": None, "c": {"d": None, "e": 2}},
    {"a": "z", "b": [], "c": None},
    None,
]
NESTED = pa.struct([("d", pa.string()), ("e", pa.int64())])
ARRAY: Any = pa.array(
    ROWS, pa.struct([("a", pa.string()), ("b", pa.list_(pa.int32())), ("c", NESTED)])
)
DRAFTS = {
    jsonschema.Draft4Validator: "http://json-schema.org/draft-04/schema#",
    jsonschema.Draft6Validator: "http://json-schema.org/draft-06/schema#",
    jsonschema.Draft7Validator: "http://json-schema.org/draft-07/schema#",
    jsonschema.Draft201909Validator: "https://json-schema.org/draft/2019-09/schema",
    jsonschema.Draft202012Validator: "https://json-schema.org/draft/2020-12/schema",
}
OLD, NEW = [*DRAFTS][1:3], [*DRAFTS][3:]
INTEGER = {"type": "integer"}


def errors_of(
    array: pa.StructArray,
    schema: Any,
    others: Mapping[str, Any] | None = None,
    *,
    writes_nulls: bool = False,
) -> EncodingErrors:
    errors = EncodingErrors(len(array))
    texts = ((name, json.dumps(other)) for name, other in (others or {}).items())
    check = compile_check(json.dumps(schema), array.type, JsonReferences.of_main(*texts))
    if check is not None:
        check = pickle.loads(pickle.dumps(check))  # as for a task
        check(Cells(array, errors).without_nulls(), writes_nulls)
    return errors


def invalid_rows(array: pa.StructArray, schema: Any, *, writes_nulls: bool) -> list[int]:
    """Return the rows whose JSON is invalid."""
    spec = EncoderSpec(format=Format.JSON, writes_nulls=writes_nulls)
    encoded = compile_encoder(spec, array.type).encode(array, EncodingErrors(len(array)))
    validator = jsonschema.Draft202012Validator(schema)
    return [
        number
        for number, text in enumerate(encoded.to_pylist())
        if text is not None and not validator.is_valid(json.loads(text))
    ]


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def records(values: list[Any], type_: pa.DataType) -> pa.StructArray:
    fields = pa.struct([pa.field("v", type_, nullable=False)])
    return cast("pa.StructArray", pa.array([{"v": value} for value in values], fields))
