"""Redis that is stopped, hangs, loses responses, is out of memory or has replicas."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.redis.entries import EntryIds
from spark_kafka_sink.broker.redis.redis_connection import RedisConnection, RedisFailedError
from spark_kafka_sink.common.errors import BrokerUnavailableError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tests.broker.redis.killed_broker import kill_at, until_killed
from tests.broker.redis.reading import batches_of, fetch, list_offset, values
from tests.broker.support.inspection import log_in, next_line
from tests.broker.support.redis_proxy import Loss, RedisProxy
from tests.broker.support.redis_server import RedisServer
from tests.support.waiting import retry, wait_until_equal
from tools.support.raw_client import (
    TIMEOUT,
    RawClient,
    batch,
    create,
    new_producer_id,
    produce,
    produce_values,
)

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
    name = "spark_kafka_sink.broker.redis.redis_connection"
    return [record.getMessage() for record in caplog.records if record.name == name]


def produce_until_success(raw: RawClient, records: bytes | bytearray) -> Any:
    retried = {ErrorCode.kafka_storage_error}
    response = retry(lambda: produce(raw, "t", records), lambda part: part.error_code, retried)
    assert response.error_code is ErrorCode.none
    return response


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


def delete_tail(log: UnifiedLog, what: str, base: int) -> None:
    """Delete the batch at `base`, in a given way, as the last change."""
    if what == "truncated":
        log.truncate(base)
    elif what == "restarted":
        log.restart_at(log.end_offset + 10)
    else:
        log.storage.truncate(log.end_offset)


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


@pytest.mark.parametrize(("is_acknowledged", "steps"), [(False, 3), (True, 7)])
def test_crash_while_removing_a_batch(
    redis_server: RedisServer,
    unique_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    is_acknowledged: bool,
    steps: int,
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
    assert number == steps


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
