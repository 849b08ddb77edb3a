"""DescribeConfigs and ListConfigResources."""

from typing import Any

import pytest

from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient

SESSION = "consumer.session.timeout.ms"


@pytest.fixture
def client() -> InProcessClient:
    return InProcessClient(topics={"t": 1})


def describe(
    client: InProcessClient, kind: ConfigResourceType, name: str, keys: list[str] | None = None
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    values = {"resources": [resource], "include_synonyms": True}
    return client.call(ApiKey.DESCRIBE_CONFIGS, 4, **values).results[0]


def test_requested_configs_are_described(client: InProcessClient) -> None:
    described = describe(client, ConfigResourceType.TOPIC, "t", ["retention.ms"])
    assert [config.name for config in described.configs] == ["retention.ms"]
    assert len(describe(client, ConfigResourceType.TOPIC, "t", []).configs) > 1


def test_configs_of_another_node_are_rejected(client: InProcessClient) -> None:
    described = describe(client, ConfigResourceType.BROKER, "2")
    assert described.error_code is ErrorCode.invalid_request
    assert describe(client, ConfigResourceType.BROKER, "1").error_code is ErrorCode.none


def test_config_of_a_group_precedes_its_default(client: InProcessClient) -> None:
    change = {"name": SESSION, "config_operation": 0, "value": "50000"}
    resource = {
        "resource_type": ConfigResourceType.GROUP,
        "resource_name": "g",
        "configs": [change],
    }
    changes = {"resources": [resource], "validate_only": False}
    client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **changes)
    (config,) = describe(client, ConfigResourceType.GROUP, "g", [SESSION]).configs
    assert config.value == "50000"
    names = [synonym.name for synonym in config.synonyms]
    assert names == [SESSION, f"group.{SESSION}"]


@pytest.mark.parametrize(("version", "listed"), [(0, []), (1, ["1", "1", "t"])])
def test_resources_are_listed_since_version_1(
    client: InProcessClient, version: int, listed: list[str]
) -> None:
    resources = client.call(ApiKey.LIST_CONFIG_RESOURCES, version).config_resources
    assert sorted(resource.resource_name for resource in resources) == listed
