"""Write with the Kafka protocol and inspect a real Redis with redis-py."""

import time
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.redis.entries import EntryIds
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.broker.redis.reading import batches_of, entries, fetch, list_offset
from tests.broker.support.inspection import log_in, topic_in
from tests.support.redis_server import RedisServer
from tools.support.raw_client import RawClient, batch, new_producer_id, produce

T = TypeVar("T")
Stream: TypeAlias = "Callable[..., list[tuple[bytes, dict[bytes, bytes]]]]"
"""Function that returns the entries (ids and fields) of a partition of topic t."""
IDS = EntryIds()


@pytest.fixture
def stream(redis_server: RedisServer, unique_topic: str) -> Stream:
    return lambda partition=0: entries(redis_server, f"{unique_topic}:t:{partition}")


def test_one_entry_per_record(redis_raw: RawClient, stream: Stream) -> None:
    before = int(time.time() * 1000)
    answer = produce(redis_raw, "t", batch(3, timestamp=before, value=b"v"))
    after = int(time.time() * 1000)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.none, 0)
    assert before << 10 <= answer.base_offset <= after << 10
    entries = stream()
    assert [IDS.read(entry_id) for entry_id, _ in entries] == [
        answer.base_offset + number for number in range(3)
    ]
    stamp = str(before).encode()
    assert entries[0][1] == {b"key": b"key", b"value": b"v", b"timestamp": stamp}


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_are_stored_as_records(
    redis_raw: RawClient, stream: Stream, codec: int
) -> None:
    produce(redis_raw, "t", batch(100, codec=codec, value=b"x" * 50))
    assert [fields[b"value"] for _, fields in stream()] == [b"x" * 50] * 100


def test_other_sequence_bits(redis_server: RedisServer, unique_topic: str) -> None:
    url = redis_server.url(prefix=unique_topic, sequence_bits=4)
    with (
        EmbeddedBroker(storage=url, topics={"t": 1}) as kafka,
        RawClient(kafka.bootstrap_servers) as raw,
    ):
        base = produce(raw, "t", batch(40)).base_offset
    stored = entries(redis_server, f"{unique_topic}:t:0")
    assert [EntryIds(4).read(entry_id) for entry_id, _ in stored] == list(range(base, base + 40))
    assert {entry_id.split(b"-")[1] for entry_id, _ in stored} == {b"%d" % n for n in range(16)}


def test_sequence_bits_cannot_change(redis_server: RedisServer, unique_topic: str) -> None:
    """With other bits, IDs map to other offsets, and retention would delete all records."""
    url = redis_server.url(unique_topic)
    with (
        EmbeddedBroker(storage=url, topics={"t": 1}) as kafka,
        RawClient(kafka.bootstrap_servers) as raw,
    ):
        produce(raw, "t", batch(3))
        complete = kafka.batches("t", 0)
    for bits in (4, 12):
        other = redis_server.url(unique_topic, sequence_bits=bits)
        with pytest.raises(ConfigError, match="has sequence_bits=10"):
            EmbeddedBroker(storage=other).start()
    with EmbeddedBroker(storage=url) as kafka:
        assert kafka.batches("t", 0) == complete


def test_fetch_skips_offset_gaps(redis_kafka: EmbeddedBroker, redis_raw: RawClient) -> None:
    bases = []
    for _ in range(3):
        bases.append(produce(redis_raw, "t", batch(2)).base_offset)
        redis_kafka.jump_clock(3)  # The offsets contain the milliseconds.
    assert list_offset(redis_raw, -2) == 0
    assert list_offset(redis_raw, -1) == bases[-1] + 2
    for offset, missing in ((0, 0), (bases[0] + 2, 1), (bases[1] + 1, 1), (bases[2] - 1, 2)):
        offsets = [
            record.offset
            for records in batches_of(fetch(redis_raw, offset).records)
            for record in records
        ]
        assert offsets == [base + n for base in bases[missing:] for n in range(2)]
    assert batches_of(fetch(redis_raw, bases[-1] + 2).records) == []
    assert fetch(redis_raw, bases[-1] + 3).error_code is ErrorCode.offset_out_of_range


def test_fetch_returns_at_most_max_bytes(redis_raw: RawClient) -> None:
    for _ in range(4):
        produce(redis_raw, "t", batch(10, value=b"x" * 100))
    assert len(batches_of(fetch(redis_raw, 0, max_bytes=1).records)) == 1
    assert len(batches_of(fetch(redis_raw, 0, max_bytes=3000).records)) == 2


def test_offsets_by_time(redis_raw: RawClient) -> None:
    bases = [produce(redis_raw, "t", batch(2, timestamp=t)).base_offset for t in (100, 300, 200)]
    assert list_offset(redis_raw, 0) == bases[0]
    assert list_offset(redis_raw, 101) == bases[1]
    assert list_offset(redis_raw, 301) == -1
    assert list_offset(redis_raw, -3) == bases[1]


@pytest.mark.parametrize("time_ms", [253_402_300_800_000, 2**63 - 1, -1, -(2**63)])
def test_all_timestamps_are_kept(
    redis_kafka: EmbeddedBroker, redis_raw: RawClient, time_ms: int
) -> None:
    """Retention uses the ID for records without a timestamp, so it does not delete them."""
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    redis_kafka.run(lambda cluster: cluster.topics.configure(topic_in(cluster), any_time))
    data = batch(2, timestamp=time_ms, producer=(new_producer_id(redis_raw), 0, 0))
    base = produce(redis_raw, "t", data).base_offset
    assert produce(redis_raw, "t", data).base_offset == base
    now = int(time.time() * 1000)
    redis_kafka.run(lambda cluster: log_in(cluster).storage.expire(now))
    (records,) = batches_of(fetch(redis_raw, 0).records)
    assert [record.timestamp for record in records] == [time_ms] * 2
    assert list_offset(redis_raw, -3) == (base if time_ms >= -1 else -1)
    redis_kafka.run(lambda cluster: log_in(cluster).storage.expire(now + 30 * 86_400_000))
    left = batches_of(fetch(redis_raw, base + (2 if time_ms < 0 else 0)).records)
    assert bool(left) == (time_ms > 0)


def test_log_append_time(redis_kafka: EmbeddedBroker, redis_raw: RawClient, stream: Stream) -> None:
    def stamp(cluster: Cluster) -> None:
        topic = topic_in(cluster)
        cluster.topics.configure(topic, {"message.timestamp.type": "LogAppendTime"})

    redis_kafka.run(stamp)
    answer = produce(redis_raw, "t", batch(2, timestamp=5, codec=1))
    stamped = int(answer.log_append_time.timestamp() * 1000 + 0.5)
    assert [int(fields[b"timestamp"]) for _, fields in stream()] == [stamped, stamped]
    (records,) = batches_of(fetch(redis_raw, 0).records)
    assert [record.timestamp for record in records] == [stamped, stamped]


@pytest.mark.parametrize("scheme", ["redis", "unix"])
def test_restart_restores_all_data(
    redis_server: RedisServer, unique_topic: str, scheme: str
) -> None:
    redis_url = redis_server.url(prefix=unique_topic)
    if scheme == "unix":
        redis_url = f"unix://{redis_server.socket_path}?prefix={unique_topic}"
    with (
        EmbeddedBroker(storage=redis_url, topics={"t": 2}) as kafka,
        RawClient(kafka.bootstrap_servers) as raw,
    ):
        producer = new_producer_id(raw)
        repeated = batch(2, producer=(producer, 0, 0), codec=3)
        base = produce(raw, "t", repeated).base_offset
        ends, stored = kafka.end_offsets("t"), kafka.batches("t", 0)
        topic_id = kafka.run(lambda cluster: topic_in(cluster).id)
    with EmbeddedBroker(storage=redis_url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        assert kafka.run(lambda cluster: topic_in(cluster).id) == topic_id
        assert (kafka.end_offsets("t"), kafka.batches("t", 0)) == (ends, stored)
        assert produce(raw, "t", repeated).base_offset == base
        assert produce(raw, "t", batch(1, producer=(producer, 0, 2))).base_offset >= ends[0]
        assert new_producer_id(raw) > producer
        assert list_offset(raw, -2) == 0


def test_restart_with_clock_in_the_past(redis_url: str) -> None:
    """Offsets follow the last one regardless of the clock."""
    with EmbeddedBroker(storage=redis_url, topics={"t": 1}) as kafka:
        kafka.run(lambda cluster: cluster.clock.jump(1_000_000))
        with RawClient(kafka.bootstrap_servers) as raw:
            produce(raw, "t", batch(3))
        (end,) = kafka.end_offsets("t")
    with EmbeddedBroker(storage=redis_url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        assert produce(raw, "t", batch(1)).base_offset == end


def delete_batches(cluster: Cluster, reason: str, count: int, end: int) -> None:
    """Delete the first `count` of three batches, the last of which ends at an offset."""
    log = log_in(cluster)
    if reason == "DeleteRecords":
        partition = cluster.topics.partition("t", 0)
        assert partition is not None
        cluster.topics.store.delete_records(partition, end)
        return
    limit = {"retention.ms": 50, "retention.bytes": log.size * (3 - count) // 3}[reason]
    cluster.topics.configure(topic_in(cluster), {reason: str(limit)})
    log.storage.expire(100 * count + 60)


class TestDeletion:
    @pytest.fixture
    def three_batches(self, redis_kafka: EmbeddedBroker, redis_raw: RawClient) -> list[int]:
        """Produce batches of two records with timestamps 100, 200, 300; return base offsets.

        There are gaps between the batches.
        """
        bases = []
        for timestamp in (100, 200, 300):
            redis_kafka.jump_clock(10)
            bases.append(produce(redis_raw, "t", batch(2, timestamp=timestamp)).base_offset)
        return bases

    def on_log(self, kafka: EmbeddedBroker, action: Callable[[UnifiedLog], T]) -> T:
        return kafka.run(lambda cluster: action(log_in(cluster)))

    def test_deleted_records_leave_the_stream(
        self,
        redis_kafka: EmbeddedBroker,
        redis_raw: RawClient,
        three_batches: list[int],
        stream: Stream,
    ) -> None:
        self.on_log(redis_kafka, lambda log: log.delete_records(three_batches[1] + 1))
        assert len(stream()) == 4
        assert self.on_log(redis_kafka, lambda log: log.start_offset) == three_batches[1] + 1
        assert fetch(redis_raw, three_batches[0]).error_code is ErrorCode.offset_out_of_range
        self.on_log(redis_kafka, lambda log: log.delete_records(three_batches[2] + 2))
        assert stream() == []
        assert list_offset(redis_raw, 250) == -1
        assert produce(redis_raw, "t", batch(1)).base_offset >= three_batches[2] + 2

    @pytest.mark.parametrize("count", [1, 2, 3])
    @pytest.mark.parametrize("reason", ["DeleteRecords", "retention.ms", "retention.bytes"])
    def test_log_start_persists_across_restart(
        self,
        redis_kafka: EmbeddedBroker,
        redis_raw: RawClient,
        three_batches: list[int],
        redis_url: str,
        reason: str,
        count: int,
    ) -> None:
        """A consumer that has committed the end of the deleted batches reads all later ones."""
        committed = three_batches[count - 1] + 2
        redis_kafka.run(lambda cluster: delete_batches(cluster, reason, count, committed))
        later = produce(redis_raw, "t", batch(2, timestamp=400)).base_offset
        expected = [base + n for base in [*three_batches[count:], later] for n in range(2)]
        before = self.on_log(redis_kafka, lambda log: (log.start_offset, log.end_offset, log.size))
        assert before[0] == committed
        redis_kafka.stop()
        for _ in range(2):
            with (
                EmbeddedBroker(storage=redis_url) as kafka,
                RawClient(kafka.bootstrap_servers) as raw,
            ):
                after = self.on_log(kafka, lambda log: (log.start_offset, log.end_offset, log.size))
                assert after == before
                fetched = batches_of(fetch(raw, committed).records)
                assert [record.offset for records in fetched for record in records] == expected

    def test_restart_completes_a_deletion(
        self,
        redis_kafka: EmbeddedBroker,
        redis_server: RedisServer,
        unique_topic: str,
        three_batches: list[int],
        redis_url: str,
        stream: Stream,
    ) -> None:
        """The broker was killed after it had stored the new start, before it deleted entries."""
        start = three_batches[1] + 2
        redis_kafka.stop()
        redis_server.client.xgroup_setid(
            f"{unique_topic}::batches:t:0", "kafkaprod::start", IDS.text(start).decode()
        )
        with EmbeddedBroker(storage=redis_url) as kafka:
            assert self.on_log(kafka, lambda log: log.start_offset) == start
            assert [record.offset for record in kafka.records("t")] == [
                three_batches[2],
                three_batches[2] + 1,
            ]
        assert len(stream()) == 2

    @pytest.mark.parametrize("is_trimmed", [False, True])
    def test_streams_without_a_stored_start(
        self,
        redis_kafka: EmbeddedBroker,
        redis_server: RedisServer,
        unique_topic: str,
        three_batches: list[int],
        redis_url: str,
        is_trimmed: bool,
    ) -> None:
        if is_trimmed:
            self.on_log(redis_kafka, lambda log: log.storage.delete_before(three_batches[1]))
        redis_kafka.stop()
        key = f"{unique_topic}::batches:t:0"
        redis_server.client.xgroup_destroy(key, "kafkaprod::start")
        expected = three_batches[1] if is_trimmed else 0
        for _ in range(2):
            with EmbeddedBroker(storage=redis_url) as kafka:
                assert self.on_log(kafka, lambda log: log.start_offset) == expected

    @pytest.mark.parametrize("kept", [0, 1, 2])
    def test_log_start_stays_0_if_only_the_tail_is_deleted(
        self, redis_kafka: EmbeddedBroker, three_batches: list[int], redis_url: str, kept: int
    ) -> None:
        self.on_log(redis_kafka, lambda log: log.truncate(three_batches[kept]))
        end = self.on_log(redis_kafka, lambda log: log.end_offset)
        redis_kafka.stop()
        with EmbeddedBroker(storage=redis_url) as kafka:
            assert self.on_log(kafka, lambda log: (log.start_offset, log.end_offset)) == (0, end)

    def test_log_start_persists_if_the_tail_is_deleted_too(
        self, redis_kafka: EmbeddedBroker, three_batches: list[int], redis_url: str
    ) -> None:
        self.on_log(redis_kafka, lambda log: log.storage.delete_before(three_batches[1]))
        self.on_log(redis_kafka, lambda log: log.truncate(three_batches[2]))
        redis_kafka.stop()
        with EmbeddedBroker(storage=redis_url) as kafka:
            assert self.on_log(kafka, lambda log: log.start_offset) == three_batches[0] + 2

    def test_deleted_timestamp_does_not_disable_retention(
        self, redis_kafka: EmbeddedBroker, redis_raw: RawClient, stream: Stream
    ) -> None:
        """The first batch is from the future. Its timestamp does not matter after its deletion."""
        configs = {"retention.ms": "50", "message.timestamp.after.max.ms": str(2**63 - 1)}
        redis_kafka.run(lambda cluster: cluster.topics.configure(topic_in(cluster), configs))
        bases = [
            produce(redis_raw, "t", batch(2, timestamp=t)).base_offset
            for t in (2**62, 200, 100, -1, 300)
        ]
        self.on_log(redis_kafka, lambda log: log.storage.expire(340))
        assert len(stream()) == 10
        self.on_log(redis_kafka, lambda log: log.delete_records(bases[1]))
        assert list_offset(redis_raw, -3) == bases[4]
        assert list_offset(redis_raw, 150) == bases[1]
        self.on_log(redis_kafka, lambda log: log.storage.expire(340))
        assert [int(fields[b"timestamp"]) for _, fields in stream()] == [300, 300]

    def test_truncated_last_batch_leaves_the_stream(
        self,
        redis_kafka: EmbeddedBroker,
        redis_raw: RawClient,
        three_batches: list[int],
        stream: Stream,
    ) -> None:
        self.on_log(redis_kafka, lambda log: log.truncate(three_batches[1] + 1))
        assert len(stream()) == 2
        assert self.on_log(redis_kafka, lambda log: log.end_offset) == three_batches[0] + 2
        base = produce(redis_raw, "t", batch(2)).base_offset
        assert base >= three_batches[2] + 2
        records = [record for some in batches_of(fetch(redis_raw, 0).records) for record in some]
        assert [record.offset for record in records] == [
            three_batches[0],
            three_batches[0] + 1,
            base,
            base + 1,
        ]
