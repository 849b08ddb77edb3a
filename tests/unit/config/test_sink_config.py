"""`SinkConfig.parse`: defaults, types and ranges of options."""

import pickle
from dataclasses import fields, replace
from typing import Any, cast

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.client_config import ClientConfig
from spark_kafka_sink.config.enums import (
    Acks,
    Codec,
    PartitionerName,
    PreflightMode,
    ProfileName,
    RecoveryStrategy,
)
from spark_kafka_sink.config.exactly_once import TRANSACTION_TIMEOUT
from spark_kafka_sink.config.option_definition import declared_options
from spark_kafka_sink.config.option_tables import ProducerOptions
from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from tests.unit.config.parsing import DEVIATIONS, MINIMAL, failure, parse

OPTION_FIELDS = declared_options(ClientConfig) | declared_options(ProducerOptions)
DEFAULT = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def test_missing_options_have_their_defaults() -> None:
    config = SinkConfig.parse(MINIMAL)
    producer = config.producer
    assert config == SinkConfig(producer=producer)
    assert {option.name: option.sink_default for option in DEVIATIONS} == {
        "batch.size": 1048576,
        "linger.ms": 50,
        "buffer.memory": 67108864,
        "send.buffer.bytes": -1,
        "receive.buffer.bytes": -1,
        TRANSACTION_TIMEOUT: 0,
    }
    for field in fields(ProducerConfig):
        option = OPTION_FIELDS.get(field.name)
        if option is not None and option.is_number and field.name != "compression_level":
            assert getattr(producer, field.name) == option.default, field.name
    assert (producer.acks, producer.enable_idempotence) == (Acks.ALL, True)
    assert (producer.compression_type, producer.compression_level) == (Codec.NONE, None)
    assert producer.metadata_recovery_strategy is RecoveryStrategy.REBOOTSTRAP
    assert producer.partitioner is PartitionerName.DEFAULT
    assert (producer.max_batched_request_size, producer.client_id) == (4194304, "")
    assert producer.allow_auto_create_topics
    assert (producer.partitioner_ignore_keys, producer.partitioner_function) == (False, None)
    assert (producer.partitioner_adaptive_partitioning_enable, producer.debug) == (True, ())
    assert not producer.enable_gapless_guarantee
    assert (producer.batch_num_messages, producer.statistics_interval_ms) == (2147483647, 0)


def test_every_option_can_be_set_in_any_case() -> None:
    config = parse(
        topic="flights",
        INCLUDEHEADERS="true",
        usetimestampcolumn="TRUE",
        reportPath="/tmp/report.json",
        kafka__acks="1",
        kafka__batch__size="1000",
        kafka__linger__ms=" 7 ",
        kafka__compression__type="zstd",
        kafka__compression__zstd__level="-5",
        kafka__max__in__flight__requests__per__connection="2",
        kafka__client__id="me",
        kafka__partitioner__class=ROUND_ROBIN,
        kafka__partitioner__ignore__keys="true",
        kafka__allow__auto__create__topics="false",
    )
    producer = config.producer
    assert config.topic == "flights"
    assert config.include_headers
    assert config.use_timestamp_column
    assert config.report_path == "/tmp/report.json"
    assert (producer.acks, producer.batch_size, producer.linger_ms) == (Acks.LEADER, 1000, 7)
    assert (producer.compression_type, producer.compression_level) == (Codec.ZSTD, -5)
    assert (producer.max_in_flight, producer.client_id) == (2, "me")
    assert producer.partitioner is PartitionerName.ROUND_ROBIN
    assert producer.partitioner_ignore_keys
    assert not producer.allow_auto_create_topics


def test_dry_run_disables_changes_of_the_cluster() -> None:
    options = {
        "topic": "t",
        "deliveryGuarantee": "exactly-once",
        "transactionalIdPrefix": "p",
        "batchId": "1",
        "topic__create": "true",
        "topic__partitions": "3",
        "kafka__compression__type": "zstd",
    }
    plain, dry = parse(**options), parse(**options, dryRun="true")
    assert plain.producer.enable_idempotence
    assert dry.dry_run
    assert not plain.dry_run
    assert not dry.producer.enable_idempotence
    assert not dry.producer.allow_auto_create_topics
    assert not dry.exactly_once.is_enabled
    assert dry.assumed_topics == (("t", 3),)
    assert plain.assumed_topics == ()
    assert (plain.preflight, dry.preflight) == (PreflightMode.AUTO, PreflightMode.FAIL)
    assert parse(topic="t", dryRun="true", preflight="off").preflight is PreflightMode.OFF
    assert dry.producer.compression_type is Codec.ZSTD
    assert dry.producer.pipeline() == plain.producer.pipeline()


@pytest.mark.parametrize(
    ("codec", "expected", "level"),
    [
        ("none", Codec.NONE, None),
        ("gzip", Codec.GZIP, -1),
        ("snappy", Codec.SNAPPY, None),
        ("lz4", Codec.LZ4, 9),
        ("zstd", Codec.ZSTD, 3),
    ],
)
def test_codecs_have_javas_default_level(codec: str, expected: Codec, level: int | None) -> None:
    producer = parse(kafka__compression__type=codec, profile="java").producer
    assert (producer.compression_type, producer.compression_level) == (expected, level)


@pytest.mark.parametrize("text", ["true", "TRUE", "True", " true ", "true\t"])
def test_booleans_in_any_case_and_with_spaces(text: str) -> None:
    assert parse(useTimestampColumn=text).use_timestamp_column
    assert parse(kafka__partitioner__ignore__keys=text).producer.partitioner_ignore_keys


@pytest.mark.parametrize("text", ["5", " 5 ", "+5", "05", "5\n"])
def test_numbers_as_java_reads_them(text: str) -> None:
    assert parse(kafka__linger__ms=text).producer.linger_ms == 5


@pytest.mark.parametrize("text", ["0.5", ".5", "+0.50", " 0.5 "])
@pytest.mark.parametrize("name", ["kafka.linger.ms", "kafka.queue.buffering.max.ms"])
def test_linger_accepts_decimals_as_in_librdkafka(name: str, text: str) -> None:
    producer = parse(**{name.replace(".", "__"): text}).producer
    assert producer.linger_ms == 0.5
    assert dict(producer.pipeline())["linger.ms"] == "0.5"


@pytest.mark.parametrize("text", ["yes", "on", "1", "t", "", "truee", "0"])
@pytest.mark.parametrize("name", ["useTimestampColumn", "kafka.enable.idempotence"])
def test_other_booleans_are_rejected(name: str, text: str) -> None:
    assert f"option {name} is {text!r}; allowed: true or false" in failure({name: text})


def test_every_option_has_a_field() -> None:
    derived = {"max_batched_request_size", "partitioner_function", "security"}
    merged = {"partitioner_class", "transaction_timeout_ms"}
    merged |= {f"compression_{codec}_level" for codec in ("gzip", "lz4", "zstd")}
    assert (
        OPTION_FIELDS.keys() - merged == {field.name for field in fields(ProducerConfig)} - derived
    )


def test_profile_java_restores_every_deviation() -> None:
    producer = parse(profile="java").producer
    assert DEVIATIONS
    for name, option in OPTION_FIELDS.items():
        # The exactly-once options contain transaction.timeout.ms.
        if option in DEVIATIONS and option.name != TRANSACTION_TIMEOUT:
            assert getattr(producer, name) == option.java_default


def test_config_survives_pickling() -> None:
    config = parse(topic="t", profile="safe")
    assert pickle.loads(pickle.dumps(config)) == config


def test_equality_includes_every_field() -> None:
    producer = SinkConfig.parse(MINIMAL).producer
    changed = {
        replace(producer, **cast("dict[str, Any]", {field.name: "other"}))
        for field in fields(producer)
    }
    assert len(changed | {producer}) == len(fields(producer)) + 1
    assert {SinkConfig.parse(MINIMAL).producer} == {producer}


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers"):
        SinkConfig.parse({"topic": "t"})


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "tö", "x" * 250, "a/b"])
def test_invalid_topic_name_is_rejected(topic: str) -> None:
    assert "not a valid topic name" in failure({"topic": topic})


def test_topic_is_trimmed_as_in_sparks_own_sink() -> None:
    assert parse(topic=" flights ").topic == "flights"


def test_profile_is_kept_in_the_config() -> None:
    assert parse(profile="latency").profile is ProfileName.LATENCY
    assert SinkConfig.parse(MINIMAL).profile is ProfileName.NONE


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("kafka.acks", "2", "all, -1, 0, 1"),
        ("kafka.acks", "ALL", "all, -1, 0, 1. Did you mean all?"),
        ("kafka.compression.type", "lz5", "none, gzip, snappy, lz4, zstd. Did you mean lz4?"),
        ("kafka.compression.gzip.level", "0", "-1 or 1 to 9"),
        ("kafka.compression.gzip.level", "10", "-1 or 1 to 9"),
        ("kafka.compression.lz4.level", "18", "1 to 17"),
        ("kafka.compression.zstd.level", "23", "-131072 to 22"),
        *(
            ("kafka.buffer.memory", text, "0 to 9223372036854775807")
            for text in (
                "1e6",
                "64m",
                "64MB",
                "0x10",
                "1_000",
                "1 000",
                "nan",
                "true",
                "-5",
                "9" * 20,
            )
        ),
        *(("kafka.batch.size", text, "0 to 2147483647") for text in ("2147483648", "1.0", "16k")),
        ("kafka.linger.ms", "7.5.1", "0 to 9223372036854775807"),
        ("kafka.linger.ms", "-0.5", "0 to 9223372036854775807"),
        ("kafka.max.block.ms", "7.5", "0 to 9223372036854775807"),
        ("kafka.linger.ms", "", "0 to 9223372036854775807"),
        ("kafka.linger.ms", "٣", "0 to 9223372036854775807"),
        ("kafka.max.in.flight.requests.per.connection", "0", "1 to 2147483647"),
        ("kafka.partitioner.class", "com.example.Mine", f'"", {DEFAULT}, {ROUND_ROBIN}'),
        ("profile", "saef", "none, throughput, latency, safe, java. Did you mean safe?"),
    ],
)
def test_invalid_value_error_names_option_value_and_allowed_values(
    name: str, value: str, allowed: str
) -> None:
    text = failure({name: value})
    assert text.startswith(f"option {name} is {value!r}; allowed: {allowed}")


@pytest.mark.parametrize(
    ("name", "value", "ends"),
    [
        ("kafka.linger.ms", "5s", ", in milliseconds. Write 5000 for 5s."),
        ("kafka.linger.ms", "soon", ", in milliseconds"),
        ("kafka.linger.ms", "-1", ", in milliseconds"),
        ("kafka.request.timeout.ms", "100 days", ", in milliseconds"),
        ("kafka.buffer.memory", "64MB", "Write 67108864 for 64MB: sizes are powers of 1,024"),
        ("kafka.queue.buffering.max.kbytes", "64MB", "in units of 1,024 bytes. Write 65536"),
        ("rateLimit.bytesPerSecond", "1g", "in bytes a second. Write 1073741824 for 1g"),
        ("errors.breaker.windowMs", "30s", "in milliseconds. Write 30000 for 30s."),
        ("kafka.retries", "5s", "allowed: 0 to 2147483647"),
    ],
)
def test_number_with_a_unit_is_converted_in_the_hint(name: str, value: str, ends: str) -> None:
    text = failure({name: value})
    assert ends in text
    assert text.endswith(ends) or "Write" in ends


def test_kafkas_class_of_the_default_partitioner_is_the_default() -> None:
    parsed = SinkConfig.parse(MINIMAL | {"kafka.partitioner.class": DEFAULT})
    assert parsed == SinkConfig.parse(MINIMAL)


@pytest.mark.parametrize(
    ("java_class", "hint"),
    [
        ("org.apache.kafka.clients.producer.UniformStickyPartitioner", "ignore.keys=true"),
        ("com.example.Mine", "module:function"),
        (f"{ROUND_ROBIN}s", f"Did you mean {ROUND_ROBIN}?"),
    ],
)
def test_unsupported_partitioner_has_an_alternative(java_class: str, hint: str) -> None:
    assert hint in failure({"kafka.partitioner.class": java_class})


def test_long_value_is_truncated_in_the_message() -> None:
    assert len(failure({"kafka.acks": "x" * 10_000})) < 300
