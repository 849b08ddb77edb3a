"""Raw requests for topics, cluster and configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.support.raw_client import TIMEOUT, RawClient, create

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata(any_raw: RawClient, topic: str, version: int) -> None:
    found = any_raw.call(ApiKey.METADATA, version, topics=[{"name": topic}])
    (described,) = found.topics
    assert (described.name, described.error_code) == (topic, ErrorCode.none)
    (partition,) = described.partitions
    assert partition.leader_id in {broker.node_id for broker in found.brokers}
    assert topic in {t.name for t in all_topics(any_raw, version)}


def all_topics(client: RawClient, version: int) -> Any:
    everything: list[object] | None = [] if version == 0 else None
    return client.call(ApiKey.METADATA, version, topics=everything).topics


def test_metadata_without_topics(any_raw: RawClient, topic: str) -> None:
    assert any_raw.call(ApiKey.METADATA, 9, topics=[]).topics == ()


def test_topics_by_id(any_raw: RawClient, topic: str) -> None:
    by_name = any_raw.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics[0]
    requested = [{"topic_id": by_name.topic_id, "name": None}]
    assert any_raw.call(ApiKey.METADATA, 12, topics=requested).topics[0] == by_name
    requested = [{"topic_id": type(by_name.topic_id)(int=9), "name": None}]
    missing = any_raw.call(ApiKey.METADATA, 12, topics=requested).topics[0]
    assert missing.error_code is ErrorCode.unknown_topic_id


def test_unknown_and_invalid_names(any_raw: RawClient, topic: str) -> None:
    values = {"allow_auto_topic_creation": False}
    for name, error in (
        (topic + "-not", ErrorCode.unknown_topic_or_partition),
        ("no spaces", ErrorCode.invalid_topic_exception),
    ):
        found = any_raw.call(ApiKey.METADATA, 9, topics=[{"name": name}], **values).topics[0]
        assert (found.name, found.error_code) == (name, error)


@pytest.mark.parametrize(("enabled", "allowed"), [(True, True), (True, False), (False, True)])
def test_automatic_topics(enabled: bool, allowed: bool) -> None:
    with (
        EmbeddedBroker(auto_create_topics=enabled, default_partitions=3) as kafka,
        RawClient(kafka.bootstrap_servers) as raw,
    ):
        requested = {"topics": [{"name": "new"}], "allow_auto_topic_creation": allowed}
        found = raw.call(ApiKey.METADATA, 9, **requested).topics[0]
        made = enabled and allowed
        assert len(found.partitions) == (3 if made else 0)
        assert (kafka.run(lambda cluster: cluster.topics.named("new")) is not None) == made
        assert (found.error_code is ErrorCode.none) == made


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created_and_deleted(
    any_raw: RawClient, unique_topic: str, version: int
) -> None:
    new = {"name": unique_topic, "num_partitions": 3, "replication_factor": 1}
    made = any_raw.call(ApiKey.CREATE_TOPICS, version, topics=[new], timeout=TIMEOUT).topics[0]
    assert (made.name, made.error_code) == (unique_topic, ErrorCode.none)
    again = any_raw.call(ApiKey.CREATE_TOPICS, version, topics=[new], timeout=TIMEOUT).topics[0]
    assert again.error_code is ErrorCode.topic_already_exists
    gone = min(version, 6)
    values = {"topics": [{"name": unique_topic}], "topic_names": [unique_topic], "timeout": TIMEOUT}
    deleted = any_raw.call(ApiKey.DELETE_TOPICS, gone, **values).responses[0]
    assert (deleted.name, deleted.error_code) == (unique_topic, ErrorCode.none)
    missing = any_raw.call(ApiKey.DELETE_TOPICS, gone, **values).responses[0]
    assert missing.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"num_partitions": 0}, ErrorCode.invalid_partitions),
        ({"replication_factor": 9}, ErrorCode.invalid_replication_factor),
        ({"name": "a/b"}, ErrorCode.invalid_topic_exception),
        ({"name": ".."}, ErrorCode.invalid_topic_exception),
        ({"configs": [{"name": "no.such.config", "value": "1"}]}, ErrorCode.invalid_config),
        ({"configs": [{"name": "retention.ms", "value": "x"}]}, ErrorCode.invalid_config),
        ({"configs": [{"name": "max.message.bytes", "value": "-1"}]}, ErrorCode.invalid_config),
    ],
)
def test_invalid_new_topics(
    any_raw: RawClient,
    unique_topic: str,
    changes: dict[str, int] | dict[str, str] | dict[str, list[dict[str, str]]],
    error: KafkaError | None,
) -> None:
    new = {"name": unique_topic, "num_partitions": 1, "replication_factor": 1} | changes
    made = any_raw.call(ApiKey.CREATE_TOPICS, 5, topics=[new], timeout=TIMEOUT).topics[0]
    assert made.error_code is error
    assert made.error_message


def test_validate_only_creates_nothing(any_raw: RawClient, unique_topic: str) -> None:
    new = {"name": unique_topic, "num_partitions": 1, "replication_factor": 1}
    values = {"topics": [new], "timeout": TIMEOUT, "validate_only": True}
    for _ in range(2):
        made = any_raw.call(ApiKey.CREATE_TOPICS, 5, **values).topics[0]
        assert made.error_code is ErrorCode.none


@pytest.mark.parametrize("version", range(1, 5))
def test_configs_are_described(any_raw: RawClient, unique_topic: str, version: int) -> None:
    create(any_raw, unique_topic, retention_ms="5000")
    resource = {"resource_type": 2, "resource_name": unique_topic, "configuration_keys": None}
    result = any_raw.call(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource]).results[0]
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
    assert configs["cleanup.policy"].value == "delete"
    assert configs["cleanup.policy"].config_source == 5
    resource["configuration_keys"] = ["max.message.bytes"]
    result = any_raw.call(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource]).results[0]
    assert [(c.name, c.value) for c in result.configs] == [("max.message.bytes", "1048588")]


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(any_raw: RawClient, version: int) -> None:
    found = any_raw.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1)
    assert found.error_code is ErrorCode.none
    assert len(found.brokers) == 1


@pytest.mark.parametrize("version", range(5))
def test_api_versions(any_raw: RawClient, version: int) -> None:
    software = {"client_software_name": "raw", "client_software_version": "1.0"}
    found = any_raw.call(ApiKey.API_VERSIONS, version, **software)
    ranges = {key.api_key: (key.min_version, key.max_version) for key in found.api_keys}
    assert ranges[ApiKey.PRODUCE] == (0, 13)
    assert ranges[ApiKey.METADATA] == (0, 13)
    assert ranges[ApiKey.API_VERSIONS] == (0, 4)


def test_unsupported_version_of_api_versions(any_raw: RawClient) -> None:
    any_raw.socket.sendall(b"\0\0\0\x0b\0\x12\0\x63\0\0\0\x05\xff\xff\0")
    any_raw._correlation_id = 5
    response = any_raw.receive(ApiKey.API_VERSIONS, 0)
    assert response.error_code is ErrorCode.unsupported_version
    assert [k.max_version for k in response.api_keys if k.api_key == ApiKey.API_VERSIONS] == [4]


def test_software_names_are_checked(any_raw: RawClient) -> None:
    software = {"client_software_name": "-raw", "client_software_version": ""}
    found = any_raw.call(ApiKey.API_VERSIONS, 3, **software)
    assert found.error_code is ErrorCode.invalid_request
