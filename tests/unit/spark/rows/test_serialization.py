"""Keys and values that are serialized from columns."""

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from spark_kafka_sink.spark.rows import serialization
from spark_kafka_sink.spark.rows.row_checks import RowChecks
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles
from spark_kafka_sink.spark.schema.spec_completion import with_schemas
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


@pytest.mark.parametrize(
    ("zone", "time"), [("Europe/Berlin", "01:00:00.000+01:00"), ("Unknown/Zone", "00:00:00.000Z")]
)
def test_dead_letter_with_a_timestamp_if_the_host_does_not_know_the_zone(
    zone: str, time: str
) -> None:
    """Avro does not need the zone; only its dead letters, which are JSON, use it."""
    avro = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "text", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t", "value.format": "avro"}
    config = SinkConfig.parse({**options, "value.schema": json.dumps(avro)})
    schema = StructType([StructField("text", StringType()), StructField("at", TimestampType())])
    batch = pa.record_batch({"text": [None], "at": pa.array([0], pa.timestamp("us", "UTC"))})
    assert config.formats is not None
    roles = with_schemas(ColumnRoles.of(schema, config), schema, config, config.formats, None)
    checks = RowChecks(1, tolerant=True)
    serialized = serialization.serialize(batch, roles, checks, zone=zone, clock=ManualClock())
    assert serialized.value is not None
    assert serialized.value.to_pylist() == [f'{{"at":"1970-01-01T{time}"}}'.encode()]
