"""The roles of columns, without the derivation from a DataFrame's schema."""

from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles


def column_roles(
    fixed_topic: str = "t", *, is_tolerant: bool = False, **indexes: int
) -> ColumnRoles:
    """Return roles with the value in column 0 and these indexes; a topic column is used."""
    return ColumnRoles(
        value=indexes.get("value", 0),
        key=indexes.get("key"),
        topic=indexes.get("topic"),
        partition=indexes.get("partition"),
        headers=indexes.get("headers"),
        timestamp=indexes.get("timestamp"),
        fixed_topic=None if "topic" in indexes else fixed_topic,
        is_tolerant=is_tolerant,
    )
