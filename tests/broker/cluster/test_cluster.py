"""Multiple nodes in one process: replication, high watermark, elections, failing nodes."""

import errno
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.config.topic_config import TopicConfig
from spark_kafka_sink.broker.handlers.produce import DelayedProduce, Unconfirmed
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError, UnknownTopicError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.list_offsets import EARLIEST, LATEST
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.waiting import wait_until
from tools.support.raw_client import (
    RawClient,
    batch,
    create,
    fetch,
    new_producer_id,
    offsets,
    produce,
    produce_values,
)


def cluster(**options: Any) -> EmbeddedBroker:
    defaults: dict[str, Any] = {"nodes": 3, "topics": {"t": 3}, "replication_factor": 3}
    return EmbeddedBroker(**(defaults | options))


def client(kafka: EmbeddedBroker, node: int = 1) -> RawClient:
    return RawClient(kafka.bootstrap_servers.split(",")[node - 1])


def produce_for(raw: RawClient, timeout_ms: int, records: bytes | bytearray, acks: int = -1) -> Any:
    values = produce_values("t", records, acks) | {"timeout": timedelta(milliseconds=timeout_ms)}
    return raw.call(ApiKey.PRODUCE, 9, **values).responses[0].partition_responses[0]


def fail(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def delete_records(raw: RawClient, offset: int) -> int:
    topic = {"name": "t", "partitions": [{"partition_index": 0, "offset": offset}]}
    answer = raw.call(ApiKey.DELETE_RECORDS, 2, topics=[topic], timeout=timedelta(seconds=10))
    low_watermark: int = answer.topics[0].partitions[0].low_watermark
    return low_watermark


def elect_unclean(raw: RawClient) -> None:
    topic = {"topic": "t", "partitions": [0]}
    values = {"topic_partitions": [topic], "timeout": timedelta(seconds=10)}
    answer = raw.call(ApiKey.ELECT_LEADERS, 2, election_type=1, **values)
    assert answer.replica_election_results[0].partition_result[0].error_code is ErrorCode.none


def test_acks_all_waits_for_followers() -> None:
    with cluster(follower_lag_ms=3_000) as kafka, client(kafka) as raw:
        started = time.monotonic()
        assert produce_for(raw, 10_000, batch(2), acks=1).error_code is ErrorCode.none
        assert time.monotonic() - started < 2.9
        got = fetch(raw, "t", 0)
        assert (got.error_code, got.high_watermark, got.records) == (0, 0, b"")
        started = time.monotonic()
        assert produce_for(raw, 60_000, batch(1)).base_offset == 2
        assert time.monotonic() - started > 2.9
        assert offsets(fetch(raw, "t", 0).records) == [0, 1, 2]


def test_fetch_waits_for_high_watermark() -> None:
    with cluster(follower_lag_ms=200) as kafka, client(kafka) as raw:
        produce_for(raw, 0, batch(1), acks=1)
        started = time.monotonic()
        got = fetch(raw, "t", 0, max_wait=timedelta(seconds=30))
        assert offsets(got.records) == [0]
        assert time.monotonic() - started < 29


def test_acks_all_times_out() -> None:
    with cluster(follower_lag_ms=5_000) as kafka, client(kafka) as raw:
        started = time.monotonic()
        answer = produce_for(raw, 200, batch(1))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.request_timed_out, 0)
        assert 0.15 < time.monotonic() - started < 4.9
        assert kafka.end_offsets("t")[0] == 1


def test_slow_follower_leaves_and_rejoins_isr() -> None:
    options = {"follower_lag_ms": 0, "replica_lag_time_max_ms": 200}
    with cluster(**options) as kafka, client(kafka) as raw:
        kafka.set_follower_lag(60_000, node=3)
        answer = produce_for(raw, 5_000, batch(1))
        assert answer.error_code is ErrorCode.none
        assert kafka.partition_state("t", 0).in_sync == (1, 2)
        kafka.set_follower_lag(0)
        wait_until(lambda: kafka.partition_state("t", 0).in_sync == (1, 2, 3))


def test_not_enough_replicas() -> None:
    configs = {"t": {"min.insync.replicas": "2"}}
    with cluster(topic_configs=configs) as kafka, client(kafka) as raw:
        kafka.stop_node(2)
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.none
        kafka.stop_node(3)
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.not_enough_replicas
        assert produce(raw, "t", batch(1), acks=1).base_offset == 1
        assert kafka.partition_state("t", 0).high_watermark == 1
        kafka.start_node(2)
        wait_until(lambda: kafka.partition_state("t", 0).high_watermark == 2)


def test_not_enough_replicas_after_append() -> None:
    partition = Partition(topic="t", index=0, leader=1, replicas=[1, 2], in_sync=[1])
    partition.log.storage.config = TopicConfig(overrides={"min.insync.replicas": "2"}).log
    delayed = DelayedProduce([Unconfirmed(partition, required_offset=1, leader_epoch=0)])
    assert not delayed.try_complete()
    partition.replica_states.high_watermark = 1
    assert delayed.try_complete()
    (error,) = delayed.errors().values()
    assert error is ErrorCode.not_enough_replicas_after_append


def test_waiting_producer_gets_not_leader() -> None:
    with cluster(follower_lag_ms=60_000) as kafka, client(kafka) as raw:
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1)))
        wait_until(lambda: kafka.end_offsets("t")[0] == 1)
        kafka.move_leader("t", 0, 2)
        answer = raw.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
        assert answer.error_code is ErrorCode.not_leader_or_follower


def test_reelected_leader_does_not_acknowledge_truncated_records() -> None:
    def elect_twice(state: Cluster) -> None:
        partition = state.topics.partition("t", 0)
        assert partition is not None
        state.elections.elect_preferred()
        state.elections.move(partition, 2)

    with cluster() as kafka, client(kafka, 2) as raw, client(kafka, 2) as other:
        kafka.move_leader("t", 0, 2)
        kafka.set_follower_lag(60_000)
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1, value=b"dropped")))
        wait_until(lambda: kafka.end_offsets("t")[0] == 1)
        kafka.run(elect_twice)
        kafka.set_follower_lag(0)
        assert produce(other, "t", batch(2)).base_offset == 0
        answer = raw.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
        assert answer.error_code is ErrorCode.not_leader_or_follower


def epoch_of(raw: RawClient, timestamp: int) -> int:
    """Return the leader epoch that ListOffsets returns for a timestamp."""
    topic = {"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
    response = raw.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[topic])
    result: int = response.topics[0].partitions[0].leader_epoch
    return result


class TestStoppedNodes:
    def test_failover_and_preferred_leader_election(self) -> None:
        with cluster() as kafka, client(kafka) as first, client(kafka, 2) as second:
            produce(first, "t", batch(2, timestamp=1))
            kafka.stop_node(1)
            assert first.closed()
            state = kafka.partition_state("t", 0)
            assert (state.leader, state.leader_epoch, state.in_sync) == (2, 1, (2, 3))
            assert produce(second, "t", batch(1, timestamp=2)).base_offset == 2
            metadata = second.call(ApiKey.METADATA, 9, topics=[{"name": "t"}])
            assert [b.node_id for b in metadata.brokers] == [2, 3]
            assert metadata.topics[0].partitions[0].offline_replicas == (1,)
            kafka.start_node(1)
            wait_until(lambda: kafka.partition_state("t", 0).in_sync == (1, 2, 3))
            assert kafka.partition_state("t", 0).leader == 2
            kafka.elect_preferred_leaders()
            assert kafka.partition_state("t", 0).leader == 1
            with client(kafka) as again:
                assert offsets(fetch(again, "t", 0).records) == [0, 1, 2]
                assert [epoch_of(again, time) for time in (EARLIEST, 2, LATEST)] == [0, 1, 2]

    def test_leader_epochs_are_unique_across_restarts(self, tmp_path: Path) -> None:
        with cluster(data_dir=str(tmp_path)) as kafka:
            kafka.stop_node(1)
            kafka.move_leader("t", 0, 3)
            before = kafka.partition_state("t", 0).leader_epoch
        with cluster(data_dir=str(tmp_path)) as kafka:
            assert kafka.partition_state("t", 0).leader_epoch == before + 1

    def test_failed_write_of_an_index_loses_no_records(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        configs = {"t": {"index.interval.bytes": "100"}}
        with cluster(data_dir=str(tmp_path), topic_configs=configs) as kafka:
            with client(kafka) as first:
                for _ in range(6):
                    produce(first, "t", batch(1, value=bytes(200)))
                kafka.set_follower_lag(60_000)
                produce(first, "t", batch(1), acks=1)
            with monkeypatch.context() as patch:
                patch.setattr("os.pwrite", fail)
                kafka.stop_node(1)
            wait_until(lambda: kafka.partition_state("t", 0).leader == 2)
            with client(kafka, 2) as second:
                assert produce(second, "t", batch(1), acks=1).base_offset == 6
        with EmbeddedBroker(data_dir=str(tmp_path)) as kafka:
            assert [record.offset for record in kafka.records("t")] == list(range(7))

    def test_producers_of_deleted_records_are_known_after_a_truncation(self) -> None:
        with cluster() as kafka, client(kafka) as first, client(kafka, 2) as second:
            whole, torn, partial = (new_producer_id(first) for _ in range(3))
            for producer in (whole, torn, partial):
                produce(first, "t", batch(2, producer=(producer, 0, 0)))
            assert delete_records(first, 6) == 6
            produce(first, "t", batch(2, producer=(partial, 0, 2)))
            kafka.set_follower_lag(60_000)
            produce(first, "t", batch(2, producer=(torn, 0, 2)), acks=1)
            produce(first, "t", batch(2, producer=(partial, 0, 4)), acks=1)
            kafka.stop_node(1)
            kafka.set_follower_lag(0)
            for offset, producer in ((0, whole), (2, torn), (4, partial)):
                repeated = produce(second, "t", batch(2, producer=(producer, 0, 0)))
                assert (repeated.error_code, repeated.base_offset) == (ErrorCode.none, offset)
                gap = produce(second, "t", batch(2, producer=(producer, 0, 9)))
                assert gap.error_code is ErrorCode.out_of_order_sequence_number
            assert produce(second, "t", batch(2, producer=(torn, 0, 2))).base_offset == 8

    def test_failed_truncation_is_retried(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with cluster(data_dir=str(tmp_path)) as kafka, client(kafka) as first:
            producer = new_producer_id(first)
            produce(first, "t", batch(2, producer=(producer, 0, 0)))
            kafka.set_follower_lag(60_000)
            produce(first, "t", batch(2, producer=(producer, 0, 2)), acks=1)
            with monkeypatch.context() as patch:
                patch.setattr("os.pread", fail)
                kafka.stop_node(1)
                assert kafka.partition_state("t", 0).leader == -1
            kafka.stop_node(3)
            kafka.start_node(3)
            with client(kafka, 2) as second:
                duplicate = produce(second, "t", batch(2, producer=(producer, 0, 0)), acks=1)
            assert (duplicate.error_code, duplicate.base_offset) == (ErrorCode.none, 0)
            assert kafka.end_offsets("t")[0] == 2

    @pytest.mark.parametrize("is_on_disk", [False, True])
    def test_unclean_leader_starts_at_log_start(self, tmp_path: Path, *, is_on_disk: bool) -> None:
        where: dict[str, Any] = {"data_dir": str(tmp_path)} if is_on_disk else {}
        with cluster(nodes=2, replication_factor=2, replica_lag_time_max_ms=50, **where) as kafka:
            with client(kafka) as first:
                produce(first, "t", batch(5))
                kafka.set_follower_lag(60_000)
                produce(first, "t", batch(5), acks=1)
                wait_until(lambda: kafka.partition_state("t", 0).in_sync == (1,))
                assert delete_records(first, 8) == 8
            kafka.stop_node(1)
            with client(kafka, 2) as second:
                elect_unclean(second)
                assert produce(second, "t", batch(3)).base_offset == 8
                assert offsets(fetch(second, "t", 8).records) == [8, 9, 10]
        if is_on_disk:
            with EmbeddedBroker(**where) as kafka:
                assert len(kafka.records("t")) == 3

    def test_unreplicated_partition_is_offline_with_its_node(self) -> None:
        with cluster(replication_factor=1) as kafka, client(kafka, 2) as second:
            with client(kafka) as first:
                produce(first, "t", batch(2))
            kafka.stop_node(1)
            topic = second.call(ApiKey.METADATA, 9, topics=[{"name": "t"}]).topics[0]
            lost = next(p for p in topic.partitions if p.partition_index == 0)
            assert (lost.leader_id, lost.error_code) == (-1, ErrorCode.leader_not_available)
            assert produce(second, "t", batch(1)).error_code is ErrorCode.not_leader_or_follower
            kafka.start_node(1)
            assert kafka.partition_state("t", 0).leader == 1
            with client(kafka) as first:
                assert offsets(fetch(first, "t", 0).records) == [0, 1]

    def test_waiting_fetch_gets_not_leader(self) -> None:
        with cluster() as kafka, client(kafka) as raw:
            timer = threading.Timer(0.2, lambda: kafka.move_leader("t", 0, 3))
            timer.start()
            got = fetch(raw, "t", 0, max_wait=timedelta(seconds=20))
            timer.join()
            assert got.error_code is ErrorCode.not_leader_or_follower


def test_hanging_node_is_fenced_and_returns() -> None:
    with cluster(session_timeout_ms=200) as kafka, client(kafka) as first:
        kafka.pause_node(1)
        first.send(ApiKey.METADATA, 9, topics=[{"name": "t"}])
        wait_until(lambda: kafka.partition_state("t", 0).leader == 2)
        with client(kafka, 2) as second:
            assert produce(second, "t", batch(1)).error_code is ErrorCode.none
        kafka.start_node(1)
        assert len(first.receive(ApiKey.METADATA, 9).brokers) == 3


def test_moved_leader_serves_the_partition() -> None:
    with cluster(replication_factor=1) as kafka, client(kafka, 3) as third:
        kafka.move_leader("t", 0, 3)
        state = kafka.partition_state("t", 0)
        assert (state.leader, state.leader_epoch, state.replicas) == (3, 1, (3,))
        assert produce(third, "t", batch(1)).error_code is ErrorCode.none
        assert fetch(third, "t", 0, epoch=0).error_code is ErrorCode.fenced_leader_epoch
        with pytest.raises(KafkaProdError, match="cannot lead"):
            kafka.move_leader("t", 0, 9)
        with pytest.raises(UnknownTopicError):
            kafka.move_leader("t", 99, 1)


def test_groups_move_to_a_running_node() -> None:
    with cluster() as kafka:
        owner = kafka.run(lambda c: c.coordinator("g").id)
        kafka.stop_node(owner)
        assert kafka.run(lambda c: c.coordinator("g").id) != owner


def test_topics_created_by_clients_are_replicated() -> None:
    with cluster(topics={}, replication_factor=1) as kafka, client(kafka) as raw:
        new = {"name": "made", "num_partitions": 3, "replication_factor": 3}
        created = raw.call(ApiKey.CREATE_TOPICS, 5, topics=[new], timeout=timedelta(seconds=5))
        assert created.topics[0].error_code is ErrorCode.none
        assert kafka.partition_state("made", 1).replicas == (2, 3, 1)
        create(raw, "single")
        assert kafka.partition_state("single", 0).replicas == (1,)


@pytest.mark.parametrize(
    "options",
    [
        {"replication_factor": 4},
        {"replication_factors": {"t": 0}},
        {"follower_lag_ms": -1},
        {"faults": ["produce:nothing"]},
    ],
)
def test_invalid_options_are_rejected(
    options: dict[str, int] | dict[str, dict[str, int]] | dict[str, list[str]],
) -> None:
    with pytest.raises(ConfigError):
        cluster(**options)
