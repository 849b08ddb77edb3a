"""Avro schemas derived from columns."""

import json

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.encoder_spec import derive_schema


def test_derived_names_follow_the_path() -> None:
    point = pa.struct([pa.field("x", pa.decimal128(9, 2), nullable=False)])
    type_ = pa.struct([("points", pa.list_(pa.field("element", point, nullable=False)))])
    schema = json.loads(derive_schema(Format.AVRO, type_, "Order", "shop").text)
    items = schema["fields"][0]["type"][1]["items"]
    assert (items["namespace"], items["name"]) == ("shop.Order", "points")
    fixed = items["fields"][0]["type"]
    assert (fixed["namespace"], fixed["name"], fixed["size"]) == ("shop.Order.points.x", "fixed", 4)
    assert schema["fields"][0]["default"] is None


def test_derived_record_has_no_primitive_name() -> None:
    type_ = pa.struct([("string", pa.struct([("int", pa.struct([("a", pa.int32())]))]))])
    with pytest.raises(ConfigError, match="a string is a primitive type"):
        derive_schema(Format.AVRO, type_, "string")
    assert derive_schema(Format.AVRO, type_, "string", "n").name == "n.string"


@pytest.mark.parametrize("name", ["1st", "with space", "é", ""])
def test_columns_with_invalid_avro_names_are_rejected(name: str) -> None:
    type_ = pa.struct([("s", pa.struct([(name, pa.int32())]))])
    with pytest.raises(ColumnError, match="Avro does not allow"):
        derive_schema(Format.AVRO, type_, "Order")
