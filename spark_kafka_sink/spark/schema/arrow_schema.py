"""The Arrow schema in which Spark passes a DataFrame's rows to tasks."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_type

from spark_kafka_sink.common.errors import ColumnError


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark passes rows to tasks.

    Raises:
        ColumnError: Spark does not pass such columns to Python; the message contains the path.
    """
    return pa.schema(list(cast("pa.StructType", arrow_type(schema, ""))))


def arrow_type(data_type: types.DataType, path: str) -> pa.DataType:
    """Return the Arrow type in which Spark passes a column to tasks.

    Raises:
        ColumnError: Spark does not pass such columns to Python; the message contains the path.
    """
    if isinstance(data_type, types.TimestampType):
        return pa.timestamp("us", "UTC")
    if isinstance(data_type, types.UserDefinedType):  # Spark passes its values in this form.
        return arrow_type(data_type.sqlType(), path)
    if isinstance(data_type, types.CharType | types.VarcharType):  # unknown to PySpark's function
        return pa.string()
    if isinstance(data_type, types.StructType):
        return pa.struct(
            [
                pa.field(
                    field.name,
                    arrow_type(field.dataType, f"{path}.{field.name}" if path else field.name),
                    field.nullable,
                )
                for field in data_type.fields
            ]
        )
    if isinstance(data_type, types.ArrayType):
        item = arrow_type(data_type.elementType, f"{path}[]")
        # Spark declares the items of `array()` as void and not null, which PyArrow rejects.
        nullable = data_type.containsNull or pa.types.is_null(item)
        return pa.list_(pa.field("element", item, nullable))
    if isinstance(data_type, types.MapType):
        name, item = (
            arrow_type(data_type.keyType, f"{path}.key"),
            arrow_type(data_type.valueType, f"{path}.value"),
        )
        if pa.types.is_null(name):  # `map()` has no entries, and PyArrow cannot create its type.
            name = pa.string()
        key: Any = pa.field("key", name, nullable=False)
        value: Any = pa.field("value", item, data_type.valueContainsNull or pa.types.is_null(item))
        return cast("pa.DataType", pa.map_(key, value))
    try:
        return to_arrow_type(data_type)
    except PySparkException:
        raise ColumnError(
            f"column `{path}` has type {data_type.simpleString()}, which Spark does not pass to "
            "Python tasks",
            hint="Cast it, for example to STRING, or drop it.",
        ) from None
