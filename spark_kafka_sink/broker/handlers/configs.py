"""DescribeConfigs and ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.cluster.dynamic_configs import ALL_BROKERS, BROKER, GROUP
from spark_kafka_sink.broker.config import log_levels, topic_config
from spark_kafka_sink.broker.config.topic_config import ConfigSource, ConfigType, StartConfig
from spark_kafka_sink.broker.coordinator.group_coordinator import GROUP_KEYS, broker_name
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.common.text import is_topic_name
from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_UNKNOWN_TYPE = 0
"""The config_type of a config whose type is unknown."""
_CLIENT_METRICS = 16
"""The type of client metrics resources, of which there are none."""
_LISTS_ALL_TYPES = 1
"""First version of ListConfigResources with other resources than client metrics."""


def invalid_request(message: str) -> ResponseError:
    """Return an INVALID_REQUEST error with a message."""
    return ResponseError(ErrorCode.invalid_request, message)


def node_configs(context: RequestContext) -> list[StartConfig]:
    """Return the configs with which the node that received the request was started."""
    node = context.cluster.node(context.node)
    address = node.host, node.port
    return list(topic_config.start_configs(context.cluster.config, node.id, node.bound, address))


def check_node(context: RequestContext, name: str) -> None:
    """Check that a resource name is the id of the node that received the request.

    Raises:
        ResponseError: the name is not the id of this node.
    """
    if not name.removeprefix("-").isdecimal():
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    if int(name) != context.node:
        raise invalid_request(f"Unexpected broker id, expected {context.node}, but received {name}")


def describe_resource(context: RequestContext, item: Any) -> FieldValues:
    """Return configs of a topic, a broker or a group, or the levels of loggers.

    DescribeConfigs 1-4: the synonyms list the sources of a value, highest precedence first. The
    configs of a broker must be requested from that broker; an empty broker name returns the configs
    that are set for all brokers. Requests for other resource types fail with INVALID_REQUEST.
    """
    keys = item.configuration_keys  # As in Kafka, an empty list requests all configs.
    configs = [
        config
        for config in _describe_configs(context, item.resource_type, item.resource_name)
        if not keys or config["name"] in keys
    ]
    if not context.get("include_synonyms", False):
        configs = [{**config, "synonyms": ()} for config in configs]
    return {"configs": configs}


def _describe_configs(context: RequestContext, kind: int, name: str) -> Iterable[FieldValues]:
    if kind == ConfigResourceType.TOPIC:
        return _topic_configs(_topic_config(context, name))
    if kind == ConfigResourceType.BROKER and name == ALL_BROKERS:
        return _cluster_configs(context)
    if kind in {ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER}:
        check_node(context, name)
        return _broker_configs(context) if kind == ConfigResourceType.BROKER else _logger_configs()
    if kind == ConfigResourceType.GROUP and name:
        return _group_configs(context, name)
    raise invalid_request(f"Resource {name!r} of type {kind} has no configs.")


def _topic_config(context: RequestContext, name: str) -> topic_config.TopicConfig:
    topic = context.cluster.topics.named(name)
    if topic is not None:
        return topic.config
    if is_topic_name(name):
        raise ResponseError(ErrorCode.unknown_topic_or_partition, "")
    raise ResponseError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: '{name}'")


def _topic_configs(config: topic_config.TopicConfig) -> Iterable[FieldValues]:
    keys = topic_config.TOPIC_KEYS | {
        name: key for name, key in topic_config.INTERNAL_KEYS.items() if name in config.overrides
    }
    for name, key in keys.items():
        entry = _config_entry(name, config[name], key.type, config.source(name))
        yield entry | {"synonyms": list(_synonyms(name, config))}


def _synonyms(name: str, config: topic_config.TopicConfig) -> Iterable[FieldValues]:
    if name in config.overrides:
        yield _synonym(name, config.overrides[name], ConfigSource.TOPIC)
    if name in topic_config.SYNONYMS:
        for layer in config.broker:
            if name in layer.values:
                yield _synonym(topic_config.SYNONYMS[name], layer.values[name], layer.source)
        yield from _default_synonyms(topic_config.SYNONYMS[name])


def _default_synonyms(name: str) -> list[FieldValues]:
    """Return a list with the synonym for a broker config's default, or an empty list."""
    synonym = topic_config.default_synonym(name)
    return [] if synonym is None else [_synonym(*synonym, ConfigSource.DEFAULT)]


def _broker_configs(context: RequestContext) -> Iterable[FieldValues]:
    """Yield the configs of the node that received the request.

    Values for a single broker override values for all brokers, which override the values from the
    start of the broker.
    """
    dynamic = context.cluster.dynamic_configs
    node, cluster = dynamic.of(BROKER, str(context.node)), dynamic.of(BROKER, ALL_BROKERS)
    layers = ((ConfigSource.DYNAMIC_BROKER, node), (ConfigSource.DYNAMIC_DEFAULT_BROKER, cluster))
    started = {config.name: config for config in node_configs(context)}
    for name in [*started, *(key for key in {**node, **cluster} if key not in started)]:
        changed = [
            _synonym(name, values[name], source) for source, values in layers if name in values
        ]
        yield _broker_entry(name, started.get(name), changed)


def _broker_entry(
    name: str, started: StartConfig | None, changed: list[FieldValues]
) -> FieldValues:
    """Return the entry of a config. As in Kafka, the values of unknown configs are hidden."""
    if started is None:
        first = changed[0]
        entry = _config_entry(name, None, _UNKNOWN_TYPE, first["source"])
        hidden = [synonym | {"value": None} for synonym in map(dict, changed)]
        return entry | {"is_sensitive": True, "synonyms": hidden}
    values = list(changed)
    if started.source is not ConfigSource.DEFAULT:
        values.append(_synonym(name, started.value, started.source))
    if name in topic_config.BROKER_KEYS:
        values += _default_synonyms(name)
    elif started.source is ConfigSource.DEFAULT:
        values.append(_synonym(name, started.value, started.source))
    first = changed[0] if changed else {"value": started.value, "source": int(started.source)}
    entry = _config_entry(name, first["value"], started.type, first["source"])
    return entry | {"read_only": name not in topic_config.BROKER_KEYS, "synonyms": values}


def _cluster_configs(context: RequestContext) -> Iterable[FieldValues]:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for name, value in context.cluster.dynamic_configs.of(BROKER, ALL_BROKERS).items():
        key = topic_config.BROKER_KEYS.get(name)
        if key is None:
            yield _broker_entry(name, None, [_synonym(name, value, source)])
        else:
            entry = _config_entry(name, value, key.type, source)
            yield entry | {"synonyms": [_synonym(name, value, source)]}


def _group_configs(context: RequestContext, group_id: str) -> Iterable[FieldValues]:
    overrides = context.cluster.dynamic_configs.of(GROUP, group_id)
    for name, key in GROUP_KEYS.items():
        synonyms = [_synonym(broker_name(name), key.default, ConfigSource.DEFAULT)]
        if name in overrides:
            synonyms.insert(0, _synonym(name, overrides[name], ConfigSource.GROUP))
        first = synonyms[0]
        entry = _config_entry(name, first["value"], key.type, first["source"])
        yield entry | {"synonyms": synonyms}


def _logger_configs() -> Iterable[FieldValues]:
    source = ConfigSource.BROKER_LOGGER
    levels = log_levels.effective_levels()
    return [_config_entry(name, level, _UNKNOWN_TYPE, source) for name, level in levels.items()]


def _synonym(name: str, value: str | None, source: ConfigSource) -> FieldValues:
    return {"name": name, "value": value, "source": int(source)}


def _config_entry(
    name: str, value: str | None, kind: ConfigType | int, source: ConfigSource | int
) -> dict[str, Any]:
    return {"name": name, "value": value, "config_source": int(source), "config_type": int(kind)}


def list_config_resources(context: RequestContext) -> HandlerResult:
    """Return the resources that DescribeConfigs accepts (ListConfigResources 0-1, KIP-1142).

    Version 0 lists only client metrics, which this broker does not support. Groups are listed if
    configs are set for them.
    """
    requested = set(context.get("resource_types", ()))
    if requested - {*ConfigResourceType, _CLIENT_METRICS}:
        return {"error_code": ErrorCode.unsupported_version}
    if context.version < _LISTS_ALL_TYPES:
        requested = {_CLIENT_METRICS}
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": int(kind)}
            for kind in reversed(ConfigResourceType)
            if not requested or kind in requested
            for name in _resource_names(context, kind)
        ]
    }


def _resource_names(context: RequestContext, kind: ConfigResourceType) -> Iterable[str]:
    cluster = context.cluster
    if kind is ConfigResourceType.TOPIC:
        return (topic.name for topic in cluster.topics.all())
    if kind is ConfigResourceType.GROUP:
        return cluster.dynamic_configs.names(GROUP)
    return map(str, cluster.nodes)
