"""Admin requests to a real Kafka and to the embedded broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.topic_config import TOPIC_NAMES
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.waiting import wait_until_equal
from tools.support.raw_client import TIMEOUT, RawClient, batch, create, produce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink import EmbeddedBroker
    from tools.support.kafka_cluster import KafkaCluster

TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)
NO_ERROR = ErrorCode.none


def partition_count(raw: RawClient, topic: str) -> int:
    return len(raw.call(ApiKey.METADATA, 8, topics=[{"name": topic}]).topics[0].partitions)


def grow(raw: RawClient, topic: str, count: int, version: int = 3, **values: Any) -> ErrorCode:
    item = {"name": topic, "count": count, "assignments": None} | values
    response = raw.call(ApiKey.CREATE_PARTITIONS, version, topics=[item], timeout=TIMEOUT)
    result: ErrorCode = response.results[0].error_code
    return result


@pytest.mark.parametrize("version", range(4))
def test_create_partitions(any_raw: RawClient, topic: str, version: int) -> None:
    assert grow(any_raw, topic, 3, version) is NO_ERROR
    wait_until_equal(lambda: partition_count(any_raw, topic), 3)
    assert grow(any_raw, topic, 3, version) is ErrorCode.invalid_partitions
    assert grow(any_raw, topic, 2, version) is ErrorCode.invalid_partitions
    few = [{"broker_ids": [1]}]
    error = grow(any_raw, topic, 5, version, assignments=few)
    assert error is ErrorCode.invalid_replica_assignment
    assert grow(any_raw, topic + "-not", 5, version) is ErrorCode.unknown_topic_or_partition


def delete(
    raw: RawClient, topic: str, offset: int, version: int = 2, partition: int = 0
) -> tuple[ErrorCode, int]:
    item = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    response = raw.call(ApiKey.DELETE_RECORDS, version, topics=[item], timeout=TIMEOUT)
    found = response.topics[0].partitions[0]
    return found.error_code, found.low_watermark


def earliest(raw: RawClient, topic: str) -> int:
    item = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}
    response = raw.call(ApiKey.LIST_OFFSETS, 2, replica_id=-1, topics=[item])
    result: int = response.topics[0].partitions[0].offset
    return result


def at_time(raw: RawClient, topic: str, timestamp: int) -> int:
    item = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
    response = raw.call(ApiKey.LIST_OFFSETS, 2, replica_id=-1, topics=[item])
    result: int = response.topics[0].partitions[0].offset
    return result


def test_deleted_records_are_not_listed_by_timestamp(any_raw: RawClient, topic: str) -> None:
    """Otherwise a consumer would use a deleted offset and, by default, be reset to the end."""
    for timestamp in (1_000, 9_000, 2_000, 3_000):
        produce(any_raw, topic, batch(5, timestamp=timestamp))
    assert delete(any_raw, topic, 7) == (NO_ERROR, 7)
    found = [at_time(any_raw, topic, time) for time in (0, 1_000, 9_000)]
    assert found == [7, 7, 7]
    assert delete(any_raw, topic, 12) == (NO_ERROR, 12)
    found = [at_time(any_raw, topic, time) for time in (0, 2_000, 2_001, 3_000, 3_001)]
    assert found == [12, 12, 15, 15, -1]
    assert delete(any_raw, topic, 20) == (NO_ERROR, 20)
    assert at_time(any_raw, topic, 0) == -1


@pytest.mark.parametrize("version", range(3))
def test_delete_records(any_raw: RawClient, topic: str, version: int) -> None:
    for _ in range(3):
        produce(any_raw, topic, batch(5))
    assert delete(any_raw, topic, 7, version) == (NO_ERROR, 7)
    assert earliest(any_raw, topic) == 7
    assert delete(any_raw, topic, 3, version) == (NO_ERROR, 7)
    assert delete(any_raw, topic, 16, version) == (ErrorCode.offset_out_of_range, -1)
    assert delete(any_raw, topic, -5, version) == (ErrorCode.offset_out_of_range, -1)
    missing = delete(any_raw, topic, 1, version, partition=9)
    assert missing == (ErrorCode.unknown_topic_or_partition, -1)
    response = produce(any_raw, topic, batch(1))
    assert (response.base_offset, response.log_start_offset) == (15, 7)
    assert delete(any_raw, topic, -1, version) == (NO_ERROR, 16)
    assert earliest(any_raw, topic) == 16


def test_records_of_compacted_topics_cannot_be_deleted(
    any_raw: RawClient, unique_topic: str
) -> None:
    create(any_raw, unique_topic, cleanup_policy="compact")
    produce(any_raw, unique_topic, batch(5))
    assert delete(any_raw, unique_topic, 3) == (ErrorCode.policy_violation, -1)


def epoch_end(raw: RawClient, topic: str, epoch: int, **values: Any) -> tuple[ErrorCode, int, int]:
    requested = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": -1} | values
    topics = [{"topic": topic, "partitions": [requested]}]
    version = values.get("version", 4)
    response = raw.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
    found = response.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_leader_epochs(any_raw: RawClient, topic: str, version: int) -> None:
    assert epoch_end(any_raw, topic, 0, version=version) == (NO_ERROR, 0, 0)
    produce(any_raw, topic, batch(5))
    assert epoch_end(any_raw, topic, 0, version=version) == (NO_ERROR, 0, 5)
    assert epoch_end(any_raw, topic, 3, version=version) == (NO_ERROR, -1, -1)
    assert epoch_end(any_raw, topic, -1, version=version) == (NO_ERROR, -1, -1)
    known = epoch_end(any_raw, topic, 0, current_leader_epoch=0, version=version)
    assert known == (NO_ERROR, 0, 5)
    ahead = epoch_end(any_raw, topic, 0, current_leader_epoch=7, version=version)
    assert ahead == (ErrorCode.unknown_leader_epoch, -1, -1)
    missing = epoch_end(any_raw, topic, 0, partition=9, version=version)
    assert missing == (ErrorCode.unknown_topic_or_partition, -1, -1)


def alter(
    raw: RawClient,
    topic: str,
    *changes: tuple[int, str, str | None],
    version: int = 1,
    **values: Any,
) -> ErrorCode:
    configs = [
        {"name": name, "config_operation": operation, "value": value}
        for operation, name, value in changes
    ]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": configs}
    request = {"resources": [resource], "validate_only": False} | values
    result: ErrorCode = (
        raw.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, **request).responses[0].error_code
    )
    return result


def configs_of(raw: RawClient, topic: str, **values: Any) -> dict[str, Any]:
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
    request = {"resources": [resource], "include_synonyms": False} | values
    result = raw.call(ApiKey.DESCRIBE_CONFIGS, 4, **request).results[0]
    return {config.name: config for config in result.configs}


def config(raw: RawClient, topic: str, name: str) -> tuple[str | None, int]:
    found = configs_of(raw, topic)[name]
    return found.value, found.config_source


@pytest.mark.parametrize("version", range(2))
def test_alter_configs(any_raw: RawClient, topic: str, version: int) -> None:
    change = (SET, "flush.ms", "1234")
    assert alter(any_raw, topic, change, version=version, validate_only=True) is NO_ERROR
    assert config(any_raw, topic, "flush.ms") == (str(2**63 - 1), 5)
    assert alter(any_raw, topic, change, version=version) is NO_ERROR
    wait_until_equal(lambda: config(any_raw, topic, "flush.ms"), ("1234", 1))
    append = (APPEND, "cleanup.policy", "compact")
    assert alter(any_raw, topic, append, (DELETE, "flush.ms", None)) is NO_ERROR
    wait_until_equal(lambda: config(any_raw, topic, "cleanup.policy"), ("delete,compact", 1))
    wait_until_equal(lambda: config(any_raw, topic, "flush.ms"), (str(2**63 - 1), 5))
    assert alter(any_raw, topic, (SUBTRACT, "cleanup.policy", "delete")) is NO_ERROR
    wait_until_equal(lambda: config(any_raw, topic, "cleanup.policy"), ("compact", 1))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([(SET, "flush.ms", "x")], ErrorCode.invalid_config),
        ([(SET, "no.such.config", "x")], ErrorCode.invalid_config),
        ([(APPEND, "flush.ms", "1")], ErrorCode.invalid_config),
        ([(SET, "flush.ms", None)], ErrorCode.invalid_request),
        ([(SET, "flush.ms", "1"), (SET, "flush.ms", "2")], ErrorCode.invalid_request),
        ([(9, "flush.ms", "1")], ErrorCode.unknown_server_error),
    ],
)
def test_invalid_config_changes(
    any_raw: RawClient,
    topic: str,
    changes: list[tuple[int, str, str | None]],
    error: ErrorCode,
) -> None:
    assert alter(any_raw, topic, *changes) is error
    assert config(any_raw, topic, "flush.ms") == (str(2**63 - 1), 5)


def test_configs_of_an_unknown_topic(any_raw: RawClient, unique_topic: str) -> None:
    error = alter(any_raw, unique_topic, (SET, "flush.ms", "1"))
    assert error is ErrorCode.unknown_topic_or_partition


def test_every_config_of_a_topic_is_described(any_raw: RawClient, topic: str) -> None:
    found = configs_of(any_raw, topic)
    assert len(found) == 33
    listed = {name: (one.value, one.config_type) for name, one in found.items()}
    assert listed["segment.bytes"] == ("1073741824", 3)
    assert listed["cleanup.policy"] == ("delete", 7)
    assert listed["min.cleanable.dirty.ratio"] == ("0.5", 6)
    assert listed["preallocate"] == ("false", 1)
    assert listed["follower.replication.throttled.replicas"] == ("", 7)


def test_changed_limit_applies_immediately(any_raw: RawClient, topic: str) -> None:
    assert alter(any_raw, topic, (SET, "max.message.bytes", "100")) is NO_ERROR
    big = batch(1, value=bytes(500))
    wait_until_equal(lambda: produce(any_raw, topic, big).error_code, ErrorCode.message_too_large)


def described(
    raw: RawClient, topics: Sequence[str], **values: Any
) -> tuple[dict[str, tuple[ErrorCode, list[int]]], tuple[str, int] | None]:
    items = [{"name": name} for name in topics]
    response = raw.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=items, **values)
    found = {
        t.name: (t.error_code, [p.partition_index for p in t.partitions]) for t in response.topics
    }
    cursor = response.next_cursor
    return found, cursor and (cursor.topic_name, cursor.partition_index)


def test_describe_topic_partitions_in_pages(any_raw: RawClient, unique_topic: str) -> None:
    one, two, none = (f"{unique_topic}-{end}" for end in "abc")
    create(any_raw, one, 3)
    create(any_raw, two, 2)
    names = [two, none, one]
    missing: dict[str, Any] = {none: (ErrorCode.unknown_topic_or_partition, [])}
    everything: dict[str, Any] = {one: (0, [0, 1, 2]), two: (0, [0, 1])}
    assert described(any_raw, names) == (everything | missing, None)
    found, cursor = described(any_raw, names, response_partition_limit=2)
    assert (found, cursor) == ({one: (0, [0, 1])}, (one, 2))
    rest = {"topic_name": one, "partition_index": 2}
    found, cursor = described(any_raw, names, response_partition_limit=2, cursor=rest)
    assert (found, cursor) == ({one: (0, [2]), two: (0, [0])}, (two, 1))


def test_describe_log_dirs(any_raw: RawClient, topic: str) -> None:
    sent = batch(5)
    produce(any_raw, topic, sent)
    for version in range(1, 6):
        requested = [{"topic": topic, "partitions": [0]}]
        response = any_raw.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=requested)
        (directory,) = response.results
        (partition,) = directory.topics[0].partitions
        assert (partition.partition_size, partition.offset_lag) == (len(sent), 0)


def test_synonyms_of_a_config(any_raw: RawClient, unique_topic: str) -> None:
    create(any_raw, unique_topic, flush_messages="77")
    found = configs_of(any_raw, unique_topic, include_synonyms=True)
    synonyms = [(one.name, one.value, one.source) for one in found["flush.messages"].synonyms]
    assert synonyms == [
        ("flush.messages", "77", 1),
        ("log.flush.interval.messages", str(2**63 - 1), 5),
    ]
    assert configs_of(any_raw, unique_topic)["flush.messages"].synonyms == ()


def _synonyms(configs: dict[str, Any]) -> dict[str, list[tuple[str, str | None]]]:
    """Return names and values, without broker configs set by the installation."""
    return {
        name: [(one.name, one.value) for one in config.synonyms if one.source not in {3, 4}]
        for name, config in configs.items()
    }


def test_synonyms_match_kafka(
    real_kafka: KafkaCluster, embedded_broker: EmbeddedBroker, unique_topic: str
) -> None:
    own: dict[str, Any] = {
        "retention_ms": "5000",
        "flush_ms": "77",
        "segment_jitter_ms": "3",
        "flush_messages": "9",
    }
    found: list[Any] = []
    for kafka in (real_kafka, embedded_broker):
        with RawClient(kafka.bootstrap_servers) as client:
            create(client, f"{unique_topic}-plain")
            create(client, f"{unique_topic}-own", **own)
            topics = [
                _synonyms(configs_of(client, f"{unique_topic}-{kind}", include_synonyms=True))
                for kind in ("plain", "own")
            ]
            broker = {
                name: one
                for name, one in _synonyms(_broker_configs(client)).items()
                if name in TOPIC_NAMES
            }
            found.append((topics, broker))
    assert found[0] == found[1]


def _broker_configs(client: RawClient) -> dict[str, Any]:
    node = client.call(ApiKey.METADATA, 8, topics=[]).brokers[0].node_id
    resource = {"resource_type": 4, "resource_name": str(node), "configuration_keys": None}
    response = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True)
    return {config.name: config for config in response.results[0].configs}


def test_broker_config_contains_listeners(
    any_kafka: KafkaCluster | EmbeddedBroker, any_raw: RawClient
) -> None:
    """kafka-python's admin client requires them."""
    configs = _broker_configs(any_raw)
    first = any_kafka.bootstrap_servers.split(",", 1)[0]
    for name in ("advertised.listeners", "listeners"):
        assert configs[name].value.split(",", 1)[0] == f"PLAINTEXT://{first}"
        assert (configs[name].config_type, configs[name].config_source) == (7, 4)


def test_broker_configs(any_raw: RawClient) -> None:
    node = any_raw.call(ApiKey.METADATA, 8, topics=[]).brokers[0].node_id
    names = ["message.max.bytes", "log.segment.bytes", "node.id", "auto.create.topics.enable"]
    resource = {"resource_type": 4, "resource_name": str(node), "configuration_keys": names}
    result = any_raw.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results[0]
    assert {config.name for config in result.configs} == set(names)
    values = {config.name: config.value for config in result.configs}
    assert (values["message.max.bytes"], values["node.id"]) == ("1048588", str(node))
    assert all(config.config_type > 0 for config in result.configs)
    resource["resource_name"] = "77"
    result = any_raw.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results[0]
    assert result.error_code is ErrorCode.invalid_request
