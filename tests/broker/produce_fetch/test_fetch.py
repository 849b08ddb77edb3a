"""Raw Fetch and ListOffsets requests to a real Kafka and to the embedded broker."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.support.kafka_cluster import AnyKafka
from tools.support.raw_client import (
    RawClient,
    batch,
    batches,
    create,
    fetch,
    fetch_values,
    list_offset,
    offsets,
    produce,
)


def test_waits_for_new_records(any_kafka: AnyKafka, any_raw: RawClient, topic: str) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool, RawClient(any_kafka.bootstrap_servers) as other:
        fetching = pool.submit(fetch, any_raw, topic, 0, max_wait=timedelta(seconds=30))
        with pytest.raises(TimeoutError):
            fetching.result(0.3)
        produce(other, topic, batch(1))
        assert offsets(fetching.result().records) == [0]
    assert time.monotonic() - started < 29


def test_waits_for_min_bytes(any_raw: RawClient, topic: str) -> None:
    produce(any_raw, topic, batch(1))
    started = time.monotonic()
    got = fetch(any_raw, topic, 0, max_wait=timedelta(milliseconds=300), min_bytes=100_000)
    assert time.monotonic() - started > 0.25
    assert offsets(got.records) == [0]


def test_timestamp_inside_a_compressed_batch(any_raw: RawClient, topic: str) -> None:
    produce(any_raw, topic, batch(4, timestamp=1_000, codec=1))
    produce(any_raw, topic, batch(4, timestamp=2_000, codec=3))
    assert list_offset(any_raw, topic, 1_500) == (4, 2_000)


def test_records_of_several_megabytes_are_returned_unchanged(
    any_raw: RawClient, unique_topic: str
) -> None:
    create(any_raw, unique_topic, max_message_bytes="20000000")
    sent = [batch(1, value=bytes([i]) * 6_000_000) for i in range(2)]
    for large in sent:
        produce(any_raw, unique_topic, large)
    got = fetch(any_raw, unique_topic, 0, max_bytes=1 << 25, partition_max_bytes=1 << 25)
    assert [stored[61:] for stored in batches(got.records)] == [
        bytes(written[61:]) for written in sent
    ]


def test_size_of_a_response(any_raw: RawClient, unique_topic: str) -> None:
    """Brokers return at most fetch.max.bytes, whatever the client allows."""
    create(any_raw, unique_topic, max_message_bytes=str(1 << 24))
    for _ in range(6):
        produce(any_raw, unique_topic, batch(1, value=bytes(15 << 20)))
    got = fetch(any_raw, unique_topic, 0, max_bytes=2**31 - 1, partition_max_bytes=2**31 - 1)
    assert offsets(got.records) == [0, 1, 2]


class TestNodes:
    def test_only_the_leader_serves_fetches(self) -> None:
        with EmbeddedBroker(topics={"t": 3}, nodes=3) as kafka:
            addresses = kafka.bootstrap_servers.split(",")
            assert len(set(addresses)) == 3
            with RawClient(addresses[1]) as second:
                metadata = second.call(ApiKey.METADATA, 12, topics=[{"name": "t"}])
                leaders = {p.partition_index: p.leader_id for p in metadata.topics[0].partitions}
                assert leaders == {0: 1, 1: 2, 2: 3}
                got = second.call(ApiKey.FETCH, 17, **by_id(metadata.topics[0].topic_id))
        partition = got.responses[0].partitions[0]
        assert partition.error_code is ErrorCode.not_leader_or_follower
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 0)
        assert [f"{node.host}:{node.port}" for node in got.node_endpoints] == addresses[:1]


def by_id(topic_id: UUID) -> dict[str, Any]:
    return fetch_values(None, 0, topic_id=topic_id)
