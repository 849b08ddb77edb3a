"""Fault injection tested with a raw client: matching, counting and every effect."""

import errno
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.faults.armed_faults import Faults
from spark_kafka_sink.broker.faults.fault import (
    Fault,
    FaultEffect,
    RequestPartition,
    RequestProperties,
)
from spark_kafka_sink.broker.faults.fault_text import parse_fault
from spark_kafka_sink.broker.handlers.served_apis import HANDLERS
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.support.inspection import next_line
from tests.support.python import run_python
from tests.support.waiting import wait_until
from tools.support.raw_client import (
    RawClient,
    batch,
    fetch,
    new_producer_id,
    offsets,
    produce,
    produce_values,
)

NOT_LEADER = ErrorCode.not_leader_or_follower
PARTITION = {"partition_index": 0, "partition": 0}
TOPIC = {"name": "t", "topic": "t", "partitions": [PARTITION], "partition_indexes": [0]}
GROUP = {"group_id": "g"}


def produce_to(*partitions: int) -> RequestProperties:
    return RequestProperties(
        api=ApiKey.PRODUCE,
        node=1,
        client_id="c",
        partitions=tuple(RequestPartition("t", p) for p in partitions),
    )


class TestParsing:
    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            (
                "produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5",
                Fault(api=ApiKey.PRODUCE, partition=3, effect=FaultEffect.ERROR, value=6, next=5),
            ),
            (
                "*:node=2:delay=200:probability=0.1:seed=7",
                Fault(node=2, effect=FaultEffect.DELAY, value=200, probability=0.1, seed=7),
            ),
            (
                "init-producer-id:after=1:client=x:lose-response",
                Fault(
                    api=ApiKey.INIT_PRODUCER_ID,
                    after=1,
                    client="x",
                    effect=FaultEffect.LOSE_RESPONSE,
                ),
            ),
            (
                "fetch:topic=a.b:cut=5",
                Fault(api=ApiKey.FETCH, topic="a.b", effect=FaultEffect.CUT, value=5),
            ),
            ("produce:move", Fault(api=ApiKey.PRODUCE, effect=FaultEffect.MOVE)),
            ("*:clock=-5000:next=1", Fault(effect=FaultEffect.CLOCK, value=-5000, next=1)),
            ("*:error=-1", Fault(effect=FaultEffect.ERROR, value=-1)),
        ],
    )
    def test_valid_faults_are_parsed(self, text: str, fault: Fault) -> None:
        assert parse_fault(text) == fault

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("produce", "it specifies no effect; "),
            ("prodice:close", "prodice is neither an API"),
            ("produce:error=NOPE", "NOPE is not a Kafka error"),
            ("produce:partition=x:close", "partition=x is not a number"),
            ("produce:delay", "delay requires a number"),
            ("produce:delay=-5", "delay=-5"),
            ("produce:close:often=5", "often is not one of"),
            ("produce:close:probability=0", "probability of a fault is 0"),
        ],
    )
    def test_invalid_faults_are_rejected_with_a_reason(self, text: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            parse_fault(text)


class TestMatching:
    def test_by_node_topic_and_partition(self) -> None:
        fault = parse_fault("produce:topic=t:partition=1:close")
        assert fault.matches(produce_to(0, 1))
        assert not fault.matches(produce_to(0, 2))
        other = RequestProperties(
            api=ApiKey.PRODUCE, node=1, client_id="c", partitions=(RequestPartition("u", 1),)
        )
        assert not fault.matches(other)
        assert not fault.matches(RequestProperties(api=ApiKey.METADATA, node=1, client_id="c"))

    def test_next_and_after(self) -> None:
        faults = Faults()
        active = faults.add("produce:close:next=2:after=3")
        triggered = [bool(faults.triggered_by(produce_to(0))) for _ in range(10)]
        assert triggered == [False] * 3 + [True] * 2 + [False] * 5
        assert (active.hits, faults.armed, bool(faults)) == (2, [], False)

    @settings(max_examples=20, deadline=None)
    @given(st.floats(0.05, 0.95), st.integers(0, 100))
    def test_probability_depends_on_the_seed(self, probability: float, seed: int) -> None:
        spec = f"produce:close:probability={probability}:seed={seed}"
        runs = []
        for _ in range(2):
            faults = Faults()
            faults.add(spec)
            runs.append([bool(faults.triggered_by(produce_to(0))) for _ in range(300)])
        assert runs[0] == runs[1]
        assert abs(sum(runs[0]) / 300 - probability) < 0.15


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 2}, nodes=2) as broker:
        yield broker


def produce_to_both_partitions(records: bytes | bytearray, acks: int = -1) -> Any:
    values = produce_values("t", records, acks)
    values["topic_data"][0]["partition_data"].append({"index": 1, "records": records})
    return values


class TestEffects:
    def test_error_is_returned_for_the_partition(
        self, kafka: EmbeddedBroker, raw: RawClient
    ) -> None:
        kafka.move_leader("t", 1, 1)
        active = kafka.faults.add("produce:partition=1:error=NOT_LEADER_OR_FOLLOWER:next=1")
        response = raw.call(ApiKey.PRODUCE, 9, **produce_to_both_partitions(batch(2)))
        codes = {p.index: p.error_code for p in response.responses[0].partition_responses}
        assert codes == {0: ErrorCode.none, 1: NOT_LEADER}
        assert kafka.end_offsets("t") == [2, 0]
        assert active.hits == 1
        response = raw.call(ApiKey.PRODUCE, 9, **produce_to_both_partitions(batch(2)))
        assert {p.error_code for p in response.responses[0].partition_responses} == {0}

    def test_error_of_a_topic_by_id(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        described = raw.call(ApiKey.METADATA, 12, topics=[{"name": "t"}]).topics[0]
        kafka.faults.add("produce:topic=t:error=KAFKA_STORAGE_ERROR")
        values = produce_values("t", batch(1))
        values["topic_data"][0]["topic_id"] = described.topic_id
        response = raw.call(ApiKey.PRODUCE, 13, **values).responses[0]
        assert response.partition_responses[0].error_code is ErrorCode.kafka_storage_error
        assert kafka.end_offsets("t") == [0, 0]

    def test_error_with_acks_0(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        kafka.faults.add("produce:error=CORRUPT_MESSAGE")
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1), acks=0))
        assert raw.closed()

    def test_fetch_returns_the_error(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        kafka.faults.add("fetch:error=OFFSET_OUT_OF_RANGE:next=1")
        got = fetch(raw, "t", 0, max_wait=timedelta(seconds=10))
        assert (got.error_code, got.high_watermark) == (ErrorCode.offset_out_of_range, -1)

    @pytest.mark.parametrize("handler", HANDLERS.values(), ids=lambda h: h.api.name)
    def test_errors_of_every_api_version(self, kafka: EmbeddedBroker, handler: Any) -> None:
        """The response contains the error code in any field."""
        kafka.faults.add(Fault(api=handler.api, effect=FaultEffect.ERROR, value=29))
        for version in range(handler.versions.lowest, handler.versions.highest + 1):
            with RawClient(kafka.bootstrap_servers) as client:
                values = REQUESTS.get(handler.api, {})
                response = client.call(handler.api, version, **values)
                assert "topic_authorization_failed" in repr(response)

    def test_lost_request_is_not_executed(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        kafka.faults.add("produce:lose-request:next=1")
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1)))
        raw.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.socket.recv(1)
        assert kafka.end_offsets("t") == [0, 0]

    def test_lost_response_belongs_to_an_executed_request(
        self, kafka: EmbeddedBroker, raw: RawClient
    ) -> None:
        kafka.faults.add("produce:lose-response:next=1")
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1)))
        raw.send(ApiKey.METADATA, 9, topics=[])
        raw.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.socket.recv(1)
        assert kafka.end_offsets("t") == [1, 0]

    @pytest.mark.parametrize("effect", ["delay=300", "delay=200:next=1"])
    def test_delayed_response_arrives_later(
        self, kafka: EmbeddedBroker, raw: RawClient, effect: str
    ) -> None:
        kafka.faults.add(f"produce:{effect}")
        started = time.monotonic()
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.none
        assert time.monotonic() - started > 0.15

    def test_failed_acks_0_closes_the_connection_after_the_delay(
        self, kafka: EmbeddedBroker, raw: RawClient
    ) -> None:
        kafka.faults.add("produce:delay=100")
        broken = batch(1)
        broken[-1] ^= 0xFF
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", broken, acks=0))
        assert raw.closed()

    @pytest.mark.parametrize("delay", [None, "delay=200"])
    @pytest.mark.parametrize("failing", ["unknown node", "stopped node", "storage"])
    def test_failed_request_closes_only_its_connection(
        self,
        kafka: EmbeddedBroker,
        raw: RawClient,
        monkeypatch: pytest.MonkeyPatch,
        delay: str | None,
        failing: str,
    ) -> None:
        """Requests of other connections that are due at the same time are served."""
        if failing == "storage":
            fail = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
            monkeypatch.setattr(Partition, "forget_producers", fail)
        kafka.stop_node(2)
        effects = {
            "unknown node": "stop=9",
            "stopped node": "move=2",
            "storage": "forget-producers",
        }
        kafka.faults.add(f"produce:{effects[failing]}")
        if delay is not None:
            kafka.faults.add(f"*:{delay}")
        with RawClient(kafka.bootstrap_servers) as other:
            raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1)))
            other.send(ApiKey.METADATA, 9, topics=[])
            assert raw.closed()
            assert other.receive(ApiKey.METADATA, 9).brokers
        assert kafka.end_offsets("t") == [0, 0]

    @pytest.mark.parametrize(
        ("effect", "size", "end"),
        [
            *((f"cut={size}:next=1", size, 1) for size in (0, 2, 9)),
            ("close", 0, 0),
            ("stop=1", 0, 0),
        ],
    )
    def test_truncated_or_missing_frame_ends_the_connection(
        self, kafka: EmbeddedBroker, raw: RawClient, effect: str, size: int, end: int
    ) -> None:
        kafka.faults.add(f"produce:{effect}")
        raw.send(ApiKey.PRODUCE, 9, **produce_values("t", batch(1)))
        assert len(raw.read_exactly(size)) == size
        assert raw.closed()
        assert kafka.end_offsets("t") == [end, 0]

    def test_throttle_time_is_in_the_response(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        kafka.faults.add("metadata:throttle=750")
        response = raw.call(ApiKey.METADATA, 9, topics=[])
        assert response.throttle_time == timedelta(milliseconds=750)

    def test_moved_leader_rejects_requests(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        kafka.faults.add("produce:partition=0:move:next=1")
        assert produce(raw, "t", batch(1)).error_code is NOT_LEADER
        assert kafka.partition_state("t", 0).leader == 2

    def test_lost_producer_state(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        producer = new_producer_id(raw)
        records = batch(1, producer=(producer, 0, 0))
        assert produce(raw, "t", records).base_offset == 0
        assert produce(raw, "t", records).base_offset == 0
        kafka.faults.add("produce:forget-producers:next=1")
        assert produce(raw, "t", records).base_offset == 1

    def test_stopped_node_restarts(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        kafka.faults.add("metadata:stop=2:next=1")
        kafka.faults.add("metadata:after=1:start=2:next=1")
        counts = [len(raw.call(ApiKey.METADATA, 9, topics=[]).brokers) for _ in range(3)]
        assert counts == [1, 2, 2]

    def test_only_the_slow_node_delays_responses(
        self, kafka: EmbeddedBroker, raw: RawClient
    ) -> None:
        delay = kafka.faults.add("*:node=2:delay=600000")
        with RawClient(kafka.bootstrap_servers.split(",")[1]) as second:
            second.send(ApiKey.METADATA, 9, topics=[])
            wait_until(lambda: delay.hits)
            raw.call(ApiKey.METADATA, 9, topics=[])
            kafka.run(lambda cluster: cluster.clock.advance(60))
            raw.call(ApiKey.METADATA, 9, topics=[])
            assert not select.select([second.socket], [], [], 0)[0]
            kafka.run(lambda cluster: cluster.clock.advance(600))
            assert second.receive(ApiKey.METADATA, 9).brokers

    def test_clock_jump_changes_the_brokers_time(
        self, kafka: EmbeddedBroker, raw: RawClient
    ) -> None:
        kafka.faults.add("produce:clock=-86400000:next=1")
        response = produce(raw, "t", batch(1))
        assert response.error_code is ErrorCode.invalid_timestamp

    def test_lagging_followers_delay_the_high_watermark(self) -> None:
        options: dict[str, Any] = {"topics": {"t": 1}, "nodes": 2, "replication_factor": 2}
        with EmbeddedBroker(**options) as kafka, RawClient(kafka.bootstrap_servers) as raw:
            kafka.faults.add("produce:lag=60000:next=1")
            assert produce(raw, "t", batch(1), acks=1).error_code is ErrorCode.none
            assert fetch(raw, "t", 0).high_watermark == 0

    def test_faults_can_be_removed(self, kafka: EmbeddedBroker, raw: RawClient) -> None:
        active = kafka.faults.add("produce:error=UNKNOWN_SERVER_ERROR")
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.unknown_server_error
        kafka.faults.remove(active)
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.none
        kafka.faults.add("produce:close")
        kafka.faults.clear()
        assert offsets(fetch(raw, "t", 0).records) == [0]


def by_topic(**item: Any) -> dict[str, Any]:
    return {"topics": [item]}


REQUESTS = {
    ApiKey.PRODUCE: produce_values("t", bytes(batch(1))),
    ApiKey.METADATA: {"topics": [{"name": "t"}]},
    ApiKey.CREATE_TOPICS: by_topic(name="made", num_partitions=1, replication_factor=1),
    ApiKey.DELETE_TOPICS: {"topics": [{"name": "t"}], "topic_names": ["t"]},
    ApiKey.CREATE_PARTITIONS: by_topic(name="t", count=5),
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
    ApiKey.OFFSET_FETCH: {"group_id": "g", "groups": [GROUP]} | by_topic(**TOPIC),
    ApiKey.DESCRIBE_LOG_DIRS: by_topic(topic="t", partitions=[0]),
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g"]},
    ApiKey.DELETE_GROUPS: {"groups_names": ["g"]},
    ApiKey.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.ALTER_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.ELECT_LEADERS: {"topic_partitions": [{"topic": "t", "partitions": [0]}]},
    ApiKey.DESCRIBE_TRANSACTIONS: {"transactional_ids": ["x"]},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {
        "topics": [{"name": "t"}],
        "response_partition_limit": 10,
        "cursor": None,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {"v3_and_below_topics": [{"name": "t", "partitions": [0]}]},
    ApiKey.WRITE_TXN_MARKERS: {"markers": [{"topics": [{"name": "t", "partition_indexes": [0]}]}]},
    ApiKey.API_VERSIONS: {"client_software_name": "raw", "client_software_version": "1"},
} | {
    api: by_topic(**TOPIC)
    for api in (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_PRODUCERS,
    )
}


def test_faults_from_the_command_line() -> None:
    command = [sys.executable, "-m", "spark_kafka_sink", "broker", "--port", "0"]
    command += [
        "--nodes",
        "3",
        "--topic",
        "a:3:2",
        "--fault",
        "produce:error=NOT_LEADER_OR_FOLLOWER",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = next_line(process).split()[-1]
            with RawClient(address) as client:
                topic = client.call(ApiKey.METADATA, 9, topics=[{"name": "a"}]).topics[0]
                assert {len(p.replica_nodes) for p in topic.partitions} == {2}
                assert produce(client, "a", batch(1)).error_code is NOT_LEADER
        finally:
            process.kill()


def test_invalid_fault_on_the_command_line() -> None:
    done = run_python("-m", "spark_kafka_sink", "broker", "--fault", "produce:x")
    assert done.returncode == 1
    assert "x is not one of" in done.stderr
