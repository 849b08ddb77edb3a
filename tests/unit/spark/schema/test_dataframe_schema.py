"""Errors of a DataFrame's columns, with the suggested replacement."""

import logging
from collections.abc import Callable

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from spark_kafka_sink import ColumnError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles, warn_of_misnamed_columns

CONFIG = SinkConfig.parse({"kafka.bootstrap.servers": "h:9092", "topic": "t"})
MONTHS = YearMonthIntervalType()
STRUCT = StructType([StructField("id", LongType())])


def hint(*columns: tuple[str, DataType]) -> str:
    schema = StructType([StructField(name, kind) for name, kind in columns])
    with pytest.raises(ColumnError) as caught:
        ColumnRoles.of(schema, CONFIG)
    return caught.value.hint or ""


@pytest.mark.parametrize(
    "kind", [ArrayType(LongType()), MapType(StringType(), LongType())], ids=str
)
@pytest.mark.parametrize("name", ["key", "value"])
def test_nested_value_suggests_json(name: str, kind: DataType) -> None:
    columns = {"value": StringType(), name: kind}
    assert f".withColumn('{name}', to_json('{name}'))" in hint(*columns.items())


@pytest.mark.parametrize("name", ["key", "value"])
def test_struct_needs_a_format(name: str) -> None:
    columns: dict[str, DataType] = {"value": StringType(), name: STRUCT}
    assert f"Set {name}.format" in hint(*columns.items())


def test_number_suggests_a_cast() -> None:
    assert "col('value').cast('STRING')" in hint(("value", LongType()))
    number = hint(("value", StringType()), ("partition", LongType()))
    assert "col('partition').cast('INT')" in number


def test_column_names_are_case_sensitive() -> None:
    assert ".withColumnRenamed('VALUE', 'value')" in hint(("VALUE", StringType()))
    assert "Set value.format, for example to json" in hint(("text", StringType()))


@pytest.mark.parametrize(
    "type_",
    [
        MONTHS,
        ArrayType(MONTHS),
        MapType(StringType(), MONTHS),
        StructType([StructField("a", ArrayType(StructType([StructField("b", MONTHS)])))]),
    ],
)
def test_month_intervals_are_rejected_even_if_not_written(type_: DataType) -> None:
    schema = StructType([StructField("value", StringType()), StructField("age", type_)])
    with pytest.raises(ColumnError, match=r"column `age` has type .*, which PyArrow cannot read"):
        ColumnRoles.of(schema, CONFIG)


@pytest.mark.parametrize(
    "wrap", [lambda kind: kind, ArrayType, lambda kind: StructType([StructField("b", kind)])]
)
def test_struct_with_equal_names_is_rejected_even_if_not_written(
    wrap: Callable[[DataType], DataType],
) -> None:
    pair = StructType([StructField("a", LongType())] * 2)
    schema = StructType([StructField("value", StringType()), StructField("pair", wrap(pair))])
    with pytest.raises(ColumnError, match=r"column `pair` .* two fields have the same name"):
        ColumnRoles.of(schema, CONFIG)


def test_columns_of_a_wide_frame_are_abbreviated() -> None:
    wide = StructType([StructField(f"c{number}", LongType()) for number in range(200)])
    with pytest.raises(ColumnError, match="`c9` and 190 more"):
        ColumnRoles.of(wide, CONFIG)
    with pytest.raises(ColumnError, match=r"c1:bigint.*\.\.\.: column `value`") as caught:
        ColumnRoles.of(StructType([StructField("value", wide)]), CONFIG)
    assert len(caught.value.message) < 250


@pytest.mark.parametrize(("key", "value"), [("key", "value"), ("KEY", "Value")])
def test_header_names_are_case_insensitive_as_in_the_format_kafka(key: str, value: str) -> None:
    header = StructType([StructField(key, StringType()), StructField(value, BinaryType())])
    schema = StructType([StructField("value", StringType())]).add("headers", ArrayType(header))
    assert ColumnRoles.of(schema, CONFIG).headers == 1


def misnamed(caplog: pytest.LogCaptureFixture, *names: str) -> list[str]:
    """Return the warnings about the columns of a DataFrame that is written twice."""
    warn_of_misnamed_columns.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            warn_of_misnamed_columns("value", *names)
    return caplog.messages


@pytest.mark.parametrize(
    ("name", "meant", "effect"),
    [
        ("KEY", "key", "records have no key"),
        ("Key ", "key", "records have no key"),
        ("Headers", "headers", "records have no headers"),
        ("PARTITION", "partition", "the partitioner chooses"),
    ],
)
def test_column_that_differs_only_in_case_is_reported(
    name: str, meant: str, effect: str, caplog: pytest.LogCaptureFixture
) -> None:
    (message,) = misnamed(caplog, name)
    assert f"column `{name}`" in message
    assert effect in message
    assert f".withColumnRenamed('{name}', '{meant}')" in message


@pytest.mark.parametrize(
    "names",
    [
        ("id", "keys", "my_topic"),  # other columns, which are ignored too
        ("key", "KEY"),  # the expected name is present
        ("Topic",),  # the option also overrides a column topic
        ("Timestamp",),  # without useTimestampColumn
        ("VALUE",),
    ],
)
def test_unrelated_columns_are_not_reported(
    names: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    assert misnamed(caplog, *names) == []


def test_missing_topic_and_timestamp_errors_name_the_similar_column() -> None:
    servers = {"kafka.bootstrap.servers": "h:9092"}
    schema = StructType([StructField(name, StringType()) for name in ("value", "Topic")])
    with pytest.raises(ColumnError) as caught:
        ColumnRoles.of(schema, SinkConfig.parse(servers))
    assert "Rename `Topic` to `topic`" in (caught.value.hint or "")
    schema = StructType([StructField(name, StringType()) for name in ("value", "TIMESTAMP")])
    timed = SinkConfig.parse({**servers, "topic": "t", "useTimestampColumn": "true"})
    with pytest.raises(ColumnError) as caught:
        ColumnRoles.of(schema, timed)
    assert "Rename `TIMESTAMP` to `timestamp`" in (caught.value.hint or "")
