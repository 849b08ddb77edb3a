"""Addresses without a Kafka broker: the error lists each with its reason within max.block.ms."""

import time

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError
from tests.support import servers
from tests.support.producer_writes import produce, rows, session
from tools.support.kafka_cluster import KafkaCluster

BLOCK_MS = 1500
listening = servers.listening
SLACK_S = 20


def write_error(bootstrap_servers: str, block_ms: int = BLOCK_MS) -> str:
    """Return the error of a write to these servers; check the time."""
    started = time.monotonic()
    with session(bootstrap_servers, max_block_ms=block_ms) as producer:
        producer.append(rows("topic", [b"a"]))
        with pytest.raises(BrokerUnavailableError) as caught:
            producer.flush()
    took = time.monotonic() - started
    assert block_ms / 1000 <= took < block_ms / 1000 + SLACK_S
    return str(caught.value)


def test_error_lists_every_address_with_its_reason() -> None:
    closed = [servers.closed_port() for _ in range(3)]
    with (
        listening(servers.respond_with_http) as web,
        listening(servers.never_respond) as unresponsive,
    ):
        text = write_error(
            ",".join([*closed, web, unresponsive, "no-such-host.invalid:9092"]), 5000
        )
    assert "max.block.ms = 5000" in text
    for address in closed:
        assert f"{address}: Connection refused" in text
    assert f"{web}: " in text
    assert "HTTP" in text
    assert f"{unresponsive}: no response" in text
    assert "no-such-host.invalid:9092: " in text


def test_one_valid_address_is_enough(real_kafka: KafkaCluster, unique_topic: str) -> None:
    wrong = [servers.closed_port() for _ in range(3)]
    with (
        listening(servers.respond_with_http) as web,
        listening(servers.never_respond) as unresponsive,
    ):
        addresses = ",".join([*wrong, web, unresponsive, real_kafka.bootstrap_servers])
        report = produce(addresses, rows(unique_topic, [b"a"]), max_block_ms=20_000)
    assert report.persisted == 1


def test_controller_listener_is_named(real_kafka: KafkaCluster, unique_topic: str) -> None:
    controller = f"127.0.0.1:{real_kafka.node(1).controller_port}"
    text = write_error(controller)
    assert f"{controller}: " in text
    assert "METADATA" in text
    addresses = f"{controller},{real_kafka.bootstrap_servers}"
    for _ in range(3):  # regardless of the address that is tried first
        assert produce(addresses, rows(unique_topic, [b"a"])).persisted == 1
