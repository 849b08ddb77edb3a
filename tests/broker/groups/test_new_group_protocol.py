"""Consumers with the new group protocol (KIP-848) fail immediately: it is not supported."""

import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.support.java import command
from tools.support.raw_client import RawClient

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        yield broker


@pytest.mark.parametrize("version", [0, 1])
def test_heartbeat_error_has_a_message(kafka: EmbeddedBroker, version: int) -> None:
    with RawClient(kafka.bootstrap_servers) as raw:
        response = raw.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, group_id="g", member_id="m")
    assert response.error_code is ErrorCode.unsupported_version
    assert "group.protocol=classic" in response.error_message


def test_librdkafka_fails_immediately(kafka: EmbeddedBroker) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"}
    consumer = Consumer(settings | {"group.protocol": "consumer"})
    consumer.subscribe(["t"])
    started = time.monotonic()
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in error.str()
    assert time.monotonic() - started < 30


def test_java_fails_immediately(kafka: EmbeddedBroker) -> None:
    arguments = ["--bootstrap-server", kafka.bootstrap_servers, "--topic", "t"]
    arguments += ["--command-property", "group.protocol=consumer", "--max-messages", "1"]
    done = subprocess.run(
        command(CONSOLE, arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Set group.protocol=classic on the consumer" in done.stdout
    assert "Processed a total of 0 messages" in done.stdout
