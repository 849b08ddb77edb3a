"""`assert_written` and `records`, for tests of users' jobs, decode records with formats."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_sink import ConfigError, EmbeddedBroker
from spark_kafka_sink.testing import assert_written
from tests.spark.support.append import append
from tests.support.schema_registry import SmallRegistry

PAYLOADS = ("json", "avro", "protobuf")
CONFLUENT = tuple(f"{payload}-confluent" for payload in PAYLOADS)
COLUMNS = (
    "cast(id as string) as name",
    "id * 1.5D as price",
    "cast(id as decimal(9, 2)) as amount",
    "date'2024-02-29' as day",
    "timestamp'2024-02-29 12:34:56.789012' as at",
    "array(struct(id as x, cast(null as string) as y)) as items",
    "map('k', id) as counts",
    "cast(concat('é', id) as binary) as raw",
)
VALUES: dict[str, dict[str, Any]] = {
    "json": {
        "name": "2",
        "price": 3.0,
        "amount": 2.0,
        "day": "2024-02-29",
        "items": [{"x": 2}],
        "counts": {"k": 2},
        "raw": "w6ky",
    },
    "avro": {
        "name": "2",
        "price": 3.0,
        "amount": Decimal("2.00"),
        "day": dt.date(2024, 2, 29),
        "items": [{"x": 2, "y": None}],
        "counts": {"k": 2},
        "raw": b"\xc3\xa92",
    },
    "protobuf": {
        "name": "2",
        "price": 3.0,
        "items": [{"x": 2, "y": None}],
        "counts": {"k": 2},
        "raw": b"\xc3\xa92",
    },
}


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, 3, 1, 1).selectExpr(*COLUMNS)


def write(frame: DataFrame, broker: EmbeddedBroker, topic: str, **more: str) -> dict[str, str]:
    """Write a frame and return the options."""
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    options |= {name.replace("__", "."): text for name, text in more.items()}
    append(frame, options)
    return options


@pytest.mark.parametrize("format_", ["json", "avro"])
@pytest.mark.parametrize(
    "column",
    [
        "array()",
        "struct(map() as m)",
        "date'0000-12-31'",
        "timestamp_micros(253402300800000000 + id)",
        "timestamp_ntz'+12345-01-01'",
    ],
)
def test_compare_values_that_python_or_arrow_does_not_have(
    spark: SparkSession, broker: EmbeddedBroker, unique_topic: str, column: str, format_: str
) -> None:
    rows = spark.range(0, 2, 1, 1).selectExpr(f"{column} as a", "id")
    options = write(rows, broker, unique_topic, value__format=format_)
    assert_written(rows, broker, options=options)
    with pytest.raises(AssertionError, match="2 rows expected, 2 records found"):
        assert_written(rows.withColumn("id", rows.id + 1), broker, options=options)


@pytest.mark.parametrize("format_", PAYLOADS + CONFLUENT)
def test_compare_decoded_rows(
    frame: DataFrame,
    broker: EmbeddedBroker,
    registry: SmallRegistry,
    unique_topic: str,
    format_: str,
) -> None:
    more = {"schema__registry__url": registry.url} if format_ in CONFLUENT else {}
    options = write(frame, broker, unique_topic, value__format=format_, key__fields="name", **more)
    assert_written(frame, broker, options=options)
    assert_written(frame.orderBy("price", ascending=False), broker, unique_topic, options=options)
    other = frame.selectExpr("name", "if(name = '1', 7.0D, price) as price", *frame.columns[2:])
    with pytest.raises(AssertionError) as caught:
        assert_written(other, broker, options=options)
    assert str(caught.value).splitlines() == [
        "3 rows expected, 3 records found: 1 different",
        "  different: 1: price 7.0 expected, 1.5 found",
    ]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("spark.sql.session.timeZone", "Asia/Kolkata"),
        ("spark.sql.session.timeZone", "-03:30"),
        ("spark.sql.jsonGenerator.ignoreNullFields", "false"),
    ],
)
def test_json_follows_the_session(
    broker: EmbeddedBroker, spark: SparkSession, frame: DataFrame, setting: str, text: str
) -> None:
    topic = f"session-{text.replace('/', '-').replace(':', '-')}"
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, text)
    try:
        rows = frame.selectExpr("*", "cast(null as int) as none")
        formats = {"key__format": "json", "value__format": "json", "key__fields": "at, none"}
        options = write(rows, broker, topic, **formats)
        assert_written(rows, broker, options=options)
    finally:
        spark.conf.set(setting, before)


def test_keys_headers_and_topics_of_columns(
    spark: SparkSession, broker: EmbeddedBroker, registry: SmallRegistry, unique_topic: str
) -> None:
    frame = spark.range(0, 4, 1, 1).selectExpr(
        "struct(id) as key",
        "if(id = 1, null, struct(id as n, 'x' as text)) as value",
        f"concat('{unique_topic}-', id % 2) as topic",
        "array(struct('h' as key, encode('v', 'utf-8') as value)) as headers",
    )
    formats = {"key__format": "avro-confluent", "value__format": "avro-confluent"}
    named = {f"{part}__subject__name__strategy": "RecordNameStrategy" for part in ("key", "value")}
    framing = {"value__schema__id__serializer": "HeaderSchemaIdSerializer"}
    more = {"schema__registry__url": registry.url, "includeHeaders": "true"}
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    options |= {
        name.replace("__", "."): text
        for name, text in {**formats, **named, **framing, **more}.items()
    }
    append(frame, options)
    assert_written(frame, broker, options=options)
    with pytest.raises(AssertionError, match="1 unexpected"):
        assert_written(frame.where("key.id != 3"), broker, options=options)
    records = broker.records(f"{unique_topic}-1", options=options)
    assert [(record.key, record.value) for record in records] == [
        ({"id": 1}, None),
        ({"id": 3}, {"n": 3, "text": "x"}),
    ]
    assert records[0].headers == [("h", b"v")]


def test_nullability_can_differ_with_a_registry(
    spark: SparkSession, broker: EmbeddedBroker, registry: SmallRegistry, unique_topic: str
) -> None:
    more = {"value__format": "avro-confluent", "schema__registry__url": registry.url}
    options = write(spark.range(2), broker, unique_topic, **more)
    expected = spark.createDataFrame([(0,), (1,)], "id bigint")
    assert_written(expected, broker, options=options)


def test_mock_registry_uses_the_schema_of_the_frame(
    frame: DataFrame, broker: EmbeddedBroker, unique_topic: str
) -> None:
    more = {"value__format": "avro-confluent", "schema__registry__url": "mock://mine"}
    options = write(frame, broker, unique_topic, **more)
    assert_written(frame, broker, options=options)
    with pytest.raises(ConfigError, match=r"value\.schema"):
        broker.records(unique_topic, options=options)


@pytest.mark.parametrize("format_", CONFLUENT)
def test_records_are_decoded_to_dicts(
    frame: DataFrame,
    broker: EmbeddedBroker,
    registry: SmallRegistry,
    unique_topic: str,
    format_: str,
) -> None:
    more = {"value__format": format_, "schema__registry__url": registry.url}
    options = write(frame, broker, unique_topic, **more)
    last = broker.records(unique_topic, options=options)[-1]
    assert (last.topic, last.offset, last.key) == (unique_topic, 2, None)
    expected = VALUES[format_.removesuffix("-confluent")]
    assert {name: last.value[name] for name in expected} == expected
    assert last.value.keys() == set(frame.columns)


def test_record_of_another_format(broker: EmbeddedBroker, frame: DataFrame) -> None:
    options = write(frame.selectExpr("'text' as value"), broker, "raw")
    with pytest.raises(ConfigError, match="offset 0 of raw-0 is not json"):
        broker.records("raw", options={**options, "value.format": "json"})
