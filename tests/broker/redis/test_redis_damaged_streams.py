"""Streams with entries of other programs, and with partially written batches."""

import time

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.broker.redis.failing_redis import (
    add_foreign_entry,
    behind_proxy,
    broker_on,
    lose_response_of_next_batch,
    produce_until_success,
    stored,
)
from tests.broker.redis.killed_broker import kill_at, until_killed
from tests.broker.redis.reading import list_offset, values
from tests.broker.support.inspection import log_in
from tests.broker.support.redis_proxy import Loss
from tests.support.redis_server import RedisServer
from tools.support.raw_client import RawClient, batch, new_producer_id, produce


def test_foreign_entry_in_stream(own_redis: RedisServer) -> None:
    """The entry is not part of a batch; later offsets follow it."""
    with broker_on(own_redis.url()) as (kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        later = int(time.time() * 1000) + 3_600_000
        own_redis.client.xadd("korvet:t:0", {"value": "theirs"}, id=f"{later}-0")
        assert produce(raw, "t", batch(2, value=b"2")).error_code is ErrorCode.kafka_storage_error
        answer = produce(raw, "t", batch(2, value=b"2"))
        assert answer.base_offset == (later << 10) + 1
        assert values(own_redis) == [b"1", b"theirs", b"2", b"2"]
        assert stored(kafka) == [b"1", b"2", b"2"]
        assert list_offset(raw, -1) == answer.base_offset + 2


def test_foreign_entry_inside_a_batch_is_kept(redis_server: RedisServer, unique_topic: str) -> None:
    key = f"{unique_topic}:t:0"
    with broker_on(redis_server.url(unique_topic)) as (kafka, raw):
        base = add_foreign_entry(kafka, raw, redis_server, key, 3)
        assert produce(raw, "t", batch(9, value=b"2")).error_code is ErrorCode.kafka_storage_error
        assert values(redis_server, key) == [b"1", b"theirs"]
        # The deletion of the broker's entries uses an id too.
        assert produce(raw, "t", batch(2, value=b"3")).base_offset == base + 11
        assert values(redis_server, key) == [b"1", b"theirs", b"3", b"3"]


@pytest.mark.parametrize(
    ("trigger", "loss", "distance"),
    [
        (b"XDEL", Loss.REQUEST, 3),
        *((b"EXEC", Loss.RESPONSE, distance) for distance in (1, 4, 9)),
    ],
)
def test_partial_batch_is_removed_and_not_acknowledged(
    redis_server: RedisServer, unique_topic: str, trigger: bytes, loss: Loss, distance: int
) -> None:
    """A foreign entry interrupts the batch, and the cleanup or its response is lost."""
    key = f"{unique_topic}:t:0"
    with behind_proxy(redis_server, unique_topic) as (proxy, kafka, raw):
        add_foreign_entry(kafka, raw, redis_server, key, distance)
        proxy.trigger, proxy.lose = trigger, loss
        assert produce(raw, "t", batch(9, value=b"2")).error_code is ErrorCode.kafka_storage_error
        produce_until_success(raw, batch(2, value=b"3"))
        assert stored(kafka) == [b"1", b"3", b"3"]
    with EmbeddedBroker(storage=redis_server.url(unique_topic)) as kafka:
        assert stored(kafka) == [b"1", b"3", b"3"]
    assert values(redis_server, key) == [b"1", b"theirs", b"3", b"3"]


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_crash_while_removing_a_batch(
    redis_server: RedisServer,
    unique_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    is_acknowledged: bool,
) -> None:
    """The producer's retry must not be a duplicate of deleted records."""
    for number in range(20):
        url = redis_server.url(f"{unique_topic}{number}")
        with (
            EmbeddedBroker(storage=url, topics={"t": 1}) as kafka,
            RawClient(kafka.bootstrap_servers) as raw,
        ):
            data = batch(3, value=b"1", producer=(new_producer_id(raw), 0, 0))
            with monkeypatch.context() as patch:
                if not is_acknowledged:
                    lose_response_of_next_batch(patch)
                error = produce(raw, "t", data).error_code
                assert (error is ErrorCode.none) == is_acknowledged
            with monkeypatch.context() as patch:
                left = kill_at(patch, number)
                kafka.run(until_killed()(lambda cluster: log_in(cluster).storage.truncate(0)))
        with EmbeddedBroker(storage=url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
            produce_until_success(raw, data)
            assert stored(kafka) == [b"1"] * 3
        if left[0] >= 0:
            break
    assert 2 < number < 19, "the broker was not killed at each step of the removal"
