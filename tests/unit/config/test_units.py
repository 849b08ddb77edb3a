"""Durations and sizes with a unit for options that take plain numbers."""

import pytest

from spark_kafka_sink.config.option_tables import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.topic_creation import TOPIC_SETTINGS
from spark_kafka_sink.config.units import Unit, unit_of


@pytest.mark.parametrize(
    ("unit", "text", "number"),
    [
        (Unit.MILLISECONDS, "1h", 3_600_000),
        (Unit.MILLISECONDS, "1.5 s", 1_500),
        (Unit.MILLISECONDS, "7 Days", 604_800_000),
        (Unit.MILLISECONDS, "5m", 300_000),
        (Unit.SECONDS, "5m", 300),
        (Unit.SECONDS, "500ms", None),
        (Unit.BYTES, "64MB", 67_108_864),
        (Unit.BYTES, "64m", 67_108_864),
        (Unit.BYTES, "1 GiB", 1_073_741_824),
        (Unit.BYTES, "1h", None),
        (Unit.KIBIBYTES, "64MB", 65_536),
        (Unit.BYTES_PER_SECOND, "1k", 1_024),
        (Unit.MILLISECONDS, "64MB", None),
        (Unit.MILLISECONDS, "0.0001s", None),
        (Unit.MILLISECONDS, "-1s", None),
        (Unit.MILLISECONDS, "1000", None),
        (Unit.MILLISECONDS, "soon", None),
        (Unit.MILLISECONDS, "", None),
    ],
)
def test_text_with_a_unit_is_converted(unit: Unit, text: str, number: int | None) -> None:
    assert unit.number(text) == number


def test_options_have_the_units_of_their_documentation() -> None:
    options = [option for option in (*PRODUCER_OPTIONS, *SINK_OPTIONS) if option.is_number]
    without = {option.name for option in options if unit_of(option.name) is None}
    assert without == {
        "retries",
        "max.in.flight.requests.per.connection",
        "batch.num.messages",
        "max.retries",
        "use.schema.id",
        "compression.level",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "topic.partitions",
        "topic.replication.factor",
        "decisionLogReplicationFactor",
        "bufferShare",
        "rateLimit.recordsPerSecond",
        "rateLimit.job.recordsPerSecond",
        "rateLimit.job.tasks",
        "errors.breaker.retryPercent",
        "errors.breaker.failures",
        "errors.breaker.job.retryPercent",
        "errors.breaker.job.failures",
        "errors.breaker.minBatches",
    }


def test_other_topic_configs_have_no_unit() -> None:
    with_unit = {name for name in TOPIC_SETTINGS if unit_of(name) is not None}
    assert {name.rpartition(".")[2] for name in with_unit} == {"ms", "bytes"}
    assert unit_of("cleanup.policy") is None
