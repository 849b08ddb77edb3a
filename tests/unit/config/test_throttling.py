"""Options of partitioners, rate limits, shares and breakers."""

import pytest

from spark_kafka_sink.config.enums import LIBRDKAFKA_PARTITIONERS, PartitionerName
from spark_kafka_sink.config.option_tables import SINK_OPTIONS
from spark_kafka_sink.config.throttling import (
    THROTTLING_OPTIONS,
    BreakerConfig,
    RateLimits,
    Thresholds,
    ThrottlingConfig,
)
from tests.unit.config.parsing import config_error, parse


def failure(**options: object) -> str:
    return config_error(parse, **options)


def test_nothing_is_limited_by_default() -> None:
    assert parse().throttling == ThrottlingConfig(
        buffer_share=50, rates=RateLimits(0.0, 0.0), breaker=BreakerConfig()
    )
    assert not parse().throttling.breaker.target.is_enabled
    assert not parse().throttling.breaker.job.is_enabled


def test_table_defaults_match_the_class() -> None:
    values = {option.name: option.default for option in THROTTLING_OPTIONS}
    assert ThrottlingConfig.from_options(values) == ThrottlingConfig()
    assert set(THROTTLING_OPTIONS) <= set(SINK_OPTIONS)


def test_rates_in_any_case_apply_to_a_task() -> None:
    rates = parse(rateLimit__recordsPerSecond=500, RATELIMIT__BYTESPERSECOND=7).throttling.rates
    assert rates == RateLimits(500.0, 7.0)


def test_job_rate_is_divided_by_its_tasks() -> None:
    options = {"rateLimit__job__recordsPerSecond": 1_000, "rateLimit__job__tasks": 8}
    assert parse(**options).throttling.rates == RateLimits(125.0, 0.0)


def test_lower_of_two_rates_applies() -> None:
    options = {"rateLimit__job__bytesPerSecond": 1_000, "rateLimit__job__tasks": 10}
    assert parse(**options, rateLimit__bytesPerSecond=60).throttling.rates.bytes_per_second == 60.0
    assert (
        parse(**options, rateLimit__bytesPerSecond=600).throttling.rates.bytes_per_second == 100.0
    )


@pytest.mark.parametrize("name", ["recordsPerSecond", "bytesPerSecond"])
def test_job_rate_requires_the_number_of_tasks(name: str) -> None:
    text = failure(**{f"rateLimit__job__{name}": 9})
    assert f"rateLimit.job.{name} requires rateLimit.job.tasks" in text


def test_breaker_options_are_parsed() -> None:
    breaker = parse(
        errors__breaker__retryPercent=40,
        errors__breaker__failures=3,
        errors__breaker__job__retryPercent=60,
        errors__breaker__job__failures=9,
        errors__breaker__minBatches=5,
        errors__breaker__windowMs=2_500,
        errors__breaker__openMs=1_500,
    ).throttling.breaker
    assert breaker == BreakerConfig(
        target=Thresholds(40, 3),
        job=Thresholds(60, 9),
        min_batches=5,
        window_ms=2_500,
        open_ms=1_500,
    )
    assert Thresholds(1, 0).is_enabled
    assert Thresholds(0, 1).is_enabled


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bufferShare", 0),
        ("bufferShare", 101),
        ("rateLimit__recordsPerSecond", -1),
        ("errors__breaker__retryPercent", 101),
        ("errors__breaker__windowMs", 999),
    ],
)
def test_values_out_of_range(name: str, value: int) -> None:
    assert "allowed:" in failure(**{name: value})


@pytest.mark.parametrize("kind", LIBRDKAFKA_PARTITIONERS)
def test_partitioners_have_the_names_of_librdkafka(kind: PartitionerName) -> None:
    producer = parse(kafka__partitioner=kind.value).producer
    assert (producer.partitioner, producer.partitioner_function) == (kind, None)


@pytest.mark.parametrize("name", ["mine:spread", "my.own_1.module:Class.method"])
def test_other_partitioner_names_are_functions(name: str) -> None:
    producer = parse(kafka__partitioner=name).producer
    assert (producer.partitioner, producer.partitioner_function) == (PartitionerName.FUNCTION, name)


@pytest.mark.parametrize("name", ["consistant", "a:b:c", "module:", ":f", "a..b:f", "a b:c"])
def test_invalid_partitioner_is_rejected(name: str) -> None:
    text = failure(kafka__partitioner=name)
    assert "murmur2_random" in text
    assert "module:function" in text
    assert ("Did you mean consistent?" in text) == (name == "consistant")


def test_only_one_partitioner() -> None:
    java = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    text = failure(kafka__partitioner="fnv1a", kafka__partitioner__class=java)
    assert "partitioner and kafka.partitioner.class are both set" in text


def test_gapless_requires_idempotence() -> None:
    assert parse(kafka__enable__gapless__guarantee="true").producer.enable_gapless_guarantee
    text = failure(kafka__enable__gapless__guarantee="true", kafka__acks="1")
    assert "enable.gapless.guarantee requires idempotence" in text
