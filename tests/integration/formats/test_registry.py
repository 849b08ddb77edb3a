"""Schemas in a registry: framing, subjects, evolution, authentication and faults.

Confluent's client reads the records. The registry runs in-process: `tests.support.schema_registry`.
"""

import json
import pickle
from contextlib import nullcontext
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from spark_kafka_sink import ColumnError, ConfigError, EmbeddedBroker, SchemaRegistryError
from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from spark_kafka_sink.spark.schema import spec_completion
from spark_kafka_sink.spark.write_plan import plan_batch
from tests.integration.support.columnar import write_rows
from tests.support.schema_registry import SmallRegistry, guid_of

ORDER = StructType([StructField("id", StringType()), StructField("price", DoubleType())])
ROWS: list[dict[str, Any]] = [{"id": "a", "price": 1.5}, {"id": None, "price": None}]
AVRO = {"value.format": "avro-confluent", "retries.wait.ms": "1", "retries.max.wait.ms": "2"}
NOT_NULL = StructType([StructField("id", StringType(), nullable=False)])
ORDER_RECORD = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": ["null", "string"]}, '
    '{"name": "price", "type": ["null", "double"]}]}'
)
LATEST = {"auto.register.schemas": "false", "use.latest.version": "true"}
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
BASIC = "Basic bWU6cHctMQ=="
TEXT_PRICE = json.dumps(
    {"type": "record", "name": "Value", "fields": [{"name": "price", "type": "string"}]}
)
JSON_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "price": {"type": "number"}},
    "required": ["id"],
    "additionalProperties": False,
}


def write(
    broker: EmbeddedBroker,
    registry: SmallRegistry,
    schema: StructType = ORDER,
    rows: list[dict[str, Any]] = ROWS,
    /,
    **options: str,
) -> None:
    write_rows(broker, schema, rows, **{**AVRO, "schema.registry.url": registry.url, **options})


def values(broker: EmbeddedBroker) -> list[bytes]:
    return [record.value or b"" for record in broker.records("events")]


def decoded(broker: EmbeddedBroker, registry: SmallRegistry) -> list[Any]:
    reader = AvroDeserializer(
        SchemaRegistryClient({"url": registry.url}),
        conf={"schema.id.deserializer": dual_schema_id_deserializer},
    )
    return [
        reader(
            record.value, SerializationContext("events", MessageField.VALUE, list(record.headers))
        )
        for record in broker.records("events")
    ]


def error_of(broker: EmbeddedBroker, registry: SmallRegistry, **options: str) -> str:
    with pytest.raises(SchemaRegistryError) as caught:
        write(broker, registry, **options)
    assert broker.records("events") == []
    return str(caught.value)


def test_schema_is_registered_once_and_its_id_precedes_payloads(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    write(broker, registry)
    assert list(registry.subjects) == ["events-value"]
    assert [value[:5] for value in values(broker)] == [b"\0\0\0\0\1"] * 2
    assert decoded(broker, registry) == ROWS
    posts = [request for request in registry.requests if request.startswith("POST")]
    assert posts == ["POST /subjects/events-value/versions"]


def test_keys_have_their_own_subject(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    write(broker, registry, **{"key.format": "avro-confluent", "key.fields": "id"})
    assert sorted(registry.subjects) == ["events-key", "events-value"]
    assert [json.loads(schema["schema"])["name"] for schema in registry.schemas] == ["Key", "Value"]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("RecordNameStrategy", "com.example.Order"),
        ("TopicRecordNameStrategy", "events-com.example.Order"),
    ],
)
def test_subjects_contain_the_full_name_of_the_record(
    broker: EmbeddedBroker, registry: SmallRegistry, strategy: str, subject: str
) -> None:
    names = {"value.schema.name": "Order", "value.schema.namespace": "com.example"}
    write(broker, registry, **names, **{"value.subject.name.strategy": strategy})
    assert list(registry.subjects) == [subject]


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
    broker: EmbeddedBroker, registry: SmallRegistry, strategy: str, options: dict[str, str]
) -> None:
    """Java's serializers raise an error, too."""
    with pytest.raises(ConfigError, match="the schema of the value is not a record with a name"):
        write(broker, registry, **options, **{"value.subject.name.strategy": strategy})
    assert not registry.subjects
    named = {"value.schema": ORDER_RECORD, "value.subject.name.strategy": strategy}
    write(broker, registry, **named)
    assert [subject.rpartition("-")[2] for subject in registry.subjects] == ["Order"]


def test_row_that_fits_no_alternative(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    alternatives = [{"properties": {"id": {"const": name}}} for name in ("x", "y")]
    schema = {"value.format": "json-confluent", "value.schema": json.dumps({"oneOf": alternatives})}
    with pytest.raises(ColumnError, match=r"^the value fits none of the alternatives"):
        write(broker, registry, **schema)


def test_topic_column_requires_record_name_strategy(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    schema = StructType([*ORDER.fields, StructField("topic", StringType())])
    options = {"schema.registry.url": registry.url, **AVRO, "value.fields": "id,price"}
    source = KafkaProdDataSource(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "preflight": "off", **options}
    )
    with pytest.raises(ConfigError, match="RecordNameStrategy"):
        source.writer(schema, overwrite=False)


def test_guid_header(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    rows: list[dict[str, Any]] = [{"id": name, "price": 1.0} for name in "ab"]
    header = {"value.schema.id.serializer": "HeaderSchemaIdSerializer"}
    write(broker, registry, ORDER, rows, **header)
    expected = [("__value_schema_id", b"\x01" + UUID(guid_of(1)).bytes)]
    assert [record.headers for record in broker.records("events")] == [expected] * 2
    assert decoded(broker, registry) == rows
    registry.guids = False
    with pytest.raises(SchemaRegistryError, match="no GUID"):
        write(broker, registry, **header)


def test_new_nullable_column_evolves_the_schema(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    write(broker, registry)
    wider = StructType([*ORDER.fields, StructField("tax", DoubleType())])
    write(broker, registry, wider, [{"id": "b", "price": 2.0, "tax": 0.1}])
    assert registry.subjects == {"events-value": [1, 2]}
    assert values(broker)[-1][:5] == b"\0\0\0\0\2"


@pytest.mark.parametrize("dry_run", ["false", "true"])
def test_incompatible_schema_fails_before_any_task(
    broker: EmbeddedBroker, registry: SmallRegistry, dry_run: str
) -> None:
    registry.put("events-value", json.dumps({"type": "record", "name": "Value", "fields": []}))
    with pytest.raises(SchemaRegistryError) as caught:
        write(broker, registry, NOT_NULL, [{"id": "a"}], dryRun=dry_run)
    assert "events-value" in str(caught.value)
    assert "nullable" in (caught.value.hint or "")
    assert "The field 'id' at path '/fields/0'" in str(caught.value)
    assert registry.subjects == {"events-value": [1]}


def test_dry_run_registers_nothing(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    write(broker, registry, dryRun="true")
    assert registry.subjects == {}
    assert registry.requests == ["POST /compatibility/subjects/events-value/versions/latest"]


def test_latest_version_determines_order_and_types(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "price", "type": ["double", "null"]},
            {"name": "id", "type": ["null", "string"]},
            {"name": "source", "type": "string", "default": "web"},
        ],
    }
    registry.put("events-value", json.dumps(schema))
    write(broker, registry, **LATEST)
    assert decoded(broker, registry) == [{**row, "source": "web"} for row in ROWS]
    assert not any("POST" in request for request in registry.requests[:1])


def test_schema_id(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    registry.put("other", '"string"')
    number = registry.put("events-value", RECORD)
    write(broker, registry, **{"auto.register.schemas": "false", "use.schema.id": str(number)})
    assert [value[:5] for value in values(broker)] == [b"\0\0\0\0\2"] * 2


def test_without_auto_registration(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    off = {"auto.register.schemas": "false"}
    assert "40401" in error_of(broker, registry, **off)
    write(broker, registry, **{"value.schema": RECORD})
    write(broker, registry, **{"value.schema": RECORD}, **off)
    assert registry.subjects == {"events-value": [1]}


def test_invalid_null_is_a_dead_letter_as_json(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    strict = RECORD.replace('["null", "string"]', '"string"')
    registry.put("events-value", strict)
    with pytest.raises(ColumnError, match="row 1"):
        write(broker, registry, **LATEST)
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    rows: list[dict[str, Any]] = [*ROWS, {"id": None, "price": 7.5}]
    write(broker, registry, ORDER, rows, **LATEST, **letters)
    assert decoded(broker, registry) == ROWS[:1]
    assert [record.value for record in broker.records("dead")] == [b"{}", b'{"price":7.5}']
    message = dict(broker.records("dead")[1].headers)["__connect.errors.exception.message"]
    assert b"the field `id` of the value" in (message or b"")


def test_references_are_resolved(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    registry.put("money", json.dumps({"type": "fixed", "name": "com.x.Unused", "size": 4}))
    inner = {
        "type": "record",
        "name": "com.x.Name",
        "fields": [{"name": "first", "type": ["null", "string"]}],
    }
    registry.put("name", json.dumps(inner))
    outer = {
        "type": "record",
        "name": "Value",
        "namespace": "com.x",
        "fields": [{"name": "name", "type": ["null", "Name"]}],
    }
    reference = {"name": "com.x.Name", "subject": "name", "version": 1}
    registry.put("events-value", json.dumps(outer), references=[reference])
    nested = StructType([StructField("name", StructType([StructField("first", StringType())]))])
    rows: list[dict[str, Any]] = [{"name": {"first": "Ada"}}, {"name": None}]
    write(broker, registry, nested, rows, **LATEST)
    assert [value[5:] for value in values(broker)] == [b"\x02\x02\x06Ada", b"\x00"]
    registry.put("other", json.dumps(outer | {"name": "Other"}), references=[reference])
    events = ["com.x.Value", "com.x.Other"]
    union = [
        {"name": name, "subject": subject, "version": 1}
        for name, subject in zip(events, ("events-value", "other"), strict=True)
    ]
    registry.put("events-value", json.dumps(events), references=union)
    chosen = {"value.schema.name": "Other"}
    write(broker, registry, nested, rows, **LATEST, **chosen)
    assert [value[5:] for value in values(broker)][2:] == [b"\x02\x02\x02\x06Ada", b"\x02\x00"]
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "events"}
    options = servers | AVRO | LATEST | chosen | {"schema.registry.url": registry.url}
    assert [record.value for record in broker.records("events", options=options)] == rows * 2


def test_references_of_a_json_schema_are_resolved(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    first = {"$id": "http://x/first", "definitions": {"T": {"enum": ["Ada"]}}}
    registry.put("first", json.dumps(first), "JSON")
    name = {"properties": {"first": {"$ref": "first.json#/definitions/T"}}, "required": ["first"]}
    inner = {"name": "first.json", "subject": "first", "version": 1}
    registry.put("name", json.dumps(name), "JSON", references=[inner])
    reference = {"name": "http://x/name.json", "subject": "name", "version": 1}
    outer = {"properties": {"name": {"$ref": "http://x/name.json"}}}
    registry.put("events-value", json.dumps(outer), "JSON", references=[reference])
    nested = StructType([StructField("name", StructType([StructField("first", StringType())]))])
    json_latest = {**LATEST, "value.format": "json-confluent"}
    write(broker, registry, nested, [{"name": {"first": "Ada"}}], **json_latest)
    assert [value[5:] for value in values(broker)] == [b'{"name":{"first":"Ada"}}']
    with pytest.raises(ColumnError, match=r"`name.first` of the value is not in the schema's"):
        write(broker, registry, nested, [{"name": {"first": "Bob"}}], **json_latest)
    # The reference `first.json` of another schema is another document.
    registry.put("last", json.dumps({"definitions": {"T": {"enum": ["Lovelace"]}}}), "JSON")
    other = {"properties": {"last": {"$ref": "first.json#/definitions/T"}}}
    registry.put("other", json.dumps(other), "JSON", references=[inner | {"subject": "last"}])
    references = [
        reference | {"name": f"http://y/{s}.json", "subject": s} for s in ("other", "name")
    ]
    both = {"properties": {r["subject"]: {"$ref": r["name"]} for r in references}}
    registry.put("events-value", json.dumps(both), "JSON", references=references)
    fields = [StructField("first", StringType()), StructField("last", StringType())]
    types = [
        StructField(s, StructType([f])) for s, f in zip(("name", "other"), fields, strict=True)
    ]
    for last, fails in (("Lovelace", False), ("Ada", True)):
        row = {"name": {"first": "Ada"}, "other": {"last": last}}
        with pytest.raises(ColumnError, match=r"`other.last`") if fails else nullcontext():
            write(broker, registry, StructType(types), [row], **json_latest)


def test_rule_sets_are_not_supported(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    rule = {"name": "encrypt", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT"}
    registry.rules = {"domainRules": [rule]}
    assert "encrypt (ENCRYPT)" in error_of(broker, registry)
    registry.put("events-value", RECORD)
    assert "in clear" in error_of(broker, registry, **LATEST)


def test_schema_of_another_type_is_rejected(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    registry.put("events-value", "{}", "JSON")
    assert "has type JSON" in error_of(broker, registry, **LATEST)


def test_basic_authentication(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    registry.authorization = BASIC
    text = error_of(broker, registry, **{"basic.auth.user.info": "me:wrong-pw"})
    assert "HTTP status 401" in text
    assert "wrong-pw" not in text
    assert "basic.auth.user.info" in text
    write(broker, registry, **{"basic.auth.user.info": "me:pw-1"})
    url = registry.url.replace("http://", "http://me:pw-1@")
    write(broker, registry, **{"schema.registry.url": url})
    registry.authorization = "Bearer token-1"
    write(broker, registry, **{"bearer.auth.token": "token-1"})


def test_inherited_login(registry: SmallRegistry) -> None:
    registry.authorization = BASIC
    with EmbeddedBroker(topics={"events": 1}, sasl={"me": "pw-1"}) as broker:
        write(
            broker,
            registry,
            **{
                "basic.auth.credentials.source": "SASL_INHERIT",
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.username": "me",
                "kafka.sasl.password": "pw-1",
            },
        )
        assert len(broker.records("events")) == 2


def test_writer_of_tasks_contains_no_login(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    registry.authorization = BASIC
    source = KafkaProdDataSource(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "topic": "events",
            "preflight": "off",
            "schema.registry.url": registry.url,
            "basic.auth.user.info": "me:pw-1",
            **AVRO,
        }
    )
    assert b"pw-1" not in pickle.dumps(source.writer(ORDER, overwrite=False))


def test_failures_are_retried(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    registry.faults.extend([(500, {}), (503, {"message": "later"})])
    write(broker, registry)
    assert decoded(broker, registry) == ROWS


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
def test_registry_errors_are_quoted(
    broker: EmbeddedBroker, registry: SmallRegistry, fault: tuple[int, Any], text: str
) -> None:
    registry.faults.append(fault)
    assert text in error_of(broker, registry)


def test_slow_registry_times_out(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    registry.faults.append(0.5)
    options = {"http.read.timeout.ms": "50", "max.retries": "0"}
    assert "cannot be reached" in error_of(broker, registry, **options)


def test_stream_registers_once_per_start(
    broker: EmbeddedBroker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = iter([(5, 1), (5, 1), (4, 9), (6, 2), (6, 2), (6, 2)])
    monkeypatch.setattr("spark_kafka_sink.spark.write_plan.reject_continuous", lambda: None)
    monkeypatch.setattr(
        "spark_kafka_sink.spark.write_plan.latest_query_start", lambda: next(starts)
    )
    spec_completion._CACHED_ROLES.clear()
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": "events",
        "preflight": "off",
        "schema.registry.url": registry.url,
        "checkpointLocation": "/nowhere",
        **AVRO,
    }
    for registered in (
        1,
        1,
        1,
        2,
        2,
    ):  # the fourth start is later, as after a restart of the stream
        KafkaProdDataSource(options).streamWriter(ORDER, overwrite=False)
        posts = [request for request in registry.requests if request.startswith("POST")]
        assert len(posts) == registered
    wider = StructType([*ORDER.fields, StructField("n", LongType())])
    KafkaProdDataSource(options).streamWriter(wider, overwrite=False)
    assert registry.subjects == {"events-value": [1, 2]}


def test_run_of_a_query_registers_once_but_never_writes_with_the_specs_of_a_dry_run(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    """A foreachBatch function can try a micro-batch before it writes it, to several topics."""
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "preflight": "off",
        "schema.registry.url": registry.url,
        **AVRO,
    }
    run, prefixes = str(uuid4()), []
    for topic, dry_run in [*product(("events", "others"), ("true", "false"))] * 2:
        settings = {**options, "topic": topic, "dryRun": dry_run}
        job = plan_batch(settings, ORDER, run_id=run)
        assert job.task.roles.value_spec is not None
        prefixes.append(job.task.roles.value_spec.framing.prefix)
    posts = [request for request in registry.requests if request.endswith("/versions")]
    assert [request for request in posts if request.startswith("POST")] == [
        "POST /subjects/events-value/versions",
        "POST /subjects/others-value/versions",
    ]
    unregistered, registered = b"\0" * 5, b"\0\0\0\0\1"
    assert prefixes == [unregistered, registered] * 4


def test_no_schema_is_registered_if_another_one_fails(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    registry.put("events-value", json.dumps({"type": "record", "name": "Value", "fields": []}))
    keys = {"key.format": "avro-confluent", "key.fields": "id"}
    with pytest.raises(SchemaRegistryError, match="'id' at path '/fields/0'"):
        write(broker, registry, NOT_NULL, [{"id": "a"}], **keys)
    with pytest.raises(ColumnError, match="price"):
        write(broker, registry, **{"topic": "other", "value.schema": TEXT_PRICE})
    assert registry.subjects == {"events-value": [1]}


def test_registry_in_memory(broker: EmbeddedBroker) -> None:
    options = {"value.format": "avro-confluent", "schema.registry.url": "mock://shared"}
    write_rows(broker, ORDER, ROWS, dryRun="true", **options)
    assert broker.records("events") == []
    for schema in (ORDER, ORDER, StructType(ORDER.fields[1:])):
        write_rows(broker, schema, ROWS[:1], **options)
    assert [value[4] for value in values(broker)] == [1, 1, 2]
    write_rows(broker, ORDER, ROWS[:1], **options, **{"auto.register.schemas": "false"})
    with pytest.raises(SchemaRegistryError, match="404"):
        write_rows(broker, NOT_NULL, ROWS[:1], **options, **{"auto.register.schemas": "false"})


def test_json_schema(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    schema_options = {"value.format": "json-confluent", "value.schema": json.dumps(JSON_SCHEMA)}
    wider = StructType([*ORDER.fields, StructField("tax", DoubleType())])
    with pytest.raises(ColumnError, match="column `tax`"):
        write(broker, registry, wider, [{"id": "b", "price": 2.0, "tax": 0.1}], **schema_options)
    assert registry.subjects == {}
    with pytest.raises(ColumnError, match="the field `id` of the value is null"):
        write(broker, registry, **schema_options)
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    write(broker, registry, **schema_options, **letters)
    assert [value[5:] for value in values(broker)] == [b'{"id":"a","price":1.5}']
    assert [record.value for record in broker.records("dead")] == [b"{}"]
    latest = {"value.format": "json-confluent", **LATEST}
    with pytest.raises(ColumnError, match="field `id`"):
        write(broker, registry, StructType(ORDER.fields[1:]), [{"price": 2.0}], **latest)
