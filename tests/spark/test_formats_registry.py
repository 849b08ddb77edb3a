"""Schemas of a registry in streams that restart in the same session after an evolution."""

import json
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from tests.spark.support.sink import Sink
from tests.spark.support.stream import WAIT_S, Stream
from tests.support.schema_registry import SmallRegistry

LATEST = {
    "value.format": "avro-confluent",
    "auto.register.schemas": "false",
    "use.latest.version": "true",
}
LINE = {"name": "line", "type": ["null", "string"]}


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Line", "fields": [LINE, *fields]})


@pytest.mark.parametrize("by_format", [False, True][: 1 + HAS_DATA_SOURCES])
def test_restarted_stream_uses_the_evolved_schema(
    sink: Sink, topic: str, tmp_path: Path, registry: SmallRegistry, by_format: bool
) -> None:
    subject = f"{topic}-value"
    registry.put(subject, schema())
    stream = Stream(sink, tmp_path, topic, by_format)
    options = {**LATEST, "schema.registry.url": registry.url}
    stream.put("0.txt", ["a"])
    stream.put("1.txt", ["b"])
    frame = stream.files().selectExpr("value AS line")
    query = stream.start(frame, trigger={"processingTime": "0 seconds"}, **options)
    try:
        query.processAllAvailable()
        registry.put(subject, schema({"name": "source", "type": "string", "default": "web"}))
        stream.put("2.txt", ["c"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert len(lookups(registry, subject)) == 1
    stream.put("3.txt", ["d"])
    stream.put("4.txt", ["e"])
    again = stream.start(frame, **options)
    assert again.awaitTermination(WAIT_S)
    assert len(lookups(registry, subject)) == 2
    written = [value or b"" for value in stream.written()]
    assert {value[6:8]: (value[:5], value[8:]) for value in written} == {
        b"\x02a": (b"\0\0\0\0\1", b""),
        b"\x02b": (b"\0\0\0\0\1", b""),
        b"\x02c": (b"\0\0\0\0\1", b""),
        b"\x02d": (b"\0\0\0\0\2", b"\x06web"),
        b"\x02e": (b"\0\0\0\0\2", b"\x06web"),
    }


def lookups(registry: SmallRegistry, subject: str) -> list[str]:
    expected = f"GET /subjects/{subject}/versions/latest"
    return [request for request in registry.requests if request == expected]
