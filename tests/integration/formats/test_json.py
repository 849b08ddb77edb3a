"""Columns written as JSON: keys, values, tombstones, and rows that cannot be serialized."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_kafka_sink import ColumnError, DeliveryReport, EmbeddedBroker
from tests.integration.support.columnar import write_rows

ROWS = StructType([StructField("id", StringType()), StructField("text", StringType())])
JSON = {"value.format": "json"}
INVALID_UTF8 = b"\xff"


def test_columns_are_written_as_fields_and_key(broker: EmbeddedBroker, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": "1", "text": "ü"}, {"id": "2", "text": None}]
    report = str(tmp_path / "report.json")
    write_rows(broker, ROWS, rows, **JSON, **{"key.fields": "id", "reportPath": report})
    records = broker.records("events")
    assert [record.key for record in records] == [b"1", b"2"]
    assert [json.loads(record.value or b"") for record in records] == [
        {"id": "1", "text": "ü"},
        {"id": "2"},
    ]
    metrics = DeliveryReport.read(report).metrics
    assert metrics.serialize_time > 0
    assert dict(metrics.settings)["value.format"] == "json"


def test_null_struct_is_a_tombstone(broker: EmbeddedBroker) -> None:
    schema = StructType(
        [
            StructField("key", StringType()),
            StructField("value", StructType([StructField("n", LongType())])),
        ]
    )
    rows: list[dict[str, Any]] = [{"key": "a", "value": {"n": 1}}, {"key": "b", "value": None}]
    write_rows(broker, schema, rows, **JSON)
    values = [(record.key, record.value) for record in broker.records("events")]
    assert values == [(b"a", b'{"n":1}'), (b"b", None)]


def test_null_fields_are_written_on_request(broker: EmbeddedBroker) -> None:
    write_rows(
        broker, ROWS, [{"id": None, "text": "t"}], **JSON, **{"json.ignoreNullFields": "false"}
    )
    assert [record.value for record in broker.records("events")] == [b'{"id":null,"text":"t"}']


def test_invalid_utf8_fails_the_task(broker: EmbeddedBroker) -> None:
    rows: list[dict[str, Any]] = [{"id": "1", "text": "good"}, {"id": "2", "text": INVALID_UTF8}]
    with pytest.raises(ColumnError) as caught:
        write_rows(broker, ROWS, rows, **JSON, **{"key.fields": "id"})
    assert "the field `text` of the value is not valid UTF-8, first in row 1" in str(caught.value)
    assert "(key '2')" in str(caught.value)


def test_bad_rows_are_dead_letters_as_json(broker: EmbeddedBroker) -> None:
    rows = [{"id": str(n), "text": INVALID_UTF8 if n % 2 else "good"} for n in range(4)]
    write_rows(
        broker,
        ROWS,
        rows,
        **JSON,
        **{
            "key.fields": "id",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "dead",
        },
    )
    assert [record.key for record in broker.records("events")] == [b"0", b"2"]
    letters = broker.records("dead")
    assert [record.key for record in letters] == [b"1", b"3"]
    replaced = INVALID_UTF8.decode(errors="replace")
    assert [json.loads(record.value or b"") for record in letters] == [
        {"id": key, "text": replaced} for key in ("1", "3")
    ]
    headers = dict(letters[0].headers)
    message = (headers["__connect.errors.exception.message"] or b"").decode()
    assert "the field `text` of the value is not valid UTF-8" in message
    assert (headers["__connect.errors.exception.class.name"] or b"").endswith(b"ColumnError")
