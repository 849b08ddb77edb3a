"""Brokers on a Redis that fails, and changes that other programs make to its data."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.redis.connection import RedisConnection, RedisFailedError
from spark_kafka_sink.broker.redis.entries import EntryIds
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tests.broker.support.redis_proxy import RedisProxy
from tests.support.redis_server import RedisServer
from tests.support.waiting import retry
from tools.support.raw_client import RawClient, batch, produce, produce_values

IDS = EntryIds()
SECONDS = 60


def stored(kafka: EmbeddedBroker) -> list[bytes | None]:
    return [record.value for data in kafka.batches("t", 0) for record in decode_batch(data)]


@contextmanager
def broker_on(url: str) -> Iterator[tuple[EmbeddedBroker, RawClient]]:
    """Start a broker with a topic, and connect a client to it."""
    with (
        EmbeddedBroker(storage=url, topics={"t": 1}) as kafka,
        RawClient(kafka.bootstrap_servers) as raw,
    ):
        yield kafka, raw


@contextmanager
def behind_proxy(
    redis_server: RedisServer, prefix: str
) -> Iterator[tuple[RedisProxy, EmbeddedBroker, RawClient]]:
    """Start a broker that uses Redis through a proxy, and connect a client to it."""
    with RedisProxy(redis_server.port) as proxy, broker_on(proxy.url(prefix)) as (kafka, raw):
        yield proxy, kafka, raw


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    name = "spark_kafka_sink.broker.redis.connection"
    return [record.getMessage() for record in caplog.records if record.name == name]


def produce_until_success(raw: RawClient, records: bytes | bytearray) -> Any:
    retried = {ErrorCode.kafka_storage_error}
    response = retry(lambda: produce(raw, "t", records), lambda part: part.error_code, retried)
    assert response.error_code is ErrorCode.none
    return response


def delete_tail(log: UnifiedLog, what: str, base: int) -> None:
    """Delete the batch at `base`, in a given way, as the last change."""
    if what == "truncated":
        log.truncate(base)
    elif what == "restarted":
        log.restart_at(log.end_offset + 10)
    else:
        log.storage.truncate(log.end_offset)


def add_foreign_entry(
    kafka: EmbeddedBroker, raw: RawClient, server: RedisServer, key: str, distance: int
) -> int:
    """Produce one record, and add an entry of another process `distance` offsets after it.

    The clock is set back, so that the next batch starts at the offset after the record. Return the
    record's offset.
    """
    base: int = produce(raw, "t", batch(1, value=b"1")).base_offset
    kafka.run(lambda cluster: cluster.clock.jump(-3_600_000))
    milliseconds, sequence = IDS.parts(base + distance)
    server.client.xadd(key, {"value": "theirs"}, id=f"{milliseconds}-{sequence}")
    return base


def lose_response_of_next_batch(patch: pytest.MonkeyPatch) -> None:
    """Close the connection after Redis has written the next batch, without a response."""
    real, is_lost = RedisConnection.pipeline, [False]

    def pipeline(self: RedisConnection, commands: Any) -> list[Any]:
        responses = [] if is_lost[0] else real(self, commands)
        is_lost[0] = is_lost[0] or any(words[0] == "XADD" for words in commands)
        if is_lost[0]:
            raise RedisFailedError
        return responses

    patch.setattr(RedisConnection, "pipeline", pipeline)


def delete(server: RedisServer, what: str) -> None:
    if what == "restart":
        server.stop()
        server.start()
    elif what == "all":
        server.client.flushall()
    else:
        assert server.client.delete(f"korvet{what}") == 1


def produce_briefly(raw: RawClient) -> Any:
    """Write a record with a timeout of a twentieth."""
    records = produce_values("t", batch(1), acks=-1)
    records["timeout"] /= 20
    (answer,) = raw.call(ApiKey.PRODUCE, 9, **records).responses[0].partition_responses
    return answer
