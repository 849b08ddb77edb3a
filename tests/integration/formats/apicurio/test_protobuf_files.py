"""Files of Protobuf in a real registry: references of imports, and registered texts."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
)

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from spark_kafka_sink.formats.protobuf.protobuf_indexes import read_indexes
from spark_kafka_sink.formats.protobuf.protobuf_printer import print_files
from tests.integration.formats.apicurio.apicurio_writes import (
    LATEST,
    MONEY,
    decoded,
    frame,
    options_of,
)
from tests.integration.support.columnar import write_rows
from tests.support.protoc import compile_files

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
BILL = """syntax = "proto3";
package given; import "money.proto"; import "google/protobuf/wrappers.proto";
message Bill { Money total = 1; google.protobuf.Int64Value number = 2; }
"""
ACCOUNT = 'syntax = "proto3";\npackage given; import "bill.proto";\nmessage A { Bill bill = 1; }\n'


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
