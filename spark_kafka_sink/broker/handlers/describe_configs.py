"""DescribeConfigs and ListConfigResources (KIP-1142).

DescribeConfigs 1-4: configs of topics, brokers and groups, and the levels of loggers. Synonyms list
the sources of a value, the one with the highest precedence first. A broker's configs must be
requested from that broker; an empty broker name returns what is set for all brokers. Other resource
types fail with INVALID_REQUEST.

ListConfigResources 0-1 (KIP-1142): the resources that DescribeConfigs accepts. Version 0 lists only
client metrics, which this broker does not have. Groups are listed if they have configs of their
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.cluster import ALL_BROKERS, BROKER, GROUP
from spark_kafka_sink.broker.cluster.topics import TopicError, is_topic_name
from spark_kafka_sink.broker.coordinator.group_coordinator import GROUP_KEYS, broker_name
from spark_kafka_sink.broker.handlers.config_resources import (
    ResourceType,
    broker_settings,
    check_node,
    invalid_request,
    levels,
)
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.topic_config import (
    INTERNAL_KEYS,
    SYNONYMS,
    TOPIC_KEYS,
    TOPIC_NAMES,
    ConfigSource,
    ConfigType,
    Setting,
    TopicConfig,
    default_synonym,
)
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.protocol.messages import Values


UNKNOWN_TYPE = 0


def describe_configs(context: RequestContext) -> Answer:
    """Handle the DescribeConfigs API."""
    return {"results": [_resource(context, item) for item in context.request.resources]}


def _resource(context: RequestContext, item: Any) -> Values:
    about = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    try:
        configs = _configs(context, item.resource_type, item.resource_name)
    except TopicError as error:
        return about | {"error_code": error.error, "error_message": error.message or None}
    keys = item.configuration_keys
    return about | {"configs": [_chosen(context, c) for c in configs if _is_wanted(c, keys)]}


def _configs(context: RequestContext, kind: int, name: str) -> Iterable[Values]:
    if kind == ResourceType.TOPIC:
        return _topic_configs(_topic(context, name))
    if kind == ResourceType.BROKER and name == ALL_BROKERS:
        return _cluster_configs(context)
    if kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}:
        check_node(context, name)
        return _broker_configs(context) if kind == ResourceType.BROKER else _levels()
    if kind == ResourceType.GROUP and name:
        return _group_configs(context, name)
    raise invalid_request(f"There are no configs of {name!r}, a resource of type {kind}.")


def _topic(context: RequestContext, name: str) -> TopicConfig:
    topic = context.cluster.topics.named(name)
    if topic is not None:
        return topic.config
    if is_topic_name(name):
        raise TopicError(ErrorCode.unknown_topic_or_partition, "")
    raise TopicError(ErrorCode.invalid_topic_exception, f"The name {name} is not one of a topic")


def _is_wanted(config: Values, keys: Any) -> bool:
    """Return True if a config is requested; as in Kafka, an empty list of keys requests all."""
    return not keys or config["name"] in keys


def _chosen(context: RequestContext, config: Values) -> Values:
    with_synonyms = context.get("include_synonyms", False)
    return config if with_synonyms else {**config, "synonyms": ()}


def _topic_configs(config: TopicConfig) -> Iterable[Values]:
    keys = TOPIC_KEYS | {name: key for name, key in INTERNAL_KEYS.items() if name in config.own}
    for name, key in keys.items():
        entry = _entry(name, config[name], key.type, config.source(name))
        yield entry | {"synonyms": list(_synonyms(name, config))}


def _synonyms(name: str, config: TopicConfig) -> Iterable[Values]:
    if name in config.own:
        yield _synonym(name, config.own[name], ConfigSource.TOPIC)
    if name in SYNONYMS:
        for layer in config.broker:
            if name in layer.values:
                yield _synonym(SYNONYMS[name], layer.values[name], layer.source)
        yield from _defaults(SYNONYMS[name])


def _defaults(name: str) -> list[Values]:
    """Return the synonym that provides a broker config's default, as a list of at most one."""
    found = default_synonym(name)
    return [] if found is None else [_synonym(*found, ConfigSource.DEFAULT)]


def _broker_configs(context: RequestContext) -> Iterable[Values]:
    """Yield the configs of the node that received the request.

    Values set for the broker override those set for all brokers, which override its start values.
    """
    dynamic = context.cluster.dynamic_configs
    own, cluster = dynamic.of(BROKER, str(context.node)), dynamic.of(BROKER, ALL_BROKERS)
    layers = ((ConfigSource.DYNAMIC_BROKER, own), (ConfigSource.DYNAMIC_DEFAULT_BROKER, cluster))
    started = {one.name: one for one in broker_settings(context)}
    for name in [*started, *(n for n in {**own, **cluster} if n not in started)]:
        said = [_synonym(name, values[name], source) for source, values in layers if name in values]
        yield _broker_entry(name, started.get(name), said)


def _broker_entry(name: str, started: Setting | None, said: list[Values]) -> Values:
    """Return one config; as in Kafka, the values of unknown configs are hidden."""
    if started is None:
        first = said[0]
        entry = _entry(name, None, UNKNOWN_TYPE, first["source"])
        hidden = [one | {"value": None} for one in map(dict, said)]
        return entry | {"is_sensitive": True, "synonyms": hidden}
    all_said = list(said)
    if started.source is not ConfigSource.DEFAULT:
        all_said.append(_synonym(name, started.value, started.source))
    if name in TOPIC_NAMES:
        all_said += _defaults(name)
    elif started.source is ConfigSource.DEFAULT:
        all_said.append(_synonym(name, started.value, started.source))
    first = said[0] if said else {"value": started.value, "source": int(started.source)}
    entry = _entry(name, first["value"], started.type, first["source"])
    return entry | {"read_only": name not in TOPIC_NAMES, "synonyms": all_said}


def _cluster_configs(context: RequestContext) -> Iterable[Values]:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for name, value in context.cluster.dynamic_configs.of(BROKER, ALL_BROKERS).items():
        key = TOPIC_KEYS.get(TOPIC_NAMES.get(name, ""))
        if key is None:
            yield _broker_entry(name, None, [_synonym(name, value, source)])
        else:
            entry = _entry(name, value, key.type, source)
            yield entry | {"synonyms": [_synonym(name, value, source)]}


def _group_configs(context: RequestContext, group_id: str) -> Iterable[Values]:
    own = context.cluster.dynamic_configs.of(GROUP, group_id)
    for name, key in GROUP_KEYS.items():
        said = [_synonym(broker_name(name), key.default, ConfigSource.DEFAULT)]
        if name in own:
            said.insert(0, _synonym(name, own[name], ConfigSource.GROUP))
        yield _entry(name, said[0]["value"], key.type, said[0]["source"]) | {"synonyms": said}


def _levels() -> Iterable[Values]:
    source = ConfigSource.BROKER_LOGGER
    return [_entry(name, level, UNKNOWN_TYPE, source) for name, level in levels().items()]


def _synonym(name: str, value: str | None, source: ConfigSource) -> Values:
    return {"name": name, "value": value, "source": int(source)}


def _entry(
    name: str, value: str | None, kind: ConfigType | int, source: ConfigSource | int
) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "config_source": int(source),
        "config_type": int(kind),
    }


DESCRIBE_CONFIGS = Handler(
    api=ApiKey.DESCRIBE_CONFIGS, versions=VersionRange(1, 4), handle=describe_configs
)


CLIENT_METRICS = 16
ALL_TYPES_VERSION = 1


def list_config_resources(context: RequestContext) -> Answer:
    """Handle the ListConfigResources API."""
    requested = set(context.get("resource_types", ()))
    if requested - {*ResourceType, CLIENT_METRICS}:
        return {"error_code": ErrorCode.unsupported_version}
    if context.version < ALL_TYPES_VERSION:
        requested = {CLIENT_METRICS}
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": int(kind)}
            for kind in reversed(ResourceType)
            if not requested or kind in requested
            for name in _names(context, kind)
        ]
    }


def _names(context: RequestContext, kind: ResourceType) -> Iterable[str]:
    cluster = context.cluster
    if kind is ResourceType.TOPIC:
        return (topic.name for topic in cluster.topics.all())
    if kind is ResourceType.GROUP:
        return cluster.dynamic_configs.names(GROUP)
    return map(str, cluster.nodes)


LIST_CONFIG_RESOURCES = Handler(
    api=ApiKey.LIST_CONFIG_RESOURCES, versions=VersionRange(0, 1), handle=list_config_resources
)
