"""Admin requests to a real Kafka and to the embedded broker."""

from collections.abc import Sequence
from typing import Any

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.config.topic_config import TOPIC_NAMES
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.waiting import wait_until_equal
from tools.support.kafka_cluster import AnyKafka, KafkaCluster
from tools.support.raw_client import TIMEOUT, RawClient, batch, create, produce

TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)
NO_ERROR = ErrorCode.none


def delete(
    raw: RawClient, topic: str, offset: int, version: int = 2, partition: int = 0
) -> tuple[ErrorCode, int]:
    item = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    response = raw.call(ApiKey.DELETE_RECORDS, version, topics=[item], timeout=TIMEOUT)
    deleted = response.topics[0].partitions[0]
    return deleted.error_code, deleted.low_watermark


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
    offsets = [at_time(any_raw, topic, time) for time in (0, 1_000, 9_000)]
    assert offsets == [7, 7, 7]
    assert delete(any_raw, topic, 12) == (NO_ERROR, 12)
    offsets = [at_time(any_raw, topic, time) for time in (0, 2_000, 2_001, 3_000, 3_001)]
    assert offsets == [12, 12, 15, 15, -1]
    assert delete(any_raw, topic, 20) == (NO_ERROR, 20)
    assert at_time(any_raw, topic, 0) == -1


def test_records_of_compacted_topics_cannot_be_deleted(
    any_raw: RawClient, unique_topic: str
) -> None:
    create(any_raw, unique_topic, cleanup_policy="compact")
    produce(any_raw, unique_topic, batch(5))
    assert delete(any_raw, unique_topic, 3) == (ErrorCode.policy_violation, -1)


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


def test_changed_limit_applies_immediately(any_raw: RawClient, topic: str) -> None:
    assert alter(any_raw, topic, (SET, "max.message.bytes", "100")) is NO_ERROR
    big = batch(1, value=bytes(500))
    wait_until_equal(lambda: produce(any_raw, topic, big).error_code, ErrorCode.message_too_large)


def described(
    raw: RawClient, topics: Sequence[str], **values: Any
) -> tuple[dict[str, tuple[ErrorCode, list[int]]], tuple[str, int] | None]:
    items = [{"name": name} for name in topics]
    response = raw.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=items, **values)
    described_topics = {
        t.name: (t.error_code, [p.partition_index for p in t.partitions]) for t in response.topics
    }
    cursor = response.next_cursor
    return described_topics, cursor and (cursor.topic_name, cursor.partition_index)


def test_describe_topic_partitions_in_pages(any_raw: RawClient, unique_topic: str) -> None:
    first, two, none = (f"{unique_topic}-{end}" for end in "abc")
    create(any_raw, first, 3)
    create(any_raw, two, 2)
    names = [two, none, first]
    missing: dict[str, Any] = {none: (ErrorCode.unknown_topic_or_partition, [])}
    everything: dict[str, Any] = {first: (0, [0, 1, 2]), two: (0, [0, 1])}
    assert described(any_raw, names) == (everything | missing, None)
    page, cursor = described(any_raw, names, response_partition_limit=2)
    assert (page, cursor) == ({first: (0, [0, 1])}, (first, 2))
    rest = {"topic_name": first, "partition_index": 2}
    page, cursor = described(any_raw, names, response_partition_limit=2, cursor=rest)
    assert (page, cursor) == ({first: (0, [2]), two: (0, [0])}, (two, 1))


def test_describe_log_dirs(any_raw: RawClient, topic: str) -> None:
    sent = batch(5)
    produce(any_raw, topic, sent)
    for version in range(1, 6):
        requested = [{"topic": topic, "partitions": [0]}]
        response = any_raw.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=requested)
        (directory,) = response.results
        (partition,) = directory.topics[0].partitions
        assert (partition.partition_size, partition.offset_lag) == (len(sent), 0)


def synonyms_of(configs: dict[str, Any]) -> dict[str, list[tuple[str, str | None]]]:
    """Return names and values, without broker configs set by the installation."""
    return {
        name: [
            (synonym.name, synonym.value)
            for synonym in config.synonyms
            if synonym.source not in {3, 4}
        ]
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
    synonyms: list[Any] = []
    for kafka in (real_kafka, embedded_broker):
        with RawClient(kafka.bootstrap_servers) as client:
            create(client, f"{unique_topic}-plain")
            create(client, f"{unique_topic}-own", **own)
            topics = [
                synonyms_of(configs_of(client, f"{unique_topic}-{kind}", include_synonyms=True))
                for kind in ("plain", "own")
            ]
            broker = {
                name: values
                for name, values in synonyms_of(broker_configs(client)).items()
                if name in TOPIC_NAMES
            }
            synonyms.append((topics, broker))
    assert synonyms[0] == synonyms[1]


def broker_configs(client: RawClient) -> dict[str, Any]:
    node = client.call(ApiKey.METADATA, 8, topics=[]).brokers[0].node_id
    resource = {"resource_type": 4, "resource_name": str(node), "configuration_keys": None}
    response = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True)
    return {config.name: config for config in response.results[0].configs}


def test_broker_config_contains_listeners(any_kafka: AnyKafka, any_raw: RawClient) -> None:
    """kafka-python's admin client requires them."""
    configs = broker_configs(any_raw)
    first = any_kafka.bootstrap_servers.split(",", 1)[0]
    for name in ("advertised.listeners", "listeners"):
        assert configs[name].value.split(",", 1)[0] == f"PLAINTEXT://{first}"
        assert (configs[name].config_type, configs[name].config_source) == (7, 4)
