"""DescribeConfigs 1-4: configs of topics (topic_config.py) and of brokers (broker_settings.py).

With synonyms: the broker's config behind a topic's. A broker's configs are asked of that broker;
an empty name, for the cluster's dynamic defaults, has none. Other resources are INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.broker_settings import SYNONYMS, settings_of
from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.broker.topic_config import (
    INTERNAL_KEYS,
    TOPIC_KEYS,
    ConfigSource,
    ConfigType,
    TopicConfig,
)
from spark_kafka_sink.broker.topics import is_topic_name
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        configs = _broker_configs(call) if item.resource_name else ()
    else:
        message = f"Node {call.node} has no configs of {item.resource_name}"
        return about | {"error_code": ErrorCode.invalid_request, "error_message": message}
    keys = item.configuration_keys
    return about | {"configs": [_chosen(call, c) for c in configs if _is_wanted(c, keys)]}


def _missing(name: str) -> dict[str, Any]:
    if is_topic_name(name):
        return {"error_code": ErrorCode.unknown_topic_or_partition}
    message = f"The name {name} is not one of a topic"
    return {"error_code": ErrorCode.invalid_topic_exception, "error_message": message}


def _is_wanted(config: Values, keys: Any) -> bool:
    """Kafka takes an empty list of keys as all of them."""
    return not keys or config["name"] in keys


def _chosen(call: Call, config: Values) -> Values:
    wanted = call.get("include_synonyms", False)
    return config if wanted else {**config, "synonyms": ()}


def _topic_configs(config: TopicConfig) -> Iterable[Values]:
    keys = TOPIC_KEYS | {name: key for name, key in INTERNAL_KEYS.items() if name in config.own}
    for name, key in keys.items():
        entry = _entry(name, config[name], key.type, config.source(name))
        yield entry | {"synonyms": list(_synonyms(name, config))}


def _synonyms(name: str, config: TopicConfig) -> Iterable[Values]:
    if name in config.own:
        yield {"name": name, "value": config.own[name], "source": int(ConfigSource.TOPIC)}
    if name in SYNONYMS:
        source = TopicConfig(broker_max_bytes=config.broker_max_bytes).source(name)
        yield {"name": SYNONYMS[name], "value": config.default(name), "source": int(source)}


def _broker_configs(call: Call) -> Iterable[Values]:
    for one in settings_of(call.cluster.config, call.node):
        synonym = {"name": one.name, "value": one.value, "source": int(one.source)}
        entry = _entry(one.name, one.value, one.type, one.source)
        yield entry | {"read_only": True, "synonyms": [synonym]}


def _entry(name: str, value: str, kind: ConfigType, source: ConfigSource) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "config_source": int(source),
        "config_type": int(kind),
    }


HANDLER = Handler(api=ApiKey.DESCRIBE_CONFIGS, versions=VersionRange(1, 4), handle=handle)
