"""Options that contradict each other."""

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.kafka.records.record_encoder import encode_records, slice_records
from tests.unit.config.parsing import config_error

IN_FLIGHT = "max.in.flight.requests.per.connection"


def parse(options: dict[str, str]) -> ProducerConfig:
    kafka_options = {f"kafka.{name}": value for name, value in options.items()}
    return ProducerConfig.parse({"kafka.bootstrap.servers": "b:1"} | kafka_options)


def failure(options: dict[str, str]) -> str:
    return config_error(parse, options)


@pytest.mark.parametrize("options", [{"acks": "1"}, {"acks": "0"}, {"retries": "0"}])
def test_implicit_idempotence_is_disabled(options: dict[str, str]) -> None:
    assert not parse(options).enable_idempotence


@pytest.mark.parametrize(
    "options",
    [{"acks": "1"}, {"acks": "0"}, {"retries": "0"}, {"acks": "1", "retries": "0"}],
)
def test_explicit_idempotence_conflicts(options: dict[str, str]) -> None:
    text = failure(options | {"enable.idempotence": "true"})
    named = " and ".join(f"kafka.{name}={value}" for name, value in options.items())
    assert f"conflicts with {named}." in text
    assert "kafka.enable.idempotence is true" in text


@pytest.mark.parametrize("more", [{}, {"acks": "1"}, {"enable.idempotence": "true"}])
def test_more_than_five_in_flight_requires_disabled_idempotence(more: dict[str, str]) -> None:
    text = failure({IN_FLIGHT: "6"} | more)
    assert f"kafka.{IN_FLIGHT} is 6, above 5" in text


def test_more_than_five_in_flight_without_idempotence() -> None:
    assert parse({IN_FLIGHT: "6", "enable.idempotence": "false"}).max_in_flight == 6


def test_explicit_delivery_timeout_too_short_is_an_error() -> None:
    text = failure({"delivery.timeout.ms": "30049"})
    assert "is 30049, less than kafka.linger.ms + kafka.request.timeout.ms (50 + 30000)" in text
    assert "Set it to 30050 or more" in text
    assert parse({"delivery.timeout.ms": "30050"}).delivery_timeout_ms == 30050


def test_default_delivery_timeout_is_raised() -> None:
    producer = parse({"request.timeout.ms": "200000", "linger.ms": "7"})
    assert producer.delivery_timeout_ms == 200007


def test_delivery_timeout_does_not_overflow() -> None:
    producer = parse({"request.timeout.ms": "2147483647", "linger.ms": str(2**63 - 1)})
    assert producer.delivery_timeout_ms == 2**31 - 1


def test_single_reconnect_backoff_is_constant() -> None:
    producer = parse({"reconnect.backoff.ms": "70"})
    assert (producer.reconnect_backoff_ms, producer.reconnect_backoff_max_ms) == (70, 70)


def test_maximum_backoff_overrides_the_initial_one() -> None:
    producer = parse(
        {
            "reconnect.backoff.ms": "900",
            "reconnect.backoff.max.ms": "500",
            "retry.backoff.ms": "5000",
        }
    )
    assert (producer.reconnect_backoff_ms, producer.reconnect_backoff_max_ms) == (500, 500)
    assert producer.retry_backoff_ms == producer.retry_backoff_max_ms == 1000


def test_batch_must_fit_into_the_buffer() -> None:
    text = failure({"batch.size": "2000", "buffer.memory": "1000"})
    assert "kafka.batch.size is 2000, more than kafka.buffer.memory, 1000" in text
    assert parse({"buffer.memory": "1000"}).batch_size == 1000


def test_buffer_must_hold_one_record() -> None:
    columns = Columns(value=pa.array([None], pa.binary()))
    record = encode_records(columns, np.zeros(1, np.int32), None)
    least = HEADER_SIZE + len(slice_records(record, 0, 1))
    text = failure({"buffer.memory": str(least - 1)})
    assert f"kafka.buffer.memory is {least - 1}, but the smallest" in text
    assert parse({"buffer.memory": str(least)}).batch_size == least


@pytest.mark.parametrize("value", [str(2**63 - 1), "-1"])
def test_infinite_time_is_limited_to_timer_range(value: str) -> None:
    assert parse({"connections.max.idle.ms": value}).connections_max_idle_ms == 2**31 - 1


@pytest.mark.parametrize(
    ("options", "linger"),
    [
        ({}, 1000),
        ({"linger.ms": "20"}, 20),
        ({"linger.ms": "0.5"}, 0.5),
        ({"queue.buffering.max.ms": "30"}, 30),
        ({"delivery.timeout.ms": "30300"}, 300),
        ({"delivery.timeout.ms": "30050"}, 50),
        ({"request.timeout.ms": "2147483647"}, 50),
        ({"profile": "latency"}, 0),
    ],
)
def test_batch_writes_have_a_longer_linger_by_default(
    options: dict[str, str], linger: float
) -> None:
    named = {
        name if name == "profile" else f"kafka.{name}": value for name, value in options.items()
    }
    sink = SinkConfig.parse({"kafka.bootstrap.servers": "b:1"} | named, batch_write=True)
    assert sink.producer.linger_ms == linger


def test_profile_throughput_keeps_the_default_linger_of_batch_writes() -> None:
    options = {"kafka.bootstrap.servers": "b:1"}
    with_profile = SinkConfig.parse(options | {"profile": "throughput"}, batch_write=True)
    without = SinkConfig.parse(options, batch_write=True)
    assert with_profile.producer.linger_ms >= without.producer.linger_ms
