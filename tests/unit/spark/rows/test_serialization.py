"""Keys and values that are serialized from columns."""

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from spark_kafka_sink.spark.rows import serialization
from spark_kafka_sink.spark.rows.row_checks import RowChecks
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles
from tests.support.clock import ManualClock


def test_time_excludes_the_loading_of_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    def compile_slowly(spec: EncoderSpec, type_: pa.StructType) -> object:
        clock.advance(5.0)
        return compile_encoder(spec, type_)

    monkeypatch.setattr(serialization, "compile_encoder", compile_slowly)
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t", "value.format": "json"}
    schema = StructType([StructField("n", LongType())])
    roles = ColumnRoles.of(schema, SinkConfig.parse(options))
    batch = pa.record_batch({"n": [1, 2]})
    serialized = serialization.serialize(
        batch, roles, RowChecks(2, tolerant=False), zone="UTC", clock=clock
    )
    assert serialized.value is not None
    assert serialized.value.to_pylist() == [b'{"n":1}', b'{"n":2}']
    assert serialized.seconds == 0.0


@pytest.mark.parametrize("writes_nulls", [False, True])
def test_dead_letters_have_nulls_as_other_records(writes_nulls: bool) -> None:
    ignores = "false" if writes_nulls else "true"
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t", "json.ignoreNullFields": ignores}
    schema = StructType([StructField("n", LongType()), StructField("text", StringType())])
    config = SinkConfig.parse({**options, "value.format": "json"})
    roles = ColumnRoles.of(schema, config)
    invalid = pa.array([b"\xff", b"x"]).view(pa.string())
    batch = pa.record_batch({"n": pa.array([None, None], pa.int64()), "text": invalid})
    checks = RowChecks(2, tolerant=True)
    serialized = serialization.serialize(batch, roles, checks, zone="UTC", clock=ManualClock())
    assert serialized.value is not None
    null = '"n":null,' if writes_nulls else ""
    expected = [f'{{{null}"text":"{text}"}}' for text in ("\ufffd", "x")]
    assert [(value or b"").decode() for value in serialized.value.to_pylist()] == expected
