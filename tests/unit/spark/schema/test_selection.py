"""Selection of the columns of key and value, and rejected selections."""

from collections.abc import Mapping

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_kafka_sink import ColumnError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles

BASE = {"kafka.bootstrap.servers": "h:9092", "topic": "t"}
JSON = {"value.format": "json"}
STRUCT = StructType([StructField("id", LongType())])
HEADERS = ArrayType(StructType([StructField("key", StringType())]))
TWO: dict[str, DataType] = {"id": StringType(), "amount": LongType()}


def roles(columns: Mapping[str, DataType], **options: str) -> ColumnRoles:
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    return ColumnRoles.of(schema, SinkConfig.parse({**BASE, **options}))


def value_fields(selected: ColumnRoles) -> tuple[int, ...] | None:
    assert selected.value_spec is not None
    return selected.value_spec.fields


def rejection_of(columns: Mapping[str, DataType], **options: str) -> ColumnError:
    with pytest.raises(ColumnError) as caught:
        roles(columns, **options)
    return caught.value


def test_all_columns_are_fields() -> None:
    selected = roles(TWO, **JSON)
    assert value_fields(selected) == (0, 1)
    assert (selected.value, selected.key, selected.key_spec) == (None, None, None)
    assert selected.used == [0, 1]
    assert not selected.has_key


def test_fields_are_written_in_the_order_of_the_option() -> None:
    selected = roles(TWO, **JSON, **{"value.fields": "amount,id"})
    assert value_fields(selected) == (1, 0)


def test_raw_key_is_one_column_of_bytes() -> None:
    selected = roles(TWO, **JSON, **{"key.fields": "id"})
    assert (selected.key, selected.key_spec) == (0, None)
    error = rejection_of(TWO, **JSON, **{"key.fields": "amount"})
    assert "`amount` has type bigint" in str(error)
    assert "set key.format" in str(error)
    assert "lists 2 columns" in str(rejection_of(TWO, **JSON, **{"key.fields": "id,amount"}))


def test_value_may_exclude_the_fields_of_the_key() -> None:
    except_key = {"value.fields-include": "EXCEPT_KEY", "key.fields": "id"}
    selected = roles(TWO, **JSON, **except_key)
    assert value_fields(selected) == (1,)
    every = {**except_key, "key.format": "json", "key.fields": "id,amount"}
    assert "no fields" in str(rejection_of(TWO, **JSON, **every))


def test_struct_column_is_the_value_or_the_key() -> None:
    selected = roles(
        {"value": STRUCT, "key": STRUCT, "more": LongType()}, **JSON, **{"key.format": "json"}
    )
    assert selected.value_spec is not None
    assert selected.key_spec is not None
    assert (selected.value_spec.column, selected.key_spec.column) == (0, 1)
    assert selected.used == [0, 1]
    assert roles({"value": STRUCT, "key": StringType()}, **JSON).key == 1


def test_value_that_is_not_a_struct_is_rejected() -> None:
    error = rejection_of({"value": StringType(), "id": LongType()}, **JSON)
    assert "`value` has type string" in str(error)
    assert "value.fields=" in str(error)
    selected = roles({"value": StringType()}, **JSON, **{"value.fields": "value"})
    assert value_fields(selected) == (0,)


def test_two_selections_of_the_value_are_rejected() -> None:
    error = rejection_of({"value": STRUCT, "id": LongType()}, **JSON, **{"value.fields": "id"})
    assert "both define the value" in str(error)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("key", StringType()),
        ("key", LongType()),
        ("topic", StringType()),
        ("partition", IntegerType()),
        ("headers", HEADERS),
        ("timestamp", TimestampType()),
    ],
)
def test_column_with_two_meanings_is_rejected(name: str, kind: DataType) -> None:
    error = rejection_of({"id": StringType(), name: kind}, **JSON)
    assert f"the column `{name}` could be a field" in str(error)
    assert "value.fields=id" in str(error)


@pytest.mark.parametrize("name", ["key", "topic"])
def test_only_column_with_two_meanings_is_rejected(name: str) -> None:
    error = rejection_of({name: StringType()}, **JSON)
    assert (error.hint or "").startswith(f"To write it in the value, set value.fields={name}")
    assert roles({name: StringType()}, **JSON, **{"value.fields": name}).value_spec is not None


def test_list_of_fields_has_priority() -> None:
    columns = {"id": StringType(), "partition": IntegerType(), "timestamp": TimestampType()}
    role = roles(columns, **JSON, **{"value.fields": "id"}, useTimestampColumn="true")
    assert (role.partition, role.timestamp, role.used) == (1, 2, [0, 1, 2])
    field = roles(columns, **JSON, **{"value.fields": "id,partition"})
    assert (field.partition, field.used) == (None, [0, 1])


def test_key_is_field_and_key_if_both_are_named() -> None:
    columns = {"key": StringType(), "id": LongType()}
    selected = roles(columns, **JSON, **{"key.fields": "key"})
    assert selected.key == 0
    assert value_fields(selected) == (0, 1)
    assert roles(columns, **JSON, **{"value.fields": "key,id"}).key is None


def test_missing_columns_are_named() -> None:
    unknown = str(rejection_of(TWO, **JSON, **{"value.fields": "nope"}))
    assert f"no such column. The DataFrame has: {','.join(TWO)}." in unknown
    nested = rejection_of({"st": STRUCT}, **JSON, **{"value.fields": "st.id"})
    assert "col('st.id')" in str(nested)
    assert "the key is not defined" in str(rejection_of(TWO, **JSON, **{"key.format": "json"}))
