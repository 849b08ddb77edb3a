"""Versions of schemas in a real registry: registration, evolution and dry runs.

Confluent's client reads Avro. Protobuf is read with what protoc compiles from the registered text.
"""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql.types import (
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from tests.integration.formats.apicurio.apicurio_writes import (
    LATEST,
    MONEY,
    decoded,
    frame,
    options_of,
)
from tests.integration.support.columnar import write_rows
from tests.support.protoc import compile_files, message_class

SHOP = """syntax = "proto3";
package shop.v1; import "google/protobuf/timestamp.proto"; import "money.proto";
message Sale {
  Line first = 1;
  Kind kind = 2;
  given.Money total = 3;
  google.protobuf.Timestamp at = 4;
  message Line { string id = 1; }
  enum Kind { A = 0; }
}
"""
"""A file as people write it. `java_text` is what Java's serializer registers of it."""


def test_avro_schema_evolution(broker: EmbeddedBroker, client: SchemaRegistryClient) -> None:
    options = options_of(client, "evolved", "avro")
    old: list[dict[str, Any]] = [{"id": "a", "price": 1.5}]
    new: list[dict[str, Any]] = [{"id": "b", "tax": 0.5, "price": None}]
    write_rows(broker, frame(id=StringType(), price=DoubleType()), old, **options)
    wider = frame(id=StringType(), tax=DoubleType(), price=DoubleType())
    write_rows(broker, wider, new, **options)
    reader = AvroDeserializer(client)
    context = SerializationContext("evolved", MessageField.VALUE)
    assert [reader(record.value, context) for record in broker.records("evolved")] == old + new
    assert client.get_versions("evolved-value") == [1, 2]


def test_protobuf_schema_evolution(broker: EmbeddedBroker, client: SchemaRegistryClient) -> None:
    options = options_of(client, "evolution", "protobuf")
    names = {"value.schema.name": "Order", "value.schema.namespace": "com.shop"}
    columns: dict[str, DataType] = {"id": StringType(), "n": LongType()}
    row: dict[str, Any] = {"id": "a", "n": 5}
    write_rows(broker, frame(**columns), [row], **options, **names)
    columns |= {"at": TimestampType(), "tags": MapType(StringType(), frame(x=DoubleType()))}
    row |= {"at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "tags": {"k": {"x": 1.5}}}
    for more in ({}, {}, {"normalize.schemas": "true"}, {"dryRun": "true"}):
        write_rows(broker, frame(**columns), [row], **options, **names, **more)
    write_rows(broker, frame(**columns), [row], **options, **LATEST)
    expected = {"id": "a", "n": "5", "at": "2020-01-01T00:00:00Z", "tags": {"k": {"x": 1.5}}}
    assert decoded(client, broker, "evolution", "com.shop.Order") == expected
    reordered = {name: columns[name] for name in ("tags", "at", "n", "id")}
    for more in ({}, {"auto.register.schemas": "false"}):
        write_rows(broker, frame(**reordered), [row], **options, **names, **more)
    assert decoded(client, broker, "evolution", "com.shop.Order") == expected
    assert client.get_versions("evolution-value") == [1, 2]
    text = client.get_latest_version("evolution-value").schema.schema_str
    assert str(text).startswith("syntax")


@pytest.mark.parametrize("rule_of", ["subject", "registry"])
@pytest.mark.parametrize("format_", ["avro", "json"])
def test_earlier_version_is_written_again(
    broker: EmbeddedBroker, client: SchemaRegistryClient, format_: str, rule_of: str
) -> None:
    """Apicurio checks it only with a rule of the subject, Confluent's registry never."""
    topic = f"earlier-{format_}-{rule_of}"
    subject, options = f"{topic}-value", options_of(client, topic, format_)
    write_rows(broker, frame(id=StringType()), [{"id": "a"}], **options)
    client.set_compatibility(level="NONE")
    write_rows(broker, frame(id=LongType()), [{"id": 1}], **options)
    client.set_compatibility(subject if rule_of == "subject" else None, "BACKWARD")
    for more in ({"dryRun": "true"}, {}):
        write_rows(broker, frame(id=StringType()), [{"id": "a"}], **options, **more)
    client.set_compatibility(level="BACKWARD")
    assert client.get_versions(subject) == [1, 2]


def test_schema_that_the_rule_cannot_compare(
    broker: EmbeddedBroker, client: SchemaRegistryClient
) -> None:
    """Apicurio's rule fails for drafts newer than 7, but not for a schema that it has."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    options = options_of(client, "newer-draft", "json")
    options["value.schema"] = json.dumps({"$schema": draft, "type": "object"})
    for more in ({}, {"dryRun": "true"}, {}):
        write_rows(broker, frame(id=StringType()), [{"id": "a"}], **options, **more)
        client.set_compatibility("newer-draft-value", "BACKWARD")


@pytest.mark.parametrize("level", ["BACKWARD", "BACKWARD_TRANSITIVE"])
@pytest.mark.parametrize("rule_of", ["subject", "registry"])
def test_dry_run_compares_the_versions_that_the_level_includes(
    broker: EmbeddedBroker, client: SchemaRegistryClient, level: str, rule_of: str
) -> None:
    topic = f"{level}-{rule_of}"
    options = options_of(client, topic, "avro")
    first, second = {"id": "a", "n": "x"}, {"id": "a"}
    write_rows(broker, frame(id=StringType(), n=StringType()), [first], **options)
    write_rows(broker, frame(id=StringType()), [second], **options)
    client.set_compatibility(f"{topic}-value" if rule_of == "subject" else None, level)

    def write_third(**settings: str) -> None:
        columns = frame(id=StringType(), n=LongType())
        write_rows(broker, columns, [{"id": "a", "n": 1}], **options, **settings)

    try:
        for settings in ({"dryRun": "true"}, {"key.format": "avro-confluent", "key.fields": "id"}):
            if level == "BACKWARD":
                write_third(**settings)
            else:
                with pytest.raises(SchemaRegistryError, match=r"(?i)incompatible"):
                    write_third(**settings)
    finally:
        client.set_compatibility(level="BACKWARD")
    assert (f"{topic}-key" in client.get_subjects()) is (level == "BACKWARD")


def test_dropped_protobuf_columns_keep_the_numbers_of_others(
    broker: EmbeddedBroker, client: SchemaRegistryClient
) -> None:
    options = options_of(client, "dropped", "protobuf")
    # Apicurio rejects a version without a field, even if its number and name are reserved.
    client.set_compatibility(level="NONE")
    try:
        for names in ("abc", "nca", "acn", "b"):
            schema, row = (
                frame(**dict.fromkeys(names, StringType())),
                dict(zip(names, names, strict=True)),
            )
            for more in ({}, {"auto.register.schemas": "false"}, {"dryRun": "true"}):
                write_rows(broker, schema, [row], **options, **more)
    finally:
        client.set_compatibility(level="BACKWARD")
    versions = [client.get_version("dropped-value", number) for number in (1, 2, 3)]
    assert client.get_versions("dropped-value") == [1, 2, 3]
    for version in versions:
        text = str(version.schema.schema_str)
        reader = message_class(compile_files({"v.proto": text}).values(), "Value")
        for record in broker.records("dropped"):
            message = reader.FromString((record.value or b"")[6:])
            fields = {field.name: value for field, value in message.ListFields()}
            assert fields == {name: name for name in fields}


@pytest.mark.parametrize("format_", ["json", "protobuf", "avro"])
def test_schema_is_registered_once(
    broker: EmbeddedBroker, client: SchemaRegistryClient, format_: str
) -> None:
    options = options_of(client, format_, format_)
    schema, rows = frame(id=StringType(), price=DoubleType()), [{"id": "a", "price": 1.5}]
    for more in ({}, {}, {"auto.register.schemas": "false"}):
        write_rows(broker, schema, rows, **options, **more)
    assert client.get_versions(f"{format_}-value") == [1]
    assert len({record.value for record in broker.records(format_)}) == 1
    if format_ != "json":  # This JSON Schema accepts other types.
        with pytest.raises(SchemaRegistryError, match="HTTP status 409") as caught:
            write_rows(broker, frame(id=LongType()), [{"id": 1}], **options)
        assert ".." not in str(caught.value)
        assert len(broker.records(format_)) == 3


def java_text(text: str) -> str:
    for name, full_name in (
        ("  Line", "  .shop.v1.Sale.Line"),
        ("  Kind", "  .shop.v1.Sale.Kind"),
        ("  given.", "  .given."),
        ("  google.", "  .google."),
    ):
        text = text.replace(name, full_name)
    return text


@pytest.mark.parametrize("first", ["file", "java"])
def test_next_version_of_a_protobuf_file_is_compatible(
    broker: EmbeddedBroker, client: SchemaRegistryClient, tmp_path: Path, first: str
) -> None:
    """Registries can take `Line`, `shop.v1.Sale.Line` and `.shop.v1.Sale.Line` for three types."""
    topic = f"next-{first}"
    (tmp_path / "money.proto").write_text(MONEY)
    grown = SHOP.replace("Sale {", "Sale {\n  int64 more = 7;")
    (tmp_path / "sale.proto").write_text(grown)
    client.register_schema("money.proto", Schema(MONEY, "PROTOBUF"))
    references = [SchemaReference("money.proto", "money.proto", 1)]
    registered = SHOP if first == "file" else java_text(SHOP)
    client.register_schema(f"{topic}-value", Schema(registered, "PROTOBUF", references))
    columns = frame(first=frame(id=StringType()), at=TimestampType(), more=LongType())
    row = {"first": {"id": "a"}, "at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "more": 3}
    options = {"value.schema.file": f"{tmp_path}/sale.proto"}
    expected = {"first": {"id": "a"}, "at": "2020-01-01T00:00:00Z", "more": "3"}
    assert write_next_version(client, broker, topic, columns, row, options) == expected
    (tmp_path / "sale.proto").write_text(grown.replace("int64 more", "string more"))
    other = frame(more=StringType())
    for settings in ({}, {"dryRun": "true"}):
        with pytest.raises(SchemaRegistryError, match=r"(?i)incompatible"):
            write_rows(
                broker,
                other,
                [{"more": "x"}],
                **options_of(client, topic, "protobuf"),
                **options,
                **settings,
            )


def test_dry_run_checks_a_changed_import(
    broker: EmbeddedBroker, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    (tmp_path / "changed_line.proto").write_text(
        'syntax = "proto3"; message Line { string sku = 1; }'
    )
    main = 'syntax = "proto3"; import "changed_line.proto"; message Order { Line line = 1; }'
    (tmp_path / "order.proto").write_text(main)
    options = options_of(client, "changed-import", "protobuf")
    options["value.schema.file"] = f"{tmp_path}/order.proto"
    write_rows(broker, frame(line=frame(sku=StringType())), [{"line": {"sku": "a"}}], **options)
    client.set_compatibility("changed_line.proto", "BACKWARD")
    (tmp_path / "changed_line.proto").write_text(
        'syntax = "proto3"; message Line { int64 sku = 1; }'
    )
    changed = frame(line=frame(sku=LongType()))
    for settings in ({"dryRun": "true"}, {}):
        with pytest.raises(
            SchemaRegistryError, match=r"the import changed_line\.proto.*(?i:incompatible)"
        ):
            write_rows(broker, changed, [{"line": {"sku": 1}}], **options, **settings)


def test_dry_run_checks_each_changed_import(
    broker: EmbeddedBroker, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    start, names = 'syntax = "proto3"; ', ("first_part", "second_part")
    imports = "".join(f'import "{name}.proto"; ' for name in names)
    fields = "first_part m = 1; second_part n = 2;"
    (tmp_path / "whole.proto").write_text(f"{start}{imports}message Whole {{ {fields} }}")

    def write(first: str, second: str, columns: StructType, row: Any, **settings: str) -> None:
        for name, declared in zip(names, (first, second), strict=True):
            text = f"{start}message {name} {{ {declared} }}"
            (tmp_path / f"{name}.proto").write_text(text)
        options = options_of(client, "two-imports", "protobuf")
        options["value.schema.file"] = f"{tmp_path}/whole.proto"
        write_rows(broker, columns, [row], **options, **settings)

    part = frame(x=StringType())
    write("string x = 1;", "string x = 1;", frame(m=part), {"m": {"x": "a"}})
    for name in names:
        client.set_compatibility(f"{name}.proto", "BACKWARD")
    with pytest.raises(SchemaRegistryError, match=r"the import second_part\.proto.*incompatible"):
        write(
            "string x = 1; string y = 2;",
            "int64 x = 1;",
            frame(m=part),
            {"m": {"x": "a"}},
            dryRun="true",
        )
    assert client.get_versions("first_part.proto") == [1]


@pytest.mark.parametrize("is_main", [True, False])
def test_dry_run_of_a_text_that_the_registry_cannot_parse(
    broker: EmbeddedBroker, client: SchemaRegistryClient, tmp_path: Path, is_main: bool
) -> None:
    """Apicurio rejects this default, which protoc accepts; derived texts have another form."""
    topic = f"unparsed-{is_main}"
    start, name = 'syntax = "proto2"; package up; ', f"{topic}.proto"
    main = (
        f'{start} import "{name}"; message M {{ optional Part part = 1; optional string x = 2; }}'
    )
    (tmp_path / "main.proto").write_text(main)
    file = name if is_main else "main.proto"
    options = options_of(client, topic, "protobuf")
    options |= {"value.schema.file": f"{tmp_path}/{file}"}
    declared = "optional string x = 3;"
    row: dict[str, Any] = {"x": "a"}
    columns = frame(x=StringType())
    (tmp_path / name).write_text(f"{start}message Part {{ {declared} }}")
    write_rows(broker, columns, [row], **options)
    changed = f"{declared} optional float g = 4 [default = 1e+5];"
    (tmp_path / name).write_text(f"{start}message Part {{ {changed} }}")
    for settings in ({"dryRun": "true"}, {}):
        write_rows(broker, columns, [row], **options, **settings)
    (tmp_path / name).write_text(f"{start}message Part {{ {changed.replace('string', 'int64')} }}")
    if is_main:
        columns, row = frame(x=LongType()), {"x": 1}
    for settings in ({"dryRun": "true"}, {}):
        with pytest.raises(SchemaRegistryError, match=r"(?i:incompatible).*Keep the names"):
            write_rows(broker, columns, [row], **options, **settings)


def test_next_version_of_a_derived_protobuf_schema_is_compatible(
    broker: EmbeddedBroker, client: SchemaRegistryClient
) -> None:
    """Version 1 is what Java's serializer registers."""
    registered = """syntax = "proto3";
package shop.v1;
message Sale {
  .shop.v1.Sale.First first = 1;
  message First { optional string id = 1; }
}
"""
    client.register_schema("derived-value", Schema(registered, "PROTOBUF"))
    columns = frame(first=frame(id=StringType()), more=LongType())
    row = {"first": {"id": "a"}, "more": 3}
    options = {"value.schema.name": "Sale", "value.schema.namespace": "shop.v1"}
    expected = {"first": {"id": "a"}, "more": "3"}
    assert write_next_version(client, broker, "derived", columns, row, options) == expected


def write_next_version(
    client: SchemaRegistryClient,
    broker: EmbeddedBroker,
    topic: str,
    columns: StructType,
    row: dict[str, Any],
    options: dict[str, str],
) -> Any:
    """Write a row under a compatibility rule, first in a dry run, and return it as it is read."""
    subject = f"{topic}-value"
    client.set_compatibility(subject, "BACKWARD")
    broker.create_topic(topic, partitions=1)
    for settings in ({"dryRun": "true"}, {}):
        write_rows(
            broker, columns, [row], **options_of(client, topic, "protobuf"), **options, **settings
        )
    assert client.get_versions(subject) == [1, 2]
    return decoded(client, broker, topic, "shop.v1.Sale")
