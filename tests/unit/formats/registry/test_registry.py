"""References, rules and ids of schemas, and the reasons of rejected texts and responses."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from spark_kafka_sink.common.errors import SchemaRegistryError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import RegistryConfig
from spark_kafka_sink.formats.json.json_references import MAIN, Link
from spark_kafka_sink.formats.registry.registry import Registry
from spark_kafka_sink.formats.registry.registry_schemas import CandidateSchema
from tests.support.schema_registry import SmallRegistry, running

TEXT = CandidateSchema(Format.AVRO_CONFLUENT, '"string"')


@pytest.fixture
def server() -> Iterator[SmallRegistry]:
    with running() as server:
        yield server


def connected(server: SmallRegistry, **options: Any) -> Registry:
    return Registry(RegistryConfig(url=server.url, max_retries=0, **options))


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


@pytest.mark.parametrize("mode", ["READ", "WRITE", "WRITEREAD", None])
@pytest.mark.parametrize("kind", ["domainRules", "encodingRules"])
def test_rules_for_readers_do_not_concern_the_sink(
    server: SmallRegistry, kind: str, mode: str | None
) -> None:
    rule = {"name": "mask", "kind": "TRANSFORM", "mode": mode, "type": "CEL_FIELD"}
    server.rules = {kind: [rule]}
    server.put("events", TEXT.text)
    for read in (
        partial(Registry.lookup, subject="events", candidate=TEXT),
        partial(Registry.fetch_selected_schema, subject="events", format_=TEXT.format),
    ):
        with connected(server) as registry:
            if mode == "READ":
                assert read(registry).id == 1
            else:
                with pytest.raises(SchemaRegistryError, match=r"does not execute: mask"):
                    read(registry)


def test_schema_with_an_id_is_read_with_its_subject(
    server: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id can be another schema in another context of the registry."""
    targets: list[str] = []

    def respond(_method: str, target: str, _body: dict[str, Any]) -> tuple[int, Any]:
        targets.append(target)
        return 200, {"schema": TEXT.text}

    monkeypatch.setattr(server, "respond", respond)
    with connected(server, schema_id=7) as registry:
        assert registry.fetch_selected_schema("a b-value", TEXT.format).text == TEXT.text
        registry.fetch_schema_text((8).to_bytes(4), TEXT.format)
    assert targets == ["/schemas/ids/7?subject=a+b-value", "/schemas/ids/8"]


@pytest.mark.parametrize("answer", [b"", b"<html>", b"\xff", None, [], "x", 5])
def test_response_of_another_server(server: SmallRegistry, answer: Any) -> None:
    server.faults.extend([(200, answer)] * 2)
    with connected(server) as registry:
        for read in (registry.register, registry.lookup):
            with pytest.raises(SchemaRegistryError, match="is not that of a schema reg") as caught:
                read("events", TEXT)
            assert "Check the path" in (caught.value.hint or "")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_registry_that_redirects(server: SmallRegistry, status: int) -> None:
    server.faults.append((status, b""))
    with connected(server) as registry, pytest.raises(SchemaRegistryError) as caught:
        registry.register("events", TEXT)
    assert "to which it redirects" in (caught.value.hint or "")
