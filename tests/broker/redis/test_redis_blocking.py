"""Requests that do not need Redis are served while Redis is blocked."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.messages import read_correlation_id
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.redis.reading import values
from tests.support.redis_server import RedisServer
from tools.support.raw_client import RawClient, batch, produce, produce_values

BLOCKED_MS = 40_000
"""Timeout for Redis: requests that wait for Redis take this long."""
MAX_S = 20.0


@pytest.fixture
def kafka(own_redis: RedisServer) -> Iterator[EmbeddedBroker]:
    url = own_redis.url(timeout_ms=BLOCKED_MS)
    with EmbeddedBroker(storage=url, topics={"t": 1}, auto_create_topics=True) as broker:
        yield broker


def metadata(raw: RawClient) -> Any:
    return raw.call(ApiKey.METADATA, 9, topics=[{"name": "t"}])


def test_other_requests_are_served_while_redis_is_blocked(
    kafka: EmbeddedBroker, own_redis: RedisServer
) -> None:
    with RawClient(kafka.bootstrap_servers) as writer, RawClient(kafka.bootstrap_servers) as other:
        produce(writer, "t", batch(1, value=b"1"))
        own_redis.pause()
        started = time.monotonic()
        writer.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1, value=b"2")))
        for _ in range(3):
            assert metadata(other).topics[0].error_code is ErrorCode.none
        other.call(ApiKey.FIND_COORDINATOR, 3, key="g", key_type=0)
        with RawClient(kafka.bootstrap_servers) as third:
            third.call(ApiKey.API_VERSIONS, 3, client_software_name="n")
        assert time.monotonic() - started < MAX_S
        own_redis.resume()
        response = writer.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
        assert response.error_code is ErrorCode.none
    assert values(own_redis) == [b"1", b"2"]


def test_acks_0_does_not_wait(kafka: EmbeddedBroker, own_redis: RedisServer) -> None:
    with RawClient(kafka.bootstrap_servers) as raw:
        own_redis.pause()
        started = time.monotonic()
        for number in range(20):
            records = batch(1, value=b"%d" % number)
            raw.send(ApiKey.PRODUCE, 9, **produce_values("t", records, acks=0))
        assert metadata(raw).topics[0].error_code is ErrorCode.none
        assert time.monotonic() - started < MAX_S
        own_redis.resume()
        assert produce(raw, "t", batch(1, value=b"last")).error_code is ErrorCode.none
    assert values(own_redis) == [b"%d" % number for number in range(20)] + [b"last"]


def test_failed_acks_0_closes_the_connection(kafka: EmbeddedBroker, own_redis: RedisServer) -> None:
    with RawClient(kafka.bootstrap_servers) as raw:
        produce(raw, "t", batch(1))
        own_redis.stop()
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1), acks=0))
        assert raw.closed()


def test_responses_keep_the_request_order(kafka: EmbeddedBroker) -> None:
    with RawClient(kafka.bootstrap_servers) as raw:
        expected = []
        for number in range(200):
            acks = (1, 0, -1)[number % 3]
            produced = raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1), acks=acks))
            expected += [produced] if acks else []
            expected.append(raw.send(ApiKey.METADATA, 9, topics=[{"name": "t"}]))
        correlation_ids = [read_correlation_id(raw.next_frame()) for _ in expected]
    assert correlation_ids == expected
    assert len(kafka.batches("t", 0)) == 200


def test_nodes_restart_while_redis_is_blocked(own_redis: RedisServer) -> None:
    with EmbeddedBroker(storage=own_redis.url(), topics={"t": 2}, nodes=2) as kafka:
        first, second = kafka.bootstrap_servers.split(",")
        with RawClient(first) as first_client, RawClient(second) as two:
            kafka.stop_node(2)
            assert two.closed()
            assert len(metadata(first_client).brokers) == 1
            kafka.start_node(2)
        with RawClient(second) as again:
            assert len(metadata(again).brokers) == 2
