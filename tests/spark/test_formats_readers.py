"""Records with formats, read by Confluent's deserializers and `from_avro`."""

import base64
import datetime as dt
import json
import os
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecord
from tests.spark.support.append import append
from tests.support.protoc import compile_files, message_class
from tests.support.python import run_python
from tests.support.schema_registry import SmallRegistry

TOPIC = "rows"
COLUMNS = """
    cast(id as tinyint) as tiny, cast(id - 1 as int) as whole, id * 10000000000 as large,
    cast(id as float) / 2 as single, id / 3 as real, cast(id - 1 as decimal(9, 2)) as amount,
    cast(id - 1 as decimal(38, 0)) as big, id = 1 as flag, concat('é', id) as text,
    cast(concat('b', id) as binary) as raw, date_add(date'1969-12-31', cast(id as int)) as day,
    timestamp_micros(id * 1234567 - 1) as at, if(id = 0, null, id) as maybe,
    timestamp_ntz'2024-02-29 12:34:56.789012' as local,
    array(id, null) as numbers, map('k', struct(id as x)) as byname,
    if(id = 1, null, struct(cast(id as string) as s, array(struct(id as z)) as inner)) as nested
"""
EXPECTED = {
    "tiny": 2, "whole": 1, "large": 20_000_000_000, "single": 1.0, "real": 2 / 3,
    "amount": Decimal("1.00"), "big": Decimal(1), "flag": False, "text": "é2", "raw": b"b2",
    "day": dt.date(1970, 1, 2), "at": dt.datetime(1970, 1, 1, 0, 0, 2, 469133, dt.UTC), "maybe": 2,
    "local": dt.datetime(2024, 2, 29, 12, 34, 56, 789012),  # noqa: DTZ001 - without zone
    "numbers": [2, None], "byname": {"k": {"x": 2}}, "nested": {"s": "2", "inner": [{"z": 2}]},
}  # fmt: skip
"""Expected values of the last of three rows."""
EVENTS = """[  // Each DataFrame writes one type of event.
  {"type": "record", "name": "shop.Created", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": null}]},
  {"type": "record", "name": "shop.Cancelled", "fields": [{"name": "id", "type": "long"}]}
]"""
WITHOUT_FORMATS = """
import sys
from pyspark.sql import SparkSession
from spark_kafka_sink import EmbeddedBroker, write
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = dict(topic="plain")
with EmbeddedBroker(auto_create_topics=True) as broker:
    options["kafka.bootstrap.servers"] = broker.bootstrap_servers
    rows = spark.range(10).selectExpr("cast(id as string) as value")
    write(rows, options | dict(FORMATS))
    assert len(broker.records("plain")) == 10
spark.stop()
"""


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        return spark.range(0, 3, 1, 1).selectExpr(*split(COLUMNS))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def split(columns: str) -> list[str]:
    """Split a list of expressions that end in `as name`."""
    parts, text = [], ""
    for part in columns.replace("\n", " ").split(","):
        text = f"{text},{part}" if text else part
        if text.count("(") == text.count(")") and " as " in part.rpartition(")")[2]:
            parts.append(text.strip())
            text = ""
    return parts


def written(
    frame: DataFrame, broker: EmbeddedBroker, topic: str, **options: str
) -> Sequence[ConsumerRecord]:
    named = {name.replace("__", "."): text for name, text in options.items()}
    append(frame, {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, **named})
    return broker.records(topic)


@pytest.mark.parametrize("framing", ["PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer"])
def test_confluent_avro_deserializer(
    frame: DataFrame, broker: EmbeddedBroker, registry: SmallRegistry, unique_topic: str,
    framing: str
) -> None:  # fmt: skip
    records = written(
        frame, broker, unique_topic, value__format="avro-confluent",
        schema__registry__url=registry.url, value__schema__id__serializer=framing
    )  # fmt: skip
    reader = AvroDeserializer(
        SchemaRegistryClient({"url": registry.url}),
        conf={"schema.id.deserializer": dual_schema_id_deserializer},
    )
    read = [reader(record.value, context(unique_topic, record)) for record in records]
    assert read[2] == EXPECTED
    assert [row["maybe"] for row in read] == [None, 1, 2]
    assert [row["nested"] is None for row in read] == [False, True, False]


def context(topic: str, record: ConsumerRecord) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, list(record.headers))


@pytest.mark.parametrize(("precision", "scale"), [(1, 0), (10, 2), (38, 0), (38, 38)])
def test_java_reads_big_decimals(spark: SparkSession, precision: int, scale: int) -> None:
    unscaled = [0, -1, 1, 127, -128, 128, 32767, -32769, 2**63, -(2**63) - 1, 10**38 - 1]
    fitting = [number for number in unscaled if abs(number) < 10**precision]
    values = [Decimal(f"{number}E-{scale}") for number in fitting]
    schema = {"type": "bytes", "logicalType": "big-decimal"}
    fields = [{"name": "a", "type": schema}, {"name": "n", "type": ["null", schema]}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    type_ = pa.decimal128(precision, scale)
    rows = [{"a": value, "n": value} for value in values]
    array: Any = pa.array(rows, pa.struct([("a", type_), ("n", type_)]))
    spec = EncoderSpec(format=Format.AVRO, schema=text)
    errors = EncodingErrors(len(array))
    encoded = compile_encoder(spec, array.type).encode(array, errors)
    assert not errors
    jvm: Any = spark._jvm
    avro = jvm.org.apache.avro
    parsed = avro.Schema.Parser().parse(text)
    model = avro.generic.GenericData()
    model.addLogicalTypeConversion(avro.Conversions.BigDecimalConversion())
    reader = avro.generic.GenericDatumReader(parsed, parsed, model)
    for value, data in zip(values, encoded.to_pylist(), strict=True):
        row = reader.read(None, avro.io.DecoderFactory.get().binaryDecoder(data, None))
        assert [row.get("a"), row.get("n")] == [value, value]


def test_events_and_keys_without_records(
    frame: DataFrame, broker: EmbeddedBroker, registry: SmallRegistry, unique_topic: str
) -> None:
    events = frame.selectExpr("text as key", "named_struct('id', large) as value")
    common = {
        "schema__registry__url": registry.url, "key__format": "avro-confluent",
        "value__format": "avro-confluent", "key__schema": "string",
    }  # fmt: skip
    with pytest.raises(Exception, match=r"several types|is not a record"):
        written(
            events, broker, unique_topic, **common, value__schema=EVENTS,
            value__subject__name__strategy="TopicRecordNameStrategy"
        )  # fmt: skip
    written(events, broker, unique_topic, **common, value__schema=EVENTS)
    latest = {"auto__register__schemas": "false", "use__latest__version": "true"}
    del common["key__schema"]
    records = written(
        events, broker, unique_topic, **common, **latest, value__schema__name="shop.Created"
    )
    client = SchemaRegistryClient({"url": registry.url})
    assert client.get_latest_version(f"{unique_topic}-key").schema.schema_str == '"string"'
    reader = AvroDeserializer(client, return_record_name=True)
    values = [reader(record.value, context(unique_topic, record)) for record in records]
    assert values[2] == ("shop.Cancelled", {"id": 20_000_000_000})
    assert values[5] == ("shop.Created", {"id": 20_000_000_000, "note": None})
    key = SerializationContext(unique_topic, MessageField.KEY)
    assert [reader(record.key, key) for record in records] == ["é0", "é1", "é2"] * 2


@pytest.mark.parametrize(
    ("columns", "value_format", "text"),
    [
        (["array() as tags", "map() as m", "1 as id"], "json", b'{"tags":[],"m":{},"id":1}'),
        (
            ["array(array()) as tags", "map('k', array()) as m"],
            "json",
            b'{"tags":[[]],"m":{"k":[]}}',
        ),
        (["array() as tags", "map() as m", "1 as id"], "avro", b"\0\0\2"),
        (["array(null) as tags", "map('k', null) as m"], "avro", b"\2\0\2\2k\0"),
    ],
)
def test_void_items_are_written_only_where_the_format_has_them(
    spark: SparkSession, broker: EmbeddedBroker, unique_topic: str, columns: list[str],
    value_format: str, text: bytes
) -> None:  # fmt: skip
    frame = spark.range(1).selectExpr(*columns)
    (record,) = written(frame, broker, unique_topic, value__format=value_format)
    assert record.value == text
    if value_format == "json":
        assert json.loads(text) == json.loads(frame.select(sf.to_json(sf.struct("*"))).first()[0])  # type: ignore[index]
    with pytest.raises(Exception, match=r"cannot be written as .*Protobuf"):
        written(frame, broker, unique_topic, value__format="protobuf")


def test_confluent_json_deserializer(
    frame: DataFrame, broker: EmbeddedBroker, registry: SmallRegistry, unique_topic: str
) -> None:
    records = written(
        frame, broker, unique_topic, value__format="json-confluent",
        schema__registry__url=registry.url
    )  # fmt: skip
    reader = JSONDeserializer(
        None,
        schema_registry_client=SchemaRegistryClient({"url": registry.url}),
        conf={"validate": True},
    )
    read = [reader(record.value, context(unique_topic, record)) for record in records]
    message = read[2]
    same = ("tiny", "whole", "large", "single", "flag", "text", "maybe", "byname", "nested")
    assert {name: message[name] for name in same} == {name: EXPECTED[name] for name in same}
    assert Decimal(str(message["amount"])) == EXPECTED["amount"]
    assert base64.b64decode(message["raw"]) == EXPECTED["raw"]
    assert message["day"] == "1970-01-02"
    assert dt.datetime.fromisoformat(message["at"]) == dt.datetime(
        1970, 1, 1, 0, 0, 2, 469000, dt.UTC
    )
    assert "maybe" not in read[0]


def test_confluent_protobuf_deserializer(
    frame: DataFrame, broker: EmbeddedBroker, registry: SmallRegistry, unique_topic: str
) -> None:
    frame = frame.drop("numbers", "amount", "big")
    records = written(
        frame, broker, unique_topic, value__format="protobuf-confluent",
        schema__registry__url=registry.url
    )  # fmt: skip
    client = SchemaRegistryClient({"url": registry.url})
    text = client.get_latest_version(f"{unique_topic}-value").schema.schema_str
    kind = message_class(compile_files({"value.proto": str(text)}).values(), "Value")
    reader = ProtobufDeserializer(kind)  # With a client, it asks for a descriptor in base64.
    read: list[Any] = [reader(record.value, context(unique_topic, record)) for record in records]
    same = ("tiny", "whole", "large", "single", "real", "flag", "text", "raw", "maybe")
    assert {name: getattr(read[2], name) for name in same} == {
        name: EXPECTED[name] for name in same
    }
    assert read[2].day == 1
    assert read[2].at.ToDatetime(dt.UTC) == EXPECTED["at"]
    assert MessageToDict(read[2].nested) == {"s": "2", "inner": [{"z": "2"}]}
    assert read[2].byname["k"].x == 2
    assert [message.HasField("maybe") for message in read] == [False, True, True]


def test_spark_from_avro(
    frame: DataFrame, broker: EmbeddedBroker, registry: SmallRegistry, unique_topic: str
) -> None:
    records = written(
        frame, broker, unique_topic, value__format="avro-confluent",
        schema__registry__url=registry.url
    )  # fmt: skip
    schema = registry.schemas[int.from_bytes((records[0].value or b"")[1:5]) - 1]["schema"]
    values = [((record.value or b"")[5:],) for record in records]
    spark = frame.sparkSession
    read = spark.createDataFrame(values, "value binary").select(
        from_avro("value", schema).alias("row")
    )
    # `to_json` of both is equal, also for types that Avro does not support.
    as_json = sf.to_json(sf.struct(*frame.columns)).alias("text")
    texts = [
        sorted(row.text for row in rows.select(as_json).collect())
        for rows in (read.select("row.*"), frame)
    ]
    assert texts[0] == texts[1]
    assert json.loads(texts[0][2])["text"] == "é2"


@pytest.mark.deep
@pytest.mark.parametrize("options", [{}, {"value.format": "json", "value.fields": "value"}])
def test_writes_without_formats_do_not_import_them(options: dict[str, str]) -> None:
    """Neither the driver, the planning worker nor the task imports them."""
    code = WITHOUT_FORMATS.replace("FORMATS", repr(options), 1)
    imports = {"PYTHONPROFILEIMPORTTIME": "1", "PYSPARK_PYTHON": sys.executable}
    done = run_python("-c", code, env={**os.environ, **imports})
    assert done.returncode == 0, done.stderr[-3000:]
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    # Of modules that `preloading` imports, Python's list contains only their own imports.
    assert {"spark_kafka_sink.spark.write_plan", "spark_kafka_sink.producer.session"} <= loaded
    modules = {name for name in loaded if name.startswith("spark_kafka_sink.formats")}
    assert bool(modules) == bool(options), modules
