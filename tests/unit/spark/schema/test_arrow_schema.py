"""The Arrow types of columns that PySpark's own function does not convert."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.spark.schema.arrow_schema import arrow_type

AT = types.TimestampType()


def wrapped(inner: types.DataType) -> types.UserDefinedType:
    """Return a type whose values Spark stores as those of another type."""

    class Wrapped(types.UserDefinedType):
        @classmethod
        def sqlType(cls) -> types.DataType:  # noqa: N802 - PySpark's name
            return inner

    return Wrapped()


@pytest.mark.parametrize(
    "inner",
    [
        AT,
        types.StructType([types.StructField("at", AT), types.StructField("n", types.LongType())]),
        types.MapType(types.StringType(), types.ArrayType(AT, containsNull=False)),
        types.ArrayType(types.NullType(), containsNull=False),
        wrapped(AT),
    ],
    ids=str,
)
def test_user_defined_types_are_passed_as_what_they_store(inner: types.DataType) -> None:
    assert arrow_type(wrapped(inner), "a") == arrow_type(inner, "a")
    assert arrow_type(types.ArrayType(wrapped(inner)), "a") == pa.list_(
        pa.field("element", arrow_type(inner, "a"))
    )


@pytest.mark.parametrize("text", [types.CharType(3), types.VarcharType(3)], ids=str)
def test_texts_of_limited_length_are_texts(text: types.DataType) -> None:
    """DataFrames have these types with spark.sql.preserveCharVarcharTypeInfo."""
    assert arrow_type(text, "a") == pa.string()
    assert arrow_type(types.MapType(text, text), "a") == pa.map_(pa.string(), pa.string())


def test_column_of_a_user_defined_type_that_spark_does_not_pass() -> None:
    stored = types.StructType([types.StructField("i", types.YearMonthIntervalType())])
    with pytest.raises(ColumnError, match=r"column `a\.i` has type interval year to month"):
        arrow_type(wrapped(stored), "a")
