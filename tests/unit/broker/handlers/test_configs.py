"""DescribeConfigs: which resources have configs."""

import pytest

from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ConfigResourceType.TOPIC, "t", ErrorCode.none),
        (ConfigResourceType.TOPIC, "new", ErrorCode.unknown_topic_or_partition),
        (ConfigResourceType.TOPIC, "a b", ErrorCode.invalid_topic_exception),
        (ConfigResourceType.BROKER, "1", ErrorCode.none),
        (ConfigResourceType.BROKER, "", ErrorCode.none),
        (ConfigResourceType.BROKER, "2", ErrorCode.invalid_request),
        (ConfigResourceType.BROKER, "x", ErrorCode.invalid_request),
        (ConfigResourceType.BROKER_LOGGER, "1", ErrorCode.none),
        (ConfigResourceType.BROKER_LOGGER, "", ErrorCode.invalid_request),
        (ConfigResourceType.GROUP, "g", ErrorCode.none),
        (ConfigResourceType.GROUP, "", ErrorCode.invalid_request),
        (99, "t", ErrorCode.invalid_request),
    ],
)
def test_described_resource(kind: int, name: str, code: ErrorCode) -> None:
    client = InProcessClient(topics={"t": 1})
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    result = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results[0]
    assert result.error_code is code
    has_configs = code is ErrorCode.none and (kind, name) != (ConfigResourceType.BROKER, "")
    assert bool(result.configs) == has_configs
