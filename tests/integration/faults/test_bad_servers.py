"""Addresses where no Kafka broker answers: each is named with its reason, within max.block.ms."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError
from tests.integration.support import servers
from tests.integration.support.producing import produce, rows, session

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tools.support.kafka_cluster import KafkaCluster

BLOCK_MS = 1500
_listening = servers.listening
SLACK_S = 20


def _refusal(bootstrap_servers: str, block_ms: int = BLOCK_MS) -> str:
    """The error of a write to these servers; it must come on time."""
    started = time.monotonic()
    with session(bootstrap_servers, max_block_ms=block_ms) as producer:
        producer.append(rows("topic", [b"a"]))
        with pytest.raises(BrokerUnavailableError) as caught:
            producer.flush()
    took = time.monotonic() - started
    assert block_ms / 1000 <= took < block_ms / 1000 + SLACK_S
    return str(caught.value)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (lambda: _listening(servers.answer_as_web), "HTTP"),
        (lambda: _listening(servers.say_nothing), "no answer"),
        (lambda: _listening(servers.hang_up), "is it a Kafka broker"),
        (lambda: _listening(servers.speak_tls), "kafka.security.protocol=SSL"),
        (lambda: _listening(servers.answer_with_nonsense), "out of order"),
    ],
    ids=["http", "silent", "hangs-up", "tls", "nonsense"],
)
def test_a_server_that_is_no_plain_kafka_broker(
    server: Callable[[], AbstractContextManager[str]], reason: str
) -> None:
    with server() as address:
        text = _refusal(address)
    assert address in text
    assert reason in text


def test_a_port_that_says_that_it_speaks_tls() -> None:
    """That is certain: nothing is waited for."""
    started = time.monotonic()
    with (
        _listening(servers.answer_with_tls_alert) as address,
        pytest.raises(BrokerUnavailableError, match=r"kafka\.security\.protocol=SSL") as caught,
    ):
        produce(address, rows("topic", [b"a"]), max_block_ms=60_000)
    assert f"broker={address}" in str(caught.value)
    assert time.monotonic() - started < SLACK_S


def test_a_closed_port() -> None:
    address = servers.closed_port()
    assert f"{address}: Connection refused" in _refusal(address)


def test_a_name_that_does_not_resolve() -> None:
    text = _refusal("no-such-host.invalid:9092")
    assert "no-such-host.invalid:9092: " in text
    assert "max.block.ms = 1500" in text


def test_every_address_is_named_with_its_reason() -> None:
    closed = [servers.closed_port() for _ in range(3)]
    with _listening(servers.answer_as_web) as web, _listening(servers.say_nothing) as silent:
        text = _refusal(",".join([*closed, web, silent, "no-such-host.invalid:9092"]), 5000)
    for address in closed:
        assert f"{address}: Connection refused" in text
    assert f"{web}: " in text
    assert "HTTP" in text
    assert f"{silent}: no answer" in text
    assert "no-such-host.invalid:9092: " in text


def test_silent_addresses_do_not_hide_the_others() -> None:
    closed = servers.closed_port()
    with ExitStack() as stack:
        silent = [stack.enter_context(_listening(servers.say_nothing)) for _ in range(5)]
        text = _refusal(",".join([*silent, closed]), 4000)
    assert f"{closed}: Connection refused" in text


def test_one_broker_among_wrong_addresses_is_enough(
    real_kafka: KafkaCluster, unique_topic: str
) -> None:
    wrong = [servers.closed_port() for _ in range(3)]
    with _listening(servers.answer_as_web) as web, _listening(servers.say_nothing) as silent:
        addresses = ",".join([*wrong, web, silent, real_kafka.bootstrap_servers])
        report = produce(addresses, rows(unique_topic, [b"a"]), max_block_ms=20_000)
    assert report.persisted == 1


def test_the_listener_of_a_controller_is_no_broker(
    real_kafka: KafkaCluster, unique_topic: str
) -> None:
    controller = f"127.0.0.1:{real_kafka.node(1).controller_port}"
    text = _refusal(controller)
    assert f"{controller}: " in text
    assert "METADATA" in text
    addresses = f"{controller},{real_kafka.bootstrap_servers}"
    for _ in range(3):  # whichever is asked first
        assert produce(addresses, rows(unique_topic, [b"a"])).persisted == 1
