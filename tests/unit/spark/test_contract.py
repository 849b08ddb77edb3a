"""What is wrong with a frame's columns, and what to write instead."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from spark_kafka_sink import ColumnError
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.spark.contract import Contract

CONFIG = SinkConfig.parse({"kafka.bootstrap.servers": "h:9092", "topic": "t"})
STRUCT = StructType([StructField("id", LongType())])


def hint(*columns: tuple[str, DataType]) -> str:
    schema = StructType([StructField(name, kind) for name, kind in columns])
    with pytest.raises(ColumnError) as caught:
        Contract.of(schema, CONFIG)
    return caught.value.hint or ""


@pytest.mark.parametrize(
    "kind", [STRUCT, ArrayType(LongType()), MapType(StringType(), LongType())], ids=str
)
@pytest.mark.parametrize("name", ["key", "value"])
def test_what_is_nested_becomes_json(name: str, kind: DataType) -> None:
    columns = {"value": StringType(), name: kind}
    assert f".withColumn('{name}', to_json('{name}'))" in hint(*columns.items())


def test_a_number_is_cast() -> None:
    assert "col('value').cast('STRING')" in hint(("value", LongType()))
    number = hint(("value", StringType()), ("partition", LongType()))
    assert "col('partition').cast('INT')" in number


def test_a_name_in_capitals_is_not_the_name() -> None:
    assert ".withColumnRenamed('VALUE', 'value')" in hint(("VALUE", StringType()))
    assert "to_json(struct(...))" in hint(("text", StringType()))


def test_a_frame_of_many_columns_is_named_in_short() -> None:
    wide = StructType([StructField(f"c{number}", LongType()) for number in range(200)])
    with pytest.raises(ColumnError, match="`c8`, `c9` and 190 more"):
        Contract.of(wide, CONFIG)
    with pytest.raises(ColumnError, match=r"c1:bigint.*\.\.\.: column `value` must be") as caught:
        Contract.of(StructType([StructField("value", wide)]), CONFIG)
    assert len(caught.value.message) < 250
