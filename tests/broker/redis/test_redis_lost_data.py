"""Redis that has lost data, or has older data after a restart."""

from pathlib import Path

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.redis.failing_redis import (
    IDS,
    broker_on,
    delete,
    delete_tail,
    lose_response_of_next_batch,
    produce_until_success,
    stored,
    warned,
)
from tests.broker.redis.reading import fetch, values
from tests.broker.support.inspection import log_in
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until_equal
from tools.support.raw_client import (
    TIMEOUT,
    RawClient,
    batch,
    create,
    new_producer_id,
    produce,
    produce_values,
)


@pytest.mark.parametrize("has_older_batch", [False, True])
def test_redis_restarts_with_older_data(
    own_redis: RedisServer, has_older_batch: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Every request fails, also a retry of a lost batch, until the broker restarts."""
    url = own_redis.url()
    with broker_on(url) as (kafka, raw):
        producer = new_producer_id(raw)
        kept = [batch(1, value=b"1", producer=(producer, 0, 0))][: int(has_older_batch)]
        lost = batch(1, value=b"2", producer=(producer, 0, len(kept)))
        for data in kept:
            produce(raw, "t", data)
        own_redis.client.save()
        ids = [new_producer_id(raw)]
        assert produce(raw, "t", lost).error_code is ErrorCode.none
        own_redis.stop()
        own_redis.start()
        for _ in range(3):
            assert produce(raw, "t", lost).error_code is ErrorCode.kafka_storage_error
            assert fetch(raw, 0).error_code is ErrorCode.kafka_storage_error
        assert "without the last changes of" in "".join(warned(caplog))
    with EmbeddedBroker(storage=url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        assert produce(raw, "t", lost).error_code is ErrorCode.none
        ids.append(new_producer_id(raw))
        assert stored(kafka) == [b"1", b"2"][1 - len(kept) :]


@pytest.mark.parametrize("deleted", ["truncated", "restarted", "rejected"])
def test_redis_restarts_with_deleted_batches(
    own_redis: RedisServer,
    deleted: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A retry must not be appended after the restored batch."""
    url = own_redis.url()
    with broker_on(url) as (kafka, raw):
        producer = new_producer_id(raw)
        produce(raw, "t", batch(1, value=b"1", producer=(producer, 0, 0)))
        base = kafka.end_offsets("t")[0]
        data = batch(1, value=b"2", producer=(producer, 0, 1))
        if deleted == "rejected":
            with monkeypatch.context() as patch:
                lose_response_of_next_batch(patch)
                assert produce(raw, "t", data).error_code is ErrorCode.kafka_storage_error
        else:
            produce(raw, "t", data)
        own_redis.client.save()
        kafka.run(lambda cluster: delete_tail(log_in(cluster), deleted, base))
        assert values(own_redis) == [b"1"] * (deleted != "restarted")
        own_redis.stop()
        own_redis.start()
        for _ in range(3):
            assert produce(raw, "t", data).error_code is ErrorCode.kafka_storage_error
        assert "without the last changes of" in "".join(warned(caplog))
    with EmbeddedBroker(storage=url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        assert produce(raw, "t", data).error_code is ErrorCode.none
        assert stored(kafka) == [b"1", b"2"]


def test_lost_batch_is_not_acknowledged_by_the_replicas(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    """The server restarts without a batch that waits for a replica, and then a replica follows."""
    with broker_on(own_redis.url(replicas=1)) as (_, raw):
        own_redis.client.save()
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1, value=b"1")))
        wait_until_equal(lambda: values(own_redis), [b"1"])
        own_redis.stop()
        own_redis.start()
        with RedisServer(tmp_path, replica_of=own_redis):
            answer = raw.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
        assert answer.error_code is ErrorCode.request_timed_out
        assert values(own_redis) == []


def test_older_state_of_a_former_replica_is_detected(
    own_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Redis loads the state of its promoted replica, but keeps the broker's connection."""
    data = batch(1, producer=(7, 0, 1), value=b"2")
    with broker_on(own_redis.url()) as (_, raw):
        with RedisServer(tmp_path, replica_of=own_redis) as replica:
            produce(raw, "t", batch(1, producer=(7, 0, 0), value=b"1"))
            wait_until_equal(lambda: values(replica), [b"1"])
            replica.client.replicaof("NO", "ONE")
            assert produce(raw, "t", data).error_code is ErrorCode.none
            own_redis.client.replicaof("127.0.0.1", replica.port)
            wait_until_equal(lambda: values(own_redis), [b"1"])
            own_redis.client.replicaof("NO", "ONE")
        for _ in range(3):
            assert produce(raw, "t", data).error_code is ErrorCode.kafka_storage_error
        assert "without the last changes of" in "".join(warned(caplog))
    with broker_on(own_redis.url()) as (kafka, raw):
        assert produce(raw, "t", data).error_code is ErrorCode.none
        assert stored(kafka) == [b"1", b"2"]


def test_deleted_batch_is_skipped_and_logged(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_on(own_redis.url()) as (kafka, raw):
        for value in (b"1", b"2", b"3"):
            answer = produce(raw, "t", batch(1, value=value))
            if value == b"2":
                entry = IDS.text(answer.base_offset)
        assert "has lost batches" not in caplog.text
        for key in ("korvet:t:0", "korvet::batches:t:0"):
            assert own_redis.client.xdel(key, entry) == 1
        assert stored(kafka) == [b"1", b"3"]
        assert "Redis has lost batches" in caplog.text


@pytest.mark.parametrize("lost", [[0], [2], [0, 1, 2]])
def test_deleted_records_are_skipped_and_logged(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture, lost: list[int]
) -> None:
    with broker_on(own_redis.url()) as (kafka, raw):
        base = produce(raw, "t", batch(3, value=b"1")).base_offset
        produce(raw, "t", batch(2, value=b"2"))
        assert stored(kafka) == [b"1"] * 3 + [b"2"] * 2
        assert "Redis has lost" not in caplog.text
        entries = [IDS.text(base + number) for number in lost]
        assert own_redis.client.xdel("korvet:t:0", *entries) == len(lost)
        assert stored(kafka) == [b"1"] * (3 - len(lost)) + [b"2"] * 2
        assert "Redis has lost batches of korvet:t:0 or their records" in caplog.text


def test_older_data_contains_a_topic_with_the_same_name(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Records of the deleted topic must not appear in the new topic."""
    url = own_redis.url()
    with broker_on(url) as (kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        own_redis.client.save()
        raw.call(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=TIMEOUT)
        create(raw, "t", 1)
        produce(raw, "t", batch(1, value=b"2"))
        own_redis.stop()
        own_redis.start()
        for _ in range(2):
            answer = produce(raw, "t", batch(1, value=b"3"))
            assert answer.error_code is ErrorCode.kafka_storage_error
        assert fetch(raw, 0).error_code is ErrorCode.kafka_storage_error
        assert "before topic t was deleted" in "".join(warned(caplog))
    with EmbeddedBroker(storage=url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        produce(raw, "t", batch(1, value=b"4"))
        assert stored(kafka) == [b"1", b"4"]


def test_rejected_commands_are_not_reported_as_deleted_data(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_on(own_redis.url()) as (kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        own_redis.client.acl_setuser("default", enabled=True, commands=["-hget"])
        answer = produce(raw, "t", batch(1, value=b"2"))
        assert answer.error_code is ErrorCode.kafka_storage_error
        own_redis.client.acl_setuser("default", enabled=True, commands=["+hget"])
        assert "hget" in caplog.text
        assert "Restart the broker" not in caplog.text
        produce_until_success(raw, batch(1, value=b"3"))
        assert stored(kafka)[-1] == b"3"


@pytest.mark.parametrize("gone", ["all", "restart", "::journal", ":t:0", "::batches:t:0"])
def test_writes_to_deleted_data_are_not_acknowledged(
    own_redis: RedisServer, gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A restarted broker could not read them: the journal entry or a stream is missing."""
    url = own_redis.url()
    with broker_on(url) as (kafka, raw):
        produce(raw, "t", batch(1, value=b"1"))
        delete(own_redis, gone)
        left = set(own_redis.client.keys())
        for _ in range(3):
            answer = produce(raw, "t", batch(1, value=b"2"))
            assert answer.error_code is ErrorCode.kafka_storage_error
        assert set(own_redis.client.keys()) == left
        assert "Restart the broker" in caplog.text
    if gone == "::journal":
        return
    with broker_on(url) as (kafka, raw):
        assert produce(raw, "t", batch(1, value=b"3")).error_code is ErrorCode.none
        assert stored(kafka) == [b"3"]
