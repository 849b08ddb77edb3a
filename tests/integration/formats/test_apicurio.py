"""Schemas in a real registry (Apicurio): registration, evolution, and schemas of other clients.

Confluent's client reads Avro. Protobuf is read with what protoc compiles from the registered text.
"""

import datetime as dt
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from spark_kafka_sink.formats.protobuf.protobuf_framing import read_indexes
from spark_kafka_sink.formats.protobuf.protobuf_printer import print_files
from tests.integration.support.columnar import write_rows
from tests.support.apicurio import VERSIONS, apicurio
from tests.support.protoc import compile_files, message_class

pytestmark = pytest.mark.deep
DECIMAL = """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"""
LATEST = {"auto.register.schemas": "false", "use.latest.version": "true"}
PART = """syntax = "proto3"; package given;
// Parts of orders
message Part { string name = 1; int64 price = 2; }
"""
ORDER = """syntax = "proto3";
package given; import "part.proto";
option java_package = "org.given";
message Order {
  Total total = 2;  // declared below
  string id = 1; reserved 5, 7 to 9;
  repeated Part parts = 4;
  message Total { int64 cents = 1; }
}
"""
RULES = """syntax = "proto2";
package rules; import "google/protobuf/descriptor.proto";
message Rule {
  optional double most = 1; optional string text = 2; repeated Rule rules = 3;
  map<string, float> weights = 4; extensions 100 to max;
}
extend Rule { optional float least = 100; }
extend google.protobuf.FieldOptions { optional Rule rule = 50001; repeated double range = 50002; }
"""
RULED = r"""syntax = "proto3";
package rules; import "rules.proto";
message Ruled {
  string id = 1 [(rule) = { most: 1e30 text: "1e+5 \" // { \n" }];
  string a = 2 [(rule).most = -1.7976931348623157e308, (range) = 1e16, (range) = -inf];
  string b = 3 [(rule) = { rules: [{ [rules.least]: 3.4028235e38 }, { most: nan }, {}] }];
  string c = 4 [(rule) = { weights { key: "e+" value: 1e20 } weights { key: "k" value: inf } }];
}
"""
MONEY = 'syntax = "proto3";\npackage given;\nmessage Money { string currency = 1; }\n'
BILL = """syntax = "proto3";
package given; import "money.proto"; import "google/protobuf/wrappers.proto";
message Bill { Money total = 1; google.protobuf.Int64Value number = 2; }
"""
ACCOUNT = 'syntax = "proto3";\npackage given; import "bill.proto";\nmessage A { Bill bill = 1; }\n'
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


@pytest.fixture(scope="module", params=VERSIONS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SchemaRegistryClient]:
    with apicurio(request.param, tmp_path_factory.mktemp("apicurio") / "log") as url:
        client = SchemaRegistryClient({"url": url})
        client.set_compatibility(level="BACKWARD")
        yield client


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(auto_create_topics=True) as broker:
        yield broker


def frame(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def options_of(client: SchemaRegistryClient, topic: str, format_: str) -> dict[str, str]:
    url = client._rest_client.base_urls[0]
    return {"value.format": f"{format_}-confluent", "schema.registry.url": url, "topic": topic}


def decoded(client: SchemaRegistryClient, broker: EmbeddedBroker, topic: str, name: str) -> Any:
    """Decode a topic's last record with what protoc compiles from the registered texts."""
    value = broker.records(topic)[-1].value or b""
    texts = {"confluent/type/decimal.proto": DECIMAL}

    def collect(schema: Schema, file: str | None) -> None:
        for reference in schema.references or ():
            version: Any = client.get_version(str(reference.subject), reference.version or 1)
            collect(version.schema, reference.name)
        texts[str(file)] = str(schema.schema_str)

    collect(client.get_schema(int.from_bytes(value[1:5])), "main.proto")
    _, payload = read_indexes(value[5:])
    cls = message_class(compile_files(texts).values(), name)
    return json_format.MessageToDict(cls.FromString(payload), preserving_proto_field_name=True)


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


def test_protobuf_imports_are_registered_as_references(
    broker: EmbeddedBroker, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    base = 'syntax = "proto3"; package b; message Item { string name = 1; }'
    (tmp_path / "base.proto").write_text(base)
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "order.proto").write_text(
        'syntax = "proto2"; package m; import "base.proto"; import "google/type/money.proto";'
        ' import "confluent/type/decimal.proto"; import "google/protobuf/wrappers.proto";'
        " message First {} message Order { map<string, int64> counts = 1; message Part {"
        " repeated b.Item items = 1; optional google.type.Money price = 2;"
        " optional confluent.type.Decimal tax = 3; optional google.protobuf.Int64Value n = 4;"
        " required group More = 5 { optional bool yes = 1 [default = true]; }"
        " extensions 100 to 199; reserved 9; } }"
    )
    money = frame(currency_code=StringType(), units=LongType())
    tax = frame(value=BinaryType(), scale=IntegerType())
    schema = frame(items=ArrayType(frame(name=StringType())), price=money, tax=tax, n=LongType())
    schema.add("more", frame())
    row: dict[str, Any] = {
        "items": [{"name": "i"}],
        "price": {"currency_code": "EUR", "units": 3},
        "tax": {"value": b"\1", "scale": 2},
        "n": 7,
        "more": {},
    }
    options = options_of(client, "imports", "protobuf")
    schema_options = {
        "value.schema.file": f"{tmp_path}/v1/order.proto",
        "value.schema.name": "m.Order.Part",
    }
    for more in (
        schema_options,
        schema_options | {"auto.register.schemas": "false"},
        schema_options | {"dryRun": "true"},
    ):
        write_rows(broker, schema, [row], **options, **more)
    write_rows(broker, schema, [row], **options, **LATEST, **{"value.schema.name": "m.Order.Part"})
    expected = {**row, "price": {"currency_code": "EUR", "units": "3"}, "n": "7"}
    expected["tax"] = {"value": "AQ==", "scale": 2}
    assert decoded(client, broker, "imports", "m.Order.Part") == expected
    assert {"imports-value", "base.proto"} <= {*client.get_subjects()}
    records = broker.records("imports")
    assert {(record.value or b"")[:8] for record in records} == {(records[0].value or b"")[:8]}
    assert read_indexes((records[0].value or b"")[5:])[0] == (1, 0)


@pytest.mark.parametrize("is_registered", ["false", "true"])
@pytest.mark.parametrize("spelling", ["given", "printed"])
def test_registered_files_are_found_as_they_are(
    broker: EmbeddedBroker,
    client: SchemaRegistryClient,
    tmp_path: Path,
    is_registered: str,
    spelling: str,
) -> None:
    """The import can also have the text that is printed from its descriptor."""
    topic, part = f"{spelling}-{is_registered}", f"{spelling}.proto"
    order = ORDER.replace("part.proto", part)
    for name, text in ((part, PART), ("order.proto", order)):
        (tmp_path / name).write_text(text)
    (file,) = compile_files({part: PART}).values()
    printed = {"given": PART, "printed": print_files([file.SerializeToString()])[0]}
    client.register_schema(part, Schema(printed[spelling], "PROTOBUF"))
    references = [SchemaReference(part, part, 1)]
    expected = client.register_schema(f"{topic}-value", Schema(order, "PROTOBUF", references))
    columns = frame(id=StringType(), total=frame(cents=LongType()))
    columns.add("parts", ArrayType(frame(name=StringType(), price=LongType())))
    row = {"id": "a", "total": {"cents": 3}, "parts": [{"name": "p", "price": 2}]}
    options = options_of(client, topic, "protobuf") | {
        "value.schema.file": f"{tmp_path}/order.proto",
        "auto.register.schemas": is_registered,
    }
    write_rows(broker, columns, [row], **options)
    (record,) = broker.records(topic)
    assert int.from_bytes((record.value or b"")[1:5]) == expected
    assert client.get_versions(f"{topic}-value") == [1]
    assert client.get_versions(part) == [1]
    read = decoded(client, broker, topic, "given.Order")
    assert read == {"id": "a", "total": {"cents": "3"}, "parts": [{"name": "p", "price": "2"}]}


def test_values_of_options_are_printed_as_registries_read_them(
    broker: EmbeddedBroker, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    for name, text in (("rules", RULES), ("ruled", RULED)):
        (tmp_path / f"{name}.proto").write_text(text)
    options = options_of(client, "rules", "protobuf")
    options["value.schema.file"] = f"{tmp_path}/ruled.proto"
    write_rows(broker, frame(id=StringType()), [{"id": "a"}], **options)
    assert decoded(client, broker, "rules", "rules.Ruled") == {"id": "a"}
    compiled = compile_files({"rules.proto": RULES, "ruled.proto": RULED})
    *_, printed = print_files([file.SerializeToString() for file in compiled.values()])
    assert client.get_latest_version("rules-value").schema.schema_str == printed


@pytest.mark.parametrize("is_registered", ["false", "true"])
@pytest.mark.parametrize("references", ["other names", "both names", "flat"])
def test_files_are_found_with_the_references_of_other_tools(
    broker: EmbeddedBroker,
    client: SchemaRegistryClient,
    tmp_path: Path,
    references: str,
    is_registered: str,
) -> None:
    """CI can choose the subjects of imports, and list all imports in the main schema.

    The version is not the newest one. A file that differs from the registered one is not found.
    """
    topic = f"{references.replace(' ', '-')}-{is_registered}"
    subject = f"{topic}-value"
    names = ("money.proto", "bill.proto")
    money, bill = names if references == "flat" else (f"{topic}-{name}" for name in names)
    for name, text in (("money", MONEY), ("bill", BILL), ("account", ACCOUNT)):
        (tmp_path / f"{name}.proto").write_text(text)
    to_money = [SchemaReference("money.proto", money, 1)]
    to_bill = [SchemaReference("bill.proto", bill, 1)]
    client.register_schema(money, Schema(MONEY, "PROTOBUF"))
    client.register_schema(bill, Schema(BILL, "PROTOBUF", to_money))
    if references == "both names":
        client.register_schema("money.proto", Schema(MONEY, "PROTOBUF"))
        own = [SchemaReference("money.proto", "money.proto", 1)]
        client.register_schema("bill.proto", Schema(BILL, "PROTOBUF", own))
    used = [*to_money, *to_bill] if references == "flat" else to_bill
    expected = client.register_schema(subject, Schema(ACCOUNT, "PROTOBUF", used))
    grown = ACCOUNT.replace("}", "int32 more = 2; }")
    client.register_schema(subject, Schema(grown, "PROTOBUF", used))
    columns = frame(bill=frame(total=frame(currency=StringType()), number=LongType()))
    row = {"bill": {"total": {"currency": "EUR"}, "number": 3}}
    options = options_of(client, topic, "protobuf") | {
        "value.schema.file": f"{tmp_path}/account.proto",
        "auto.register.schemas": is_registered,
    }
    write_rows(broker, columns, [row], **options)
    (record,) = broker.records(topic)
    assert int.from_bytes((record.value or b"")[1:5]) == expected
    assert client.get_versions(subject) == [1, 2]
    assert decoded(client, broker, topic, "given.A")["bill"]["total"] == {"currency": "EUR"}
    (tmp_path / "money.proto").write_text(MONEY.replace("}", "int64 units = 2; }"))
    with pytest.raises(SchemaRegistryError, match=r"cannot find the (import|schema)"):
        write_rows(broker, columns, [row], **(options | {"auto.register.schemas": "false"}))


def test_file_is_written_beside_versions_with_names(
    broker: EmbeddedBroker, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    """Apicurio's own API can name a version; Confluent's then cannot list the versions."""
    topic, file = "named", tmp_path / "bill.proto"
    (tmp_path / "money.proto").write_text(MONEY)
    grown = BILL.replace("total = 1;", "total = 1; int32 more = 3;")
    file.write_text(grown.replace("more = 3;", "more = 3; int32 last = 4;"))
    client.register_schema("money.proto", Schema(MONEY, "PROTOBUF"))
    references = [SchemaReference("money.proto", "money.proto", 1)]
    client.register_schema(f"{topic}-value", Schema(BILL, "PROTOBUF", references))
    registry = client._rest_client.base_urls[0].removesuffix("/apis/ccompat/v7")
    money = {"groupId": "default", "artifactId": "money.proto", "version": "1"}
    named = {
        "content": grown,
        "references": [money | {"name": "money.proto"}],
    }
    request = urllib.request.Request(
        f"{registry}/apis/registry/v2/groups/default/artifacts/{topic}-value/versions",
        json.dumps(named).encode(),
        {"Content-Type": "application/create.extended+json", "X-Registry-Version": "1.0.0"},
    )
    with urllib.request.urlopen(request, timeout=30):
        pass
    columns = frame(total=frame(currency=StringType()), number=LongType())
    options = options_of(client, topic, "protobuf") | {"value.schema.file": str(file)}
    write_rows(broker, columns, [{"total": {"currency": "EUR"}, "number": 3}], **options)
    assert decoded(client, broker, topic, "given.Bill")["total"] == {"currency": "EUR"}


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
