"""Schemas in a registry: framing, subjects, evolution and faults.

Confluent's client reads the records. The registry runs in-process: `tests.support.schema_registry`.
"""

import json
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_kafka_sink import ColumnError, ConfigError, EmbeddedBroker, SchemaRegistryError
from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from spark_kafka_sink.spark.schema import stream_start
from spark_kafka_sink.spark.schema.stream_start import StreamStart
from spark_kafka_sink.spark.write_plan import plan_batch
from tests.integration.formats.registry_sink import AVRO, LATEST, ORDER, ROWS, RegistrySink
from tests.integration.support.columnar import write_rows
from tests.support.schema_registry import guid_of

NOT_NULL = StructType([StructField("id", StringType(), nullable=False)])
ORDER_RECORD = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": ["null", "string"]}, '
    '{"name": "price", "type": ["null", "double"]}]}'
)
RECORD = json.dumps(
    {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": ["null", "string"]},
            {"name": "price", "type": ["null", "double"]},
        ],
    }
)
TEXT_PRICE = json.dumps(
    {"type": "record", "name": "Value", "fields": [{"name": "price", "type": "string"}]}
)
JSON_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "price": {"type": "number"}},
    "required": ["id"],
    "additionalProperties": False,
}


def test_schema_is_registered_once_and_its_id_precedes_payloads(sink: RegistrySink) -> None:
    sink.write()
    assert list(sink.registry.subjects) == ["events-value"]
    assert [value[:5] for value in sink.values()] == [b"\0\0\0\0\1"] * 2
    assert sink.decoded() == ROWS
    posts = [request for request in sink.registry.requests if request.startswith("POST")]
    assert posts == ["POST /subjects/events-value/versions"]


def test_keys_have_their_own_subject(sink: RegistrySink) -> None:
    sink.write(**{"key.format": "avro-confluent", "key.fields": "id"})
    assert sorted(sink.registry.subjects) == ["events-key", "events-value"]
    assert [json.loads(schema["schema"])["name"] for schema in sink.registry.schemas] == [
        "Key",
        "Value",
    ]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("RecordNameStrategy", "com.example.Order"),
        ("TopicRecordNameStrategy", "events-com.example.Order"),
    ],
)
def test_subjects_contain_the_full_name_of_the_record(
    sink: RegistrySink, strategy: str, subject: str
) -> None:
    names = {"value.schema.name": "Order", "value.schema.namespace": "com.example"}
    sink.write(**names, **{"value.subject.name.strategy": strategy})
    assert list(sink.registry.subjects) == [subject]


@pytest.mark.parametrize("strategy", ["RecordNameStrategy", "TopicRecordNameStrategy"])
@pytest.mark.parametrize(
    "options",
    [
        {"value.schema": f'["null", {ORDER_RECORD}]'},
        {"value.schema": f"[{ORDER_RECORD}]", "value.schema.name": "Order"},
        {"value.schema": '"string"', "value.fields": "id"},
        {"value.format": "json-confluent", "value.schema": '{"type": "object"}'},
    ],
)
def test_subjects_named_after_records_need_a_record(
    sink: RegistrySink, strategy: str, options: dict[str, str]
) -> None:
    """Java's serializers raise an error, too."""
    with pytest.raises(ConfigError, match="the schema of the value is not a record with a name"):
        sink.write(**options, **{"value.subject.name.strategy": strategy})
    assert not sink.registry.subjects
    named = {"value.schema": ORDER_RECORD, "value.subject.name.strategy": strategy}
    sink.write(**named)
    assert [subject.rpartition("-")[2] for subject in sink.registry.subjects] == ["Order"]


def test_row_that_fits_no_alternative(sink: RegistrySink) -> None:
    alternatives = [{"properties": {"id": {"const": name}}} for name in ("x", "y")]
    schema = {"value.format": "json-confluent", "value.schema": json.dumps({"oneOf": alternatives})}
    with pytest.raises(ColumnError, match=r"^the value fits none of the alternatives"):
        sink.write(**schema)


def test_topic_column_requires_record_name_strategy(sink: RegistrySink) -> None:
    schema = StructType([*ORDER.fields, StructField("topic", StringType())])
    options = {"schema.registry.url": sink.registry.url, **AVRO, "value.fields": "id,price"}
    source = KafkaProdDataSource(
        {"kafka.bootstrap.servers": sink.broker.bootstrap_servers, "preflight": "off", **options}
    )
    with pytest.raises(ConfigError, match="RecordNameStrategy"):
        source.writer(schema, overwrite=False)


def test_guid_header(sink: RegistrySink) -> None:
    rows: list[dict[str, Any]] = [{"id": name, "price": 1.0} for name in "ab"]
    header = {"value.schema.id.serializer": "HeaderSchemaIdSerializer"}
    sink.write(ORDER, rows, **header)
    expected = [("__value_schema_id", b"\x01" + UUID(guid_of(1)).bytes)]
    assert [record.headers for record in sink.broker.records("events")] == [expected] * 2
    assert sink.decoded() == rows
    sink.registry.guids = False
    with pytest.raises(SchemaRegistryError, match="no GUID"):
        sink.write(**header)


@pytest.mark.quick
@pytest.mark.parametrize("more", [{"dryRun": "true"}, {}], ids=["dry run", "write"])
def test_registry_without_guids_is_noticed_before_a_schema_is_registered(
    sink: RegistrySink, more: dict[str, str]
) -> None:
    sink.write(ORDER, [{"id": "a", "price": 1.0}])
    sink.registry.guids = False
    wider = StructType([*ORDER.fields, StructField("tax", DoubleType())])
    header = {"value.schema.id.serializer": "HeaderSchemaIdSerializer", **more}
    with pytest.raises(SchemaRegistryError, match="no GUID"):
        sink.write(wider, [{"id": "b", "price": 2.0, "tax": 0.1}], **header)
    assert sink.registry.subjects == {"events-value": [1]}


@pytest.mark.parametrize("dry_run", ["false", "true"])
def test_incompatible_schema_fails_before_any_task(sink: RegistrySink, dry_run: str) -> None:
    sink.registry.put("events-value", json.dumps({"type": "record", "name": "Value", "fields": []}))
    with pytest.raises(SchemaRegistryError) as caught:
        sink.write(NOT_NULL, [{"id": "a"}], dryRun=dry_run)
    assert "events-value" in str(caught.value)
    assert "nullable" in (caught.value.hint or "")
    assert "The field 'id' at path '/fields/0'" in str(caught.value)
    assert sink.registry.subjects == {"events-value": [1]}


@pytest.mark.parametrize("status", [404, 405])
def test_registry_that_compares_only_with_the_latest_version(
    sink: RegistrySink, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    respond = sink.registry.respond

    def respond_without(method: str, target: str, body: dict[str, Any]) -> tuple[int, Any]:
        if target.startswith("/config"):
            return 200, {"compatibilityLevel": "FULL_TRANSITIVE"}
        is_unknown = target.startswith("/compat") and "/versions?" in target
        return (status, {}) if is_unknown else respond(method, target, body)

    monkeypatch.setattr(sink.registry, "respond", respond_without)
    wider = StructType([*ORDER.fields, StructField("tax", DoubleType())])
    for columns, dry_run in ((ORDER, "false"), (wider, "true")):
        sink.write(columns, [{"id": "b", "price": 2.0, "tax": 0.1}], dryRun=dry_run)
    assert sink.registry.subjects == {"events-value": [1]}


def test_dry_run_registers_nothing(sink: RegistrySink) -> None:
    sink.write(dryRun="true")
    assert sink.registry.subjects == {}
    assert sink.registry.requests == [
        "POST /subjects/events-value",
        "POST /compatibility/subjects/events-value/versions/latest",
    ]


def test_latest_version_determines_order_and_types(sink: RegistrySink) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "price", "type": ["double", "null"]},
            {"name": "id", "type": ["null", "string"]},
            {"name": "source", "type": "string", "default": "web"},
        ],
    }
    sink.registry.put("events-value", json.dumps(schema))
    sink.write(**LATEST)
    assert sink.decoded() == [{**row, "source": "web"} for row in ROWS]
    assert not any("POST" in request for request in sink.registry.requests[:1])


def test_schema_id(sink: RegistrySink) -> None:
    sink.registry.put("other", '"string"')
    number = sink.registry.put("events-value", RECORD)
    sink.write(**{"auto.register.schemas": "false", "use.schema.id": str(number)})
    assert [value[:5] for value in sink.values()] == [b"\0\0\0\0\2"] * 2


def test_without_auto_registration(sink: RegistrySink) -> None:
    off = {"auto.register.schemas": "false"}
    assert "40401" in sink.error_of(**off)
    sink.write(**{"value.schema": RECORD})
    sink.write(**{"value.schema": RECORD}, **off)
    assert sink.registry.subjects == {"events-value": [1]}


def test_invalid_null_is_a_dead_letter_as_json(sink: RegistrySink) -> None:
    strict = RECORD.replace('["null", "string"]', '"string"')
    sink.registry.put("events-value", strict)
    with pytest.raises(ColumnError, match="row 1"):
        sink.write(**LATEST)
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    rows: list[dict[str, Any]] = [*ROWS, {"id": None, "price": 7.5}]
    sink.write(ORDER, rows, **LATEST, **letters)
    assert sink.decoded() == ROWS[:1]
    assert [record.value for record in sink.broker.records("dead")] == [b"{}", b'{"price":7.5}']
    message = dict(sink.broker.records("dead")[1].headers)["__connect.errors.exception.message"]
    assert b"the field `id` of the value" in (message or b"")


@pytest.mark.parametrize("own", [None, [[], [("a", b"1"), ("b", None)], [("c", b"")]]])
def test_dead_letters_as_json_have_no_header_of_a_schema(sink: RegistrySink, own: Any) -> None:
    """A reader would decode them with the schema."""
    sink.registry.put("events-value", RECORD.replace('["null", "string"]', '"string"'))
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    header = {"value.schema.id.serializer": "HeaderSchemaIdSerializer"}
    columns = ORDER
    rows: list[dict[str, Any]] = [{"id": name, "price": 1.0} for name in ("a", None, "c")]
    if own is not None:
        pair = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        columns = StructType([*ORDER.fields, StructField("headers", ArrayType(pair))])
        named = [[{"key": name, "value": value} for name, value in pairs] for pairs in own]
        rows = [{**row, "headers": pairs} for row, pairs in zip(rows, named, strict=True)]
        header["value.fields"] = "id,price"
    sink.write(columns, rows, **LATEST, **letters, **header)
    first, second, third = own or [[], [], []]
    schema = ("__value_schema_id", b"\x01" + UUID(guid_of(1)).bytes)
    written = [record.headers for record in sink.broker.records("events")]
    assert written == [[*first, schema], [*third, schema]]
    (letter,) = sink.broker.records("dead")
    assert (letter.value, letter.headers[: len(second)]) == (b'{"price":1.0}', second)
    assert all(name.startswith("__connect.errors.") for name, _ in letter.headers[len(second) :])


@pytest.mark.quick
def test_rule_sets_are_not_supported(sink: RegistrySink) -> None:
    rule = {"name": "encrypt", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT"}
    sink.registry.rules = {"domainRules": [rule]}
    assert "encrypt (ENCRYPT)" in sink.error_of()
    sink.registry.put("events-value", RECORD)
    assert "in clear" in sink.error_of(**LATEST)


@pytest.mark.quick
def test_schema_of_another_type_is_rejected(sink: RegistrySink) -> None:
    sink.registry.put("events-value", "{}", "JSON")
    assert "has type JSON" in sink.error_of(**LATEST)


def test_failures_are_retried(sink: RegistrySink) -> None:
    sink.registry.faults.extend([(500, {}), (503, {"message": "later"})])
    sink.write()
    assert sink.decoded() == ROWS


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ((422, {"error_code": 42201, "message": "Invalid schema"}), "Invalid schema"),
        ((403, {"error_code": 40301, "message": "Denied"}), "Grant the login access"),
        ((404, {}), "Check the path of schema.registry.url"),
        ((404, {"error_code": 40403, "message": "Schema not found"}), "Register the schema"),
        ((404, {"error_code": 40400, "message": "As mock:// answers"}), "Register the schema"),
        ((422, {"error_code": 42205, "message": "READONLY"}), "Change the mode of the registry"),
    ],
)
def test_registry_errors_are_quoted(sink: RegistrySink, fault: tuple[int, Any], text: str) -> None:
    sink.registry.faults.append(fault)
    assert text in sink.error_of()


def test_slow_registry_times_out(sink: RegistrySink) -> None:
    sink.registry.faults.append(0.5)
    options = {"http.read.timeout.ms": "50", "max.retries": "0"}
    assert "cannot be reached" in sink.error_of(**options)


def test_stream_registers_once_per_start(
    sink: RegistrySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = iter([(5, 1), (5, 1), (4, 9), (6, 2), (6, 2), (6, 2)])
    monkeypatch.setattr("spark_kafka_sink.spark.write_plan.reject_continuous", lambda: None)
    monkeypatch.setattr(
        "spark_kafka_sink.spark.write_plan.latest_query_start", lambda: next(starts)
    )
    stream_start._cached_roles.clear()
    options = {**sink.options, "checkpointLocation": "/nowhere"}
    for registered in (1, 1, 1, 2, 2):  # The fourth start follows a restart of the stream.
        KafkaProdDataSource(options).streamWriter(ORDER, overwrite=False)
        posts = [request for request in sink.registry.requests if request.startswith("POST")]
        assert len(posts) == registered
    wider = StructType([*ORDER.fields, StructField("n", LongType())])
    KafkaProdDataSource(options).streamWriter(wider, overwrite=False)
    assert sink.registry.subjects == {"events-value": [1, 2]}


def test_run_of_a_query_registers_once_but_never_writes_with_the_specs_of_a_dry_run(
    sink: RegistrySink,
) -> None:
    """A foreachBatch function can try a micro-batch before it writes it, to several topics."""
    run, prefixes = str(uuid4()), []
    for topic, dry_run in [*product(("events", "others"), ("true", "false"))] * 2:
        settings = {**sink.options, "topic": topic, "dryRun": dry_run}
        job = plan_batch(settings, ORDER, start=StreamStart(run))
        assert job.task.roles.value_spec is not None
        prefixes.append(job.task.roles.value_spec.framing.prefix)
    posts = [request for request in sink.registry.requests if request.endswith("/versions")]
    assert [request for request in posts if request.startswith("POST")] == [
        "POST /subjects/events-value/versions",
        "POST /subjects/others-value/versions",
    ]
    unregistered, registered = b"\0" * 5, b"\0\0\0\0\1"
    assert prefixes == [unregistered, registered] * 4


def test_no_schema_is_registered_if_another_one_fails(sink: RegistrySink) -> None:
    sink.registry.put("events-value", json.dumps({"type": "record", "name": "Value", "fields": []}))
    keys = {"key.format": "avro-confluent", "key.fields": "id"}
    with pytest.raises(SchemaRegistryError, match="'id' at path '/fields/0'"):
        sink.write(NOT_NULL, [{"id": "a"}], **keys)
    with pytest.raises(ColumnError, match="price"):
        sink.write(**{"topic": "other", "value.schema": TEXT_PRICE})
    assert sink.registry.subjects == {"events-value": [1]}


def test_registry_in_memory(broker: EmbeddedBroker) -> None:
    options = {"value.format": "avro-confluent", "schema.registry.url": "mock://shared"}
    write_rows(broker, ORDER, ROWS, dryRun="true", **options)
    assert broker.records("events") == []
    for schema in (ORDER, ORDER, StructType(ORDER.fields[1:])):
        write_rows(broker, schema, ROWS[:1], **options)
    assert [(record.value or b"")[4] for record in broker.records("events")] == [1, 1, 2]
    write_rows(broker, ORDER, ROWS[:1], **options, **{"auto.register.schemas": "false"})
    with pytest.raises(SchemaRegistryError, match="404"):
        write_rows(broker, NOT_NULL, ROWS[:1], **options, **{"auto.register.schemas": "false"})


def test_json_schema(sink: RegistrySink) -> None:
    schema_options = {"value.format": "json-confluent", "value.schema": json.dumps(JSON_SCHEMA)}
    wider = StructType([*ORDER.fields, StructField("tax", DoubleType())])
    with pytest.raises(ColumnError, match="column `tax`"):
        sink.write(wider, [{"id": "b", "price": 2.0, "tax": 0.1}], **schema_options)
    assert sink.registry.subjects == {}
    with pytest.raises(ColumnError, match="the field `id` of the value is null"):
        sink.write(**schema_options)
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    sink.write(**schema_options, **letters)
    assert [value[5:] for value in sink.values()] == [b'{"id":"a","price":1.5}']
    assert [record.value for record in sink.broker.records("dead")] == [b"{}"]
    latest = {"value.format": "json-confluent", **LATEST}
    with pytest.raises(ColumnError, match="field `id`"):
        sink.write(StructType(ORDER.fields[1:]), [{"price": 2.0}], **latest)
