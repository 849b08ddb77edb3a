"""Columns that no format can encode."""

from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.encoder_spec import derive_schema


@pytest.mark.parametrize("format_", [Format.JSON, Format.AVRO, Format.PROTOBUF])
def test_too_many_levels(format_: Format) -> None:
    type_: Any = pa.struct([("v", pa.int64())])
    for _ in range(300):
        type_ = pa.struct([("a", type_)])
    with pytest.raises(ColumnError, match="column `a` has more than 100 levels"):
        derive_schema(format_, type_, "Value")
