"""Log messages of the broker: repeated errors are logged at intervals, with the reason."""

import logging
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.net.error_log import REPEAT_INTERVAL_S, RateLimitedLog
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.support.inspection import next_line
from tools.support.raw_client import (
    TIMEOUT,
    RawClient,
    batch,
    old_messages,
    produce,
    produce_values,
)

LOGGER = "spark_kafka_sink.broker"


@pytest.fixture
def kafka(caplog: pytest.LogCaptureFixture) -> Iterator[EmbeddedBroker]:
    caplog.set_level(logging.INFO, LOGGER)
    configs = {"c": {"cleanup.policy": "compact"}, "small": {"max.message.bytes": "100"}}
    with EmbeddedBroker(topics={"t": 1, "c": 1, "small": 1}, topic_configs=configs) as broker:
        yield broker


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_rejected_batch_is_logged_once(
    kafka: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(kafka.bootstrap_servers) as client:
        for _ in range(50):
            produce(client, "c", batch(2, key=None))
        produce(client, "small", batch(2, value=bytes(200)))
        produce(client, "t", batch(2))
    messages = warnings(caplog)
    assert len(messages) == 2, messages
    assert "PRODUCE request for c-0 from /127.0.0.1 failed: INVALID_RECORD" in messages[0]
    assert (
        "PRODUCE request for small-0 from /127.0.0.1 failed: MESSAGE_TOO_LARGE: The batch"
        in messages[1]
    )


def test_topic_ids_are_logged_as_names(
    kafka: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    values = produce_values("small", batch(2, value=bytes(200)))
    with RawClient(kafka.bootstrap_servers) as client:
        metadata = client.call(ApiKey.METADATA, 12, topics=[{"name": "small"}])
        del values["topic_data"][0]["name"]
        values["topic_data"][0]["topic_id"] = metadata.topics[0].topic_id
        client.call(ApiKey.PRODUCE, 13, **values)
    [message] = warnings(caplog)
    assert "PRODUCE request for small-0 from" in message


@pytest.mark.parametrize(
    ("topic", "api", "values", "part"),
    [
        (None, ApiKey.INIT_PRODUCER_ID, {"transactional_id": None}, ""),
        ("t", ApiKey.DELETE_TOPICS, {"topic_names": ["t"], "timeout": TIMEOUT}, " for t"),
    ],
)
def test_denied_request_is_logged_with_the_reason(
    kafka: EmbeddedBroker,
    caplog: pytest.LogCaptureFixture,
    topic: str | None,
    api: ApiKey,
    values: dict[str, object],
    part: str,
) -> None:
    kafka.deny("ANONYMOUS", topic=topic)
    with RawClient(kafka.bootstrap_servers) as client:
        client.call(api, 1, **values)
    (message,) = warnings(caplog)
    assert f"{api.name} request{part} from" in message
    assert "_AUTHORIZATION_FAILED: User:ANONYMOUS is denied " in message


def test_rejected_admin_request_is_logged(
    kafka: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("no/name", 1)])["no/name"].result(60)
    assert any("no/name" in message and "INVALID_TOPIC" in message for message in warnings(caplog))


def test_unsupported_api_is_logged(kafka: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    host, port = kafka.bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 20) as client:
        client.sendall(b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\x01\xff\xff")
        assert client.recv(1) == b""
    assert any("API 32767 is not supported" in message for message in warnings(caplog))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_format_is_logged_once(
    kafka: EmbeddedBroker, caplog: pytest.LogCaptureFixture, magic: int
) -> None:
    """With a response, and without one, which closes the connection."""
    for acks in (-1, 0, 1):
        with RawClient(kafka.bootstrap_servers) as client:
            client.send(ApiKey.PRODUCE, 7, **produce_values("t", old_messages(magic), acks))
            if acks == 0:
                assert client.closed()
            else:
                client.receive(ApiKey.PRODUCE, 7)
    logged = [message for message in warnings(caplog) if f"Message format {magic}" in message]
    assert len(logged) == 1
    assert "older than Kafka 0.11" in logged[0]


@pytest.mark.parametrize("version", [0, 2])
def test_outdated_client_is_logged(
    kafka: EmbeddedBroker, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    for _ in range(3):
        with RawClient(kafka.bootstrap_servers) as client:
            header = struct.pack(">hhih", ApiKey.PRODUCE, version, 1, -1)
            client.socket.sendall(struct.pack(">i", len(header)) + header)
            assert client.closed()
    logged = [message for message in warnings(caplog) if f"PRODUCE version {version}" in message]
    assert len(logged) == 1
    assert "only 3-13: the client is too old for Kafka 4" in logged[0]


def test_valid_requests_log_nothing(
    kafka: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(100):
        producer.produce("t", str(number))
    assert producer.flush(60) == 0
    assert warnings(caplog) == []


def test_repeated_warnings_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = RateLimitedLog(logging.getLogger("repeat"), lambda: now[0])
    for number in range(4):
        log.log(logging.WARNING, "a", "a %d", number)
        log.log(logging.WARNING, "b", "b %d", number)
    now[0] = REPEAT_INTERVAL_S
    log.log(logging.WARNING, "a", "a %d", 9)
    assert [r.getMessage() for r in caplog.records] == ["a 0", "b 0", "a 9 (repeated 3 times)"]


@pytest.mark.parametrize(("level", "is_logged"), [("warning", True), ("error", False)])
def test_log_level_option(level: str, is_logged: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_kafka_sink", "broker", "--port", "0"]
    command += ["--topic", "c", "--topic-config", "c:cleanup.policy=compact", "--log-level", level]
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            producer = Producer({"bootstrap.servers": next_line(process).split()[-1]})
            producer.produce("c", b"no key")
            producer.flush(60)
        finally:
            process.kill()
    assert ("INVALID_RECORD" in log.read_text()) is is_logged
