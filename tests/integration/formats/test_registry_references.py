"""Schemas of a registry that refer to other schemas."""

import json
from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.sql.types import (
    StringType,
    StructField,
    StructType,
)

from spark_kafka_sink import ColumnError
from tests.integration.formats.registry_sink import LATEST, RegistrySink


def test_references_are_resolved(sink: RegistrySink) -> None:
    sink.registry.put("money", json.dumps({"type": "fixed", "name": "com.x.Unused", "size": 4}))
    inner = {
        "type": "record",
        "name": "com.x.Name",
        "fields": [{"name": "first", "type": ["null", "string"]}],
    }
    sink.registry.put("name", json.dumps(inner))
    outer = {
        "type": "record",
        "name": "Value",
        "namespace": "com.x",
        "fields": [{"name": "name", "type": ["null", "Name"]}],
    }
    reference = {"name": "com.x.Name", "subject": "name", "version": 1}
    sink.registry.put("events-value", json.dumps(outer), references=[reference])
    nested = StructType([StructField("name", StructType([StructField("first", StringType())]))])
    rows: list[dict[str, Any]] = [{"name": {"first": "Ada"}}, {"name": None}]
    sink.write(nested, rows, **LATEST)
    assert [value[5:] for value in sink.values()] == [b"\x02\x02\x06Ada", b"\x00"]
    sink.registry.put("other", json.dumps(outer | {"name": "Other"}), references=[reference])
    events = ["com.x.Value", "com.x.Other"]
    union = [
        {"name": name, "subject": subject, "version": 1}
        for name, subject in zip(events, ("events-value", "other"), strict=True)
    ]
    sink.registry.put("events-value", json.dumps(events), references=union)
    chosen = {"value.schema.name": "Other"}
    sink.write(nested, rows, **LATEST, **chosen)
    assert [value[5:] for value in sink.values()][2:] == [b"\x02\x02\x02\x06Ada", b"\x02\x00"]
    options = sink.options | LATEST | chosen
    assert [record.value for record in sink.broker.records("events", options=options)] == rows * 2


def test_references_of_a_json_schema_are_resolved(sink: RegistrySink) -> None:
    first = {"$id": "http://x/first", "definitions": {"T": {"enum": ["Ada"]}}}
    sink.registry.put("first", json.dumps(first), "JSON")
    name = {"properties": {"first": {"$ref": "first.json#/definitions/T"}}, "required": ["first"]}
    inner = {"name": "first.json", "subject": "first", "version": 1}
    sink.registry.put("name", json.dumps(name), "JSON", references=[inner])
    reference = {"name": "http://x/name.json", "subject": "name", "version": 1}
    outer = {"properties": {"name": {"$ref": "http://x/name.json"}}}
    sink.registry.put("events-value", json.dumps(outer), "JSON", references=[reference])
    nested = StructType([StructField("name", StructType([StructField("first", StringType())]))])
    json_latest = {**LATEST, "value.format": "json-confluent"}
    sink.write(nested, [{"name": {"first": "Ada"}}], **json_latest)
    assert [value[5:] for value in sink.values()] == [b'{"name":{"first":"Ada"}}']
    with pytest.raises(ColumnError, match=r"`name.first` of the value is not in the schema's"):
        sink.write(nested, [{"name": {"first": "Bob"}}], **json_latest)
    # The reference `first.json` of another schema is another document.
    sink.registry.put("last", json.dumps({"definitions": {"T": {"enum": ["Lovelace"]}}}), "JSON")
    other = {"properties": {"last": {"$ref": "first.json#/definitions/T"}}}
    sink.registry.put("other", json.dumps(other), "JSON", references=[inner | {"subject": "last"}])
    references = [
        reference | {"name": f"http://y/{s}.json", "subject": s} for s in ("other", "name")
    ]
    both = {"properties": {r["subject"]: {"$ref": r["name"]} for r in references}}
    sink.registry.put("events-value", json.dumps(both), "JSON", references=references)
    fields = [StructField("first", StringType()), StructField("last", StringType())]
    types = [
        StructField(s, StructType([f])) for s, f in zip(("name", "other"), fields, strict=True)
    ]
    for last, fails in (("Lovelace", False), ("Ada", True)):
        row = {"name": {"first": "Ada"}, "other": {"last": last}}
        with pytest.raises(ColumnError, match=r"`other.last`") if fails else nullcontext():
            sink.write(StructType(types), [row], **json_latest)
