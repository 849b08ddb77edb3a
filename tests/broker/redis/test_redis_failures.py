"""Redis that is stopped, hangs, loses responses, is out of memory or has replicas."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import BrokerUnavailableError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.redis.failing_redis import (
    SECONDS,
    behind_proxy,
    broker_on,
    produce_briefly,
    produce_until_success,
    stored,
    warned,
)
from tests.broker.redis.reading import batches_of, fetch, values
from tests.broker.support.inspection import log_in, next_line
from tests.broker.support.redis_proxy import Loss
from tests.support.redis_server import RedisServer
from tools.support.raw_client import (
    TIMEOUT,
    RawClient,
    batch,
    create,
    new_producer_id,
    produce,
    produce_values,
)


def test_writes_are_rejected_while_redis_is_stopped(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_on(own_redis.url()) as (_, raw):
        produce(raw, "t", batch(1))
        own_redis.stop()
        answer = produce(raw, "t", batch(1))
        assert answer.error_code is ErrorCode.kafka_storage_error
        assert answer.base_offset == -1
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.kafka_storage_error
        (warning,) = warned(caplog)
        assert f"127.0.0.1:{own_redis.port}/0 cannot be used" in warning
        assert fetch(raw, 0).error_code is ErrorCode.kafka_storage_error
        topic = {"name": "new", "num_partitions": 1, "replication_factor": 1}
        response = raw.call(ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout=TIMEOUT)
        assert response.topics[0].error_code is ErrorCode.kafka_storage_error
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1), acks=0))
        assert raw.closed()


def test_start_without_redis(own_redis: RedisServer) -> None:
    url = own_redis.url()
    own_redis.stop()
    with pytest.raises(BrokerUnavailableError):
        EmbeddedBroker(storage=url).start()


def test_writes_to_a_hanging_redis_are_not_executed_later(own_redis: RedisServer) -> None:
    """Commands sent to a hanging Redis must not take effect later."""
    with broker_on(own_redis.url(timeout_ms=300)) as (kafka, raw):
        producer = new_producer_id(raw)
        produce(raw, "t", batch(1, producer=(producer, 0, 0), value=b"1"))
        own_redis.pause()
        second = batch(2, producer=(producer, 0, 1), value=b"2")
        started = time.monotonic()
        for _ in range(5):
            assert produce(raw, "t", second).error_code is ErrorCode.kafka_storage_error
        assert time.monotonic() - started < 15
        own_redis.resume()
        answer = produce_until_success(raw, second)
        assert produce(raw, "t", second).base_offset == answer.base_offset
        assert values(own_redis) == stored(kafka) == [b"1", b"2", b"2"]


def test_batches_after_one_with_an_unknown_outcome(own_redis: RedisServer) -> None:
    """They fail like it. Otherwise, clients may send all of them again with a new epoch."""
    with broker_on(own_redis.url("p", timeout_ms=300)) as (kafka, raw):
        producer = new_producer_id(raw)
        batches = [batch(1, value=b"%d" % n, producer=(producer, 0, n)) for n in range(3)]
        produce(raw, "t", batches[0])
        own_redis.pause()
        for data in batches[1:]:
            assert produce(raw, "t", data).error_code is ErrorCode.kafka_storage_error
        own_redis.resume()
        for data in batches[1:]:
            produce_until_success(raw, data)
        assert stored(kafka) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("loss", list(Loss))
def test_no_loss_or_duplicates_after_lost_connection(
    redis_server: RedisServer, unique_topic: str, loss: Loss
) -> None:
    with behind_proxy(redis_server, unique_topic) as (proxy, kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        proxy.lose = loss
        answer = produce(raw, "t", batch(2, value=b"2"))
        if loss is Loss.RESPONSE:
            assert answer.error_code is ErrorCode.none
        else:
            assert answer.error_code is ErrorCode.kafka_storage_error
            if loss is Loss.LATE_REQUEST:
                proxy.deliver()
            answer = produce(raw, "t", batch(2, value=b"2"))
        assert answer.error_code is ErrorCode.none
        stream_values = values(redis_server, f"{unique_topic}:t:0")
        assert stream_values == stored(kafka) == [b"1", b"2", b"2"]


@pytest.mark.parametrize("loss", list(Loss))
def test_topic_is_kept_if_its_deletion_fails(
    redis_server: RedisServer, unique_topic: str, loss: Loss
) -> None:
    """The topic still acknowledges records, so it must exist after a restart."""
    with behind_proxy(redis_server, unique_topic) as (proxy, kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        proxy.trigger, proxy.lose = b"HDEL", loss
        answer = raw.call(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=TIMEOUT)
        assert answer.responses[0].error_code is ErrorCode.kafka_storage_error
        assert produce(raw, "t", batch(1, value=b"2")).error_code is ErrorCode.none
        if loss is Loss.LATE_REQUEST:
            proxy.deliver()
    with EmbeddedBroker(storage=redis_server.url(unique_topic)) as kafka:
        assert stored(kafka) == [b"1", b"2"]


def test_redis_restarts_with_all_data(own_redis: RedisServer) -> None:
    with broker_on(own_redis.url()) as (kafka, raw):
        ids = [new_producer_id(raw)]
        produce(raw, "t", batch(1, value=b"1", producer=(ids[0], 0, 0)))
        own_redis.client.save()
        ids.append(new_producer_id(raw))  # This is not in the older state.
        own_redis.stop()
        own_redis.start()
        produce_until_success(raw, batch(1, value=b"2", producer=(ids[0], 0, 1)))
        ids.append(new_producer_id(raw))
        assert len(set(ids)) == len(ids)
        assert stored(kafka) == [b"1", b"2"]


def test_redis_out_of_memory(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with broker_on(own_redis.url()) as (kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        own_redis.client.config_set("maxmemory", 1)
        answer = produce(raw, "t", batch(2, value=b"2"))
        assert answer.error_code is ErrorCode.kafka_storage_error
        assert "maxmemory" in "".join(warned(caplog))
        own_redis.client.config_set("maxmemory", 0)
        assert produce(raw, "t", batch(2, value=b"3")).error_code is ErrorCode.none
        assert values(own_redis) == stored(kafka) == [b"1", b"3", b"3"]


def test_full_redis_is_readable_after_reconnect(own_redis: RedisServer) -> None:
    """Fetches and retention still work, as they do not store new values."""
    with broker_on(own_redis.url()) as (kafka, raw):
        first = produce(raw, "t", batch(1, value=b"1")).base_offset
        own_redis.client.config_set("maxmemory", 1)
        for client in own_redis.client.client_list():
            if "kafkaprod" in client["name"]:
                own_redis.client.client_kill_filter(_id=client["id"])
        fetch(raw, first)  # This can fail, as the connection was lost.
        assert [record.value for record in batches_of(fetch(raw, first).records)[0]] == [b"1"]
        item = {"name": "t", "partitions": [{"partition_index": 0, "offset": first + 1}]}
        answer = raw.call(ApiKey.DELETE_RECORDS, 2, topics=[item], timeout=TIMEOUT)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.kafka_storage_error
        kafka.run(lambda cluster: log_in(cluster).storage.delete_before(first + 1))
        assert values(own_redis) == []


def test_log_start_of_a_full_redis_persists(own_redis: RedisServer) -> None:
    """Retention stores the log start although Redis rejects new values."""
    url = own_redis.url()
    with broker_on(url) as (kafka, raw):
        start = produce(raw, "t", batch(2)).base_offset + 2
        kafka.jump_clock(10)
        assert produce(raw, "t", batch(1)).base_offset > start
        own_redis.client.config_set("maxmemory", 1)
        kafka.run(lambda cluster: log_in(cluster).storage.delete_before(start))
    with pytest.raises(BrokerUnavailableError, match="raise maxmemory"):
        EmbeddedBroker(storage=url).start()
    own_redis.client.config_set("maxmemory", 0)
    with EmbeddedBroker(storage=url) as kafka:
        assert kafka.run(lambda cluster: log_in(cluster).start_offset) == start
        assert len(kafka.records("t")) == 1


def test_tail_of_a_full_redis_can_be_deleted(own_redis: RedisServer) -> None:
    """A new leader can drop records, although Redis does not store that they were deleted last."""
    with broker_on(own_redis.url()) as (kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        base = produce(raw, "t", batch(2, value=b"2")).base_offset
        own_redis.client.config_set("maxmemory", 1)
        kafka.run(lambda cluster: log_in(cluster).truncate(base))
        assert values(own_redis) == stored(kafka) == [b"1"]
        own_redis.client.config_set("maxmemory", 0)
        assert produce(raw, "t", batch(1, value=b"3")).base_offset >= base + 2
        assert values(own_redis) == stored(kafka) == [b"1", b"3"]


class TestReplicas:
    @pytest.fixture
    def replica(
        self, own_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[RedisServer]:
        with RedisServer(tmp_path_factory.mktemp("replica"), replica_of=own_redis) as server:
            yield server

    @pytest.fixture
    def kafka(self, own_redis: RedisServer, replica: RedisServer) -> Iterator[EmbeddedBroker]:
        assert replica.client.ping()
        with EmbeddedBroker(storage=own_redis.url(replicas=1), topics={"t": 1}) as broker:
            yield broker

    def test_acks_all_waits_for_replicas(self, raw: RawClient, replica: RedisServer) -> None:
        for number in range(20):
            value = b"%d" % number
            assert produce(raw, "t", batch(1, value=value)).error_code is ErrorCode.none
            assert values(replica)[-1] == value

    def test_hanging_replica_does_not_block_the_broker(
        self, raw: RawClient, replica: RedisServer
    ) -> None:
        replica.pause()
        assert produce(raw, "t", batch(1), acks=1).error_code is ErrorCode.none
        started = time.monotonic()
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1), acks=-1))
        time.sleep(0.5)  # The replica hangs for so long.
        replica.resume()
        answer = raw.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
        assert answer.error_code is ErrorCode.none
        assert 0.5 <= time.monotonic() - started < SECONDS
        assert len(values(replica)) == 2

    def test_recreated_topic_waits_for_replicas(
        self, own_redis: RedisServer, kafka: EmbeddedBroker, raw: RawClient, replica: RedisServer
    ) -> None:
        """The replicas have higher offsets of a deleted topic, but not the new records."""
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.none
        kafka.jump_clock(-3_600_000)
        raw.call(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=TIMEOUT)
        create(raw, "t", 1)
        replica.pause()
        assert produce_briefly(raw).error_code is ErrorCode.request_timed_out
        assert len(values(own_redis)) == 1

    def test_acks_all_times_out_without_replica(
        self, own_redis: RedisServer, raw: RawClient, replica: RedisServer
    ) -> None:
        replica.stop()
        assert produce_briefly(raw).error_code is ErrorCode.request_timed_out
        assert len(values(own_redis)) == 1


def test_restarted_command_continues_with_the_data_in_redis(own_redis: RedisServer) -> None:
    command = [sys.executable, "-m", "spark_kafka_sink", "broker", "--port", "0"]
    command += ["--topic", "t:1", "--storage", own_redis.url()]
    for expected in ([b"1"], [b"1", b"1"]):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                address = next_line(process).split()[-1]
                with RawClient(address) as raw:
                    answer = produce(raw, "t", batch(1, value=b"1"))
                    assert answer.error_code is ErrorCode.none
                assert values(own_redis) == expected
                process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
