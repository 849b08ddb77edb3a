"""Schemas that other clients have registered in a real registry, and its errors."""

import datetime as dt

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from pyspark.sql.types import (
    ArrayType,
    StringType,
    TimestampType,
)

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from tests.integration.formats.apicurio.apicurio_writes import LATEST, decoded, frame, options_of
from tests.integration.support.columnar import write_rows

TEXTS = {
    "protobuf": 'syntax = "proto3";\nmessage E {\n  string id = 1;\n}\n',
    "avro": """
{"type": "record", "name": "E", "fields": [{"name": "id", "type": ["null", "string"]}]}
""",
    "json": '{"type": "object",\n "properties": {"id": {"type": "string"}}}\n\n',
}
"""Contents of files, with white space at their ends."""
FOREIGN = {
    "deep": ("", "package d; message D { string x = 1; enum K { A = 0; B = 1; } }"),
    "mid": ("deep", 'package d; import public "deep.proto"; message M { D d = 1; }'),
    "foreign-value": (
        "mid",
        (
            'package d; import "mid.proto"; import "google/protobuf/timestamp.proto";'
            ' option java_package = "x"; // A comment.\n'
            "message Z { M m = 1; D d = 2; message In { map<string, D.K> k = 1; message Deep {"
            " google.protobuf.Timestamp at = 1; oneof o { int32 a = 2; string b = 3; }"
            " repeated D.K ks = 4 [packed = false]; } } }"
        ),
    ),
}


@pytest.mark.parametrize("is_registered", ["false", "true"])
@pytest.mark.parametrize("format_", TEXTS)
def test_registered_texts_are_found_as_they_are(
    broker: EmbeddedBroker, client: SchemaRegistryClient, format_: str, is_registered: str
) -> None:
    topic, text = f"text-{format_}-{is_registered}", TEXTS[format_]
    expected = client.register_schema(f"{topic}-value", Schema(text, format_.upper()))
    options = options_of(client, topic, format_) | {"auto.register.schemas": is_registered}
    write_rows(broker, frame(id=StringType()), [{"id": "a"}], **options, **{"value.schema": text})
    (record,) = broker.records(topic)
    assert int.from_bytes((record.value or b"")[1:5]) == expected
    assert client.get_versions(f"{topic}-value") == [1]


def test_protobuf_text_of_another_client(
    broker: EmbeddedBroker, client: SchemaRegistryClient
) -> None:
    for subject, (imported, text) in FOREIGN.items():
        references = [SchemaReference(f"{imported}.proto", imported, 1)] if imported else []
        schema = Schema(f'syntax = "proto3"; {text}', "PROTOBUF", references)
        client.register_schema(subject, schema)
    options = options_of(client, "foreign", "protobuf") | LATEST
    columns = frame(m=frame(d=frame(x=StringType())))
    write_rows(broker, columns, [{"m": {"d": {"x": "1"}}}], **options)
    assert decoded(client, broker, "foreign", "d.Z") == {"m": {"d": {"x": "1"}}}
    row = {"at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "b": "x", "ks": ["B", "A"]}
    columns = frame(at=TimestampType(), b=StringType(), ks=ArrayType(StringType()))
    deep = {"value.schema.name": "d.Z.In.Deep"}
    write_rows(broker, columns, [row], **options, **deep)
    expected = {"at": "2020-01-01T00:00:00Z", "b": "x", "ks": ["B", "A"]}
    assert decoded(client, broker, "foreign", "d.Z.In.Deep") == expected
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    records = broker.records("foreign", options={**servers, **options, **deep})
    assert records[-1].value["ks"] == ["B", "A"]
    with pytest.raises(SchemaRegistryError, match="has type PROTOBUF") as caught:
        write_rows(broker, columns, [row], **{**options, "value.format": "avro-confluent"})
    assert caught.value.hint


def test_errors_end_with_one_full_stop(
    broker: EmbeddedBroker, client: SchemaRegistryClient
) -> None:
    options = options_of(client, "errors", "protobuf")
    for more in (LATEST, {"value.schema": 'edition = "2023"; message E { string id = 1; }'}):
        with pytest.raises(SchemaRegistryError, match="HTTP status 4") as caught:
            write_rows(broker, frame(id=StringType()), [{"id": "a"}], **options, **more)
        assert ".." not in str(caught.value)
