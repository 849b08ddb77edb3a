"""DescribeConfigs 1-4: configs of topics (topic_config.py), and a few of the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.broker.topic_config import TOPIC_KEYS, ConfigSource, ConfigType
from spark_kafka_sink.broker.topics import is_topic_name
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.topic_config import TopicConfig
    from spark_kafka_sink.protocol.build import Values

TOPIC = 2
BROKER = 4


def handle(call: Call) -> Answer:
    """See the module."""
    return {"results": [_resource(call, item) for item in call.request.resources]}


def _resource(call: Call, item: Any) -> Values:
    about = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    if item.resource_type == TOPIC:
        topic = call.cluster.topics.named(item.resource_name)
        if topic is None:
            return about | _missing(item.resource_name)
        configs = _topic_configs(topic.config)
    elif item.resource_type == BROKER and item.resource_name in {"", str(call.node)}:
        configs = _broker_configs(call)
    else:
        message = f"Node {call.node} has no configs of {item.resource_name}"
        return about | {"error_code": ErrorCode.invalid_request, "error_message": message}
    keys = item.configuration_keys
    return about | {"configs": [c for c in configs if keys is None or c["name"] in keys]}


def _missing(name: str) -> Values:
    if is_topic_name(name):
        return {"error_code": ErrorCode.unknown_topic_or_partition}
    message = f"The name {name} is not one of a topic"
    return {"error_code": ErrorCode.invalid_topic_exception, "error_message": message}


def _topic_configs(config: TopicConfig) -> Iterable[Values]:
    for name, key in TOPIC_KEYS.items():
        yield _entry(name, config[name], key.type, config.source(name))


def _broker_configs(call: Call) -> Iterable[Values]:
    config = call.cluster.config
    values = (
        ("auto.create.topics.enable", str(config.auto_create_topics).lower(), ConfigType.BOOLEAN),
        ("message.max.bytes", str(config.message_max_bytes), ConfigType.INT),
        ("num.partitions", str(config.default_partitions), ConfigType.INT),
    )
    for name, value, kind in values:
        yield _entry(name, value, kind, ConfigSource.STATIC_BROKER)


def _entry(name: str, value: str, kind: ConfigType, source: ConfigSource) -> Values:
    return {
        "name": name,
        "value": value,
        "config_source": int(source),
        "config_type": int(kind),
    }


HANDLER = Handler(api=ApiKey.DESCRIBE_CONFIGS, versions=VersionRange(1, 4), handle=handle)
