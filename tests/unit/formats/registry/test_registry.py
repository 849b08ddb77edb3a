"""References of JSON Schemas, and the reason why several texts of a schema are rejected."""

from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from spark_kafka_sink.common.errors import SchemaRegistryError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import RegistryConfig
from spark_kafka_sink.formats.json.json_references import MAIN, Link
from spark_kafka_sink.formats.registry.registry import Registry


def test_document_with_two_references_is_read_once() -> None:
    registry = Registry(RegistryConfig(url="mock://"))
    register = registry._client.register_schema
    register("common", Schema("{}", "JSON"))
    common = SchemaReference("common.json", "common", 1)
    register("name", Schema('{"title": "name"}', "JSON", [common]))
    name = SchemaReference("name.json", "name", 1)
    register("events", Schema('{"title": "events"}', "JSON", [name, common]))
    references = registry.fetch_selected_schema("events", Format.JSON_CONFLUENT).references
    assert references.texts == ('{"title": "name"}', "{}")
    assert references.links == (
        Link(MAIN, "name.json", 1),
        Link(MAIN, "common.json", 2),
        Link(1, "common.json", 2),
    )


def test_reason_is_that_of_the_first_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(_subject: str, _versions: str, text: str) -> dict[str, Any]:
        return {"is_compatible": False, "messages": [text]}

    registry = Registry(RegistryConfig(url="http://h"))
    monkeypatch.setattr(registry, "_judge", judge)
    with pytest.raises(SchemaRegistryError, match="subject events: first"):
        registry._is_compatible("events", ["first", "second"], "the schema")
