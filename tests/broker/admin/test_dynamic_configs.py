"""Configs of brokers, groups and loggers that change while the broker runs."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.waiting import wait_until_equal
from tools.support.raw_client import RawClient, batch, create, produce

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE = 0, 1
NO_ERROR = ErrorCode.none


def alter(raw: RawClient, kind: int, name: str, *changes: tuple[int, str, str | None]) -> ErrorCode:
    configs = [{"name": n, "config_operation": o, "value": v} for o, n, v in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    response = raw.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    result: ErrorCode = response.responses[0].error_code
    return result


def values(raw: RawClient, kind: int, name: str, *names: str) -> dict[str, tuple[str | None, int]]:
    resource = {
        "resource_type": kind,
        "resource_name": name,
        "configuration_keys": list(names) or None,
    }
    described = raw.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results[0]
    assert described.error_code is NO_ERROR, described.error_message
    return {config.name: (config.value, config.config_source) for config in described.configs}


@pytest.fixture(params=["", "1"])
def broker(request: pytest.FixtureRequest, any_raw: RawClient) -> Iterator[str]:
    """Yield a broker name for config changes and reset the configs afterwards."""
    yield request.param
    alter(any_raw, BROKER, request.param, (DELETE, "message.max.bytes", None))
    wait_until_equal(
        lambda: values(any_raw, BROKER, "1", "message.max.bytes")["message.max.bytes"][1], 5
    )


def test_broker_limit_applies_immediately(any_raw: RawClient, topic: str, broker: str) -> None:
    """The limit applies to topics without their own setting."""
    create(any_raw, f"{topic}-own", max_message_bytes="900000")
    big = batch(1, value=bytes(5_000))
    assert produce(any_raw, topic, big).error_code is NO_ERROR
    assert alter(any_raw, BROKER, broker, (SET, "message.max.bytes", "1000")) is NO_ERROR
    source = 2 if broker else 3
    wait_until_equal(lambda: values(any_raw, TOPIC, topic)["max.message.bytes"], ("1000", source))
    wait_until_equal(lambda: produce(any_raw, topic, big).error_code, ErrorCode.message_too_large)
    assert produce(any_raw, f"{topic}-own", big).error_code is NO_ERROR
    assert values(any_raw, TOPIC, f"{topic}-own")["max.message.bytes"] == ("900000", 1)
    assert alter(any_raw, BROKER, broker, (DELETE, "message.max.bytes", None)) is NO_ERROR
    wait_until_equal(lambda: produce(any_raw, topic, big).error_code, NO_ERROR)


def test_unknown_broker_config(any_raw: RawClient, broker: str) -> None:
    """Brokers accept any config name and hide its value."""
    assert alter(any_raw, BROKER, broker, (SET, "my.plugin", "secret")) is NO_ERROR
    wait_until_equal(lambda: values(any_raw, BROKER, broker, "my.plugin").keys(), {"my.plugin"})
    assert values(any_raw, BROKER, broker, "my.plugin")["my.plugin"][0] is None
    assert alter(any_raw, BROKER, broker, (DELETE, "my.plugin", None)) is NO_ERROR
    wait_until_equal(lambda: values(any_raw, BROKER, broker, "my.plugin"), {})


def test_shorter_retention_applies_immediately() -> None:
    broker = EmbeddedBroker(topics={"t": 1}, retention_check_ms=20)
    with broker as kafka, RawClient(kafka.bootstrap_servers) as raw:
        for _ in range(3):
            produce(raw, "t", batch(2, timestamp=int(time.time() * 1000) - 60_000))
        assert len(kafka.batches("t", 0)) == 3
        assert alter(raw, BROKER, "", (SET, "log.retention.ms", "30000")) is NO_ERROR
        wait_until_equal(lambda: kafka.batches("t", 0), [])


def test_configs_persist_across_restart(tmp_path: Path) -> None:
    broker = EmbeddedBroker(topics={"t": 1}, data_dir=str(tmp_path))
    with broker as kafka, RawClient(kafka.bootstrap_servers) as raw:
        alter(raw, BROKER, "", (SET, "log.flush.interval.messages", "5"))
        alter(raw, GROUP, "g", (SET, "share.auto.offset.reset", "earliest"))
        alter(raw, GROUP, "h", (SET, "share.auto.offset.reset", "earliest"))
        alter(raw, GROUP, "h", (DELETE, "share.auto.offset.reset", None))
    with EmbeddedBroker(data_dir=str(tmp_path)) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        assert values(raw, TOPIC, "t")["flush.messages"] == ("5", 3)
        assert values(raw, GROUP, "g")["share.auto.offset.reset"] == ("earliest", 8)
        assert values(raw, GROUP, "h")["share.auto.offset.reset"] == ("latest", 5)


def test_config_of_a_single_node_does_not_affect_topics() -> None:
    """Replicas share one log here, so only configs of all nodes apply."""
    name = "log.flush.interval.messages"
    broker = EmbeddedBroker(nodes=2, topics={"t": 1})
    with broker as kafka, RawClient(kafka.bootstrap_servers) as raw:
        assert alter(raw, BROKER, "1", (SET, name, "5")) is NO_ERROR
        assert alter(raw, BROKER, "2", (SET, name, "5")) is ErrorCode.invalid_request
        assert values(raw, BROKER, "1", name)[name] == ("5", 2)
        assert values(raw, TOPIC, "t")["flush.messages"][1] == 5
        assert alter(raw, BROKER, "", (SET, name, "7")) is NO_ERROR
        assert values(raw, BROKER, "1", name)[name] == ("5", 2)
        assert values(raw, TOPIC, "t")["flush.messages"] == ("7", 3)


class TestLoggers:
    NAME = "spark_kafka_sink.broker.net.event_loop"

    @pytest.fixture
    def raw(self) -> Iterator[RawClient]:
        with EmbeddedBroker() as kafka, RawClient(kafka.bootstrap_servers) as client:
            yield client
        logging.getLogger(self.NAME).setLevel(logging.NOTSET)

    @pytest.mark.parametrize(
        ("level", "number"),
        [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10)],
    )
    def test_each_level_of_kafka_sets_the_loggers_level(
        self, raw: RawClient, level: str, number: int
    ) -> None:
        assert alter(raw, LOGGER, "1", (SET, self.NAME, level)) is NO_ERROR
        assert logging.getLogger(self.NAME).level == number
        assert values(raw, LOGGER, "1", self.NAME) == {self.NAME: (level, 6)}

    def test_deleted_level_is_inherited_again(self, raw: RawClient) -> None:
        alter(raw, LOGGER, "1", (SET, self.NAME, "FATAL"))
        assert alter(raw, LOGGER, "1", (DELETE, self.NAME, None)) is NO_ERROR
        assert logging.getLogger(self.NAME).level == logging.NOTSET

    def test_unknown_levels_loggers_and_nodes_are_rejected(self, raw: RawClient) -> None:
        for name, level in ((self.NAME, "LOUD"), ("kafka", "INFO"), (f"{self.NAME}.no", "INFO")):
            assert alter(raw, LOGGER, "1", (SET, name, level)) is ErrorCode.invalid_config
        assert alter(raw, LOGGER, "1", (2, self.NAME, "INFO")) is ErrorCode.invalid_request
        assert alter(raw, LOGGER, "2", (SET, self.NAME, "INFO")) is ErrorCode.invalid_request
