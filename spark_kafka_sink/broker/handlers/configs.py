"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources.

DescribeConfigs 1-4: configs of topics, brokers and groups, and the levels of loggers. The synonyms
list the sources of a value, highest precedence first. The configs of a broker must be requested
from that broker; an empty broker name returns the configs that are set for all brokers. Requests
for other resource types fail with INVALID_REQUEST.

AlterConfigs 0-2 and IncrementalAlterConfigs 0-1 (KIP-339) change configs of topics, brokers
(KIP-226) and groups; IncrementalAlterConfigs also changes the levels of the broker's loggers
(KIP-412). Changes take effect immediately. The configs with which the broker was started cannot be
changed, except for those that provide defaults for topics. AlterConfigs replaces all configs of a
resource; configs that are not in the request are reset. IncrementalAlterConfigs sets, deletes,
appends to and subtracts from individual configs.

ListConfigResources 0-1 (KIP-1142): the resources that DescribeConfigs accepts. Version 0 lists only
client metrics, which this broker does not support. Groups are listed if configs are set for them.

Values are validated as in Kafka's ConfigAdminManager and ControllerConfigurationValidator.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.broker import topic_config
from spark_kafka_sink.broker.cluster.dynamic_configs import ALL_BROKERS, BROKER, GROUP
from spark_kafka_sink.broker.cluster.response_error import ResponseError
from spark_kafka_sink.broker.coordinator.group_coordinator import GROUP_KEYS, broker_name
from spark_kafka_sink.broker.topic_config import ConfigKey, ConfigSource, ConfigType, StartConfig
from spark_kafka_sink.common.text import is_topic_name
from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


ROOT: Final = "spark_kafka_sink.broker"
"""The logger above all loggers of the broker."""
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
"""Python's levels by Kafka's names of log levels."""
_LEVEL_NAMES = {number: name for name, number in reversed(_LEVELS.items())} | {
    logging.DEBUG: "DEBUG"
}
_UNKNOWN_TYPE = 0
"""The config_type of a config whose type is unknown."""
_CLIENT_METRICS = 16
"""The type of client metrics resources, of which there are none."""
_LISTS_ALL_TYPES = 1
"""First version of ListConfigResources with other resources than client metrics."""


def _log_levels() -> dict[str, str]:
    """Return the effective level of every logger of the broker, by name."""
    known = logging.root.manager.loggerDict
    own = {ROOT, *(name for name in known if name.startswith(f"{ROOT}."))}
    return {name: _level_name(logging.getLogger(name).getEffectiveLevel()) for name in sorted(own)}


def _level_name(number: int) -> str:
    below = [known for known in _LEVEL_NAMES if known <= number]
    return _LEVEL_NAMES[max(below, default=logging.DEBUG)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurableResource:
    """A resource that has configs.

    Args:
        own: the configs that are set for the resource.
        keys: the definitions of the known configs.
        default: returns the value of a config that is not set for the resource.
        check: raises ResponseError if a value is invalid.
        apply: replaces the configs that are set for the resource.
        unknown_operation: Kafka's error code for an unknown operation on this resource.
    """

    own: Mapping[str, str]
    keys: Mapping[str, ConfigKey]
    default: Callable[[str], str]
    check: Callable[[Mapping[str, str]], None]
    apply: Callable[[Mapping[str, str]], None]
    unknown_operation: ErrorCode = ErrorCode.unknown_server_error


def _invalid_request(message: str) -> ResponseError:
    """Return an INVALID_REQUEST error with a message."""
    return ResponseError(ErrorCode.invalid_request, message)


def _find_resource(context: RequestContext, kind: int, name: str) -> ConfigurableResource:
    """Return a resource whose configs can be changed.

    Raises:
        ResponseError: the resource does not exist, or its type has no configs that can be changed.
    """
    if kind == ConfigResourceType.TOPIC:
        return _topic_resource(context, name)
    if kind == ConfigResourceType.BROKER:
        return _broker_resource(context, name)
    if kind == ConfigResourceType.GROUP:
        return _group_resource(context, name)
    raise _invalid_request(f"Unknown resource type {kind}")


def _start_configs(context: RequestContext) -> list[StartConfig]:
    """Return the configs with which the node that received the request was started."""
    node = context.cluster.node(context.node)
    address = node.host, node.port
    return list(topic_config.start_configs(context.cluster.config, node.id, node.bound, address))


def _check_node(context: RequestContext, name: str) -> None:
    """Check that a resource name is the id of the node that received the request.

    Raises:
        ResponseError: the name is not the id of this node.
    """
    if not name.removeprefix("-").isdecimal():
        raise _invalid_request(f"Node id must be an integer, but it is: {name}")
    if int(name) != context.node:
        raise _invalid_request(
            f"Unexpected broker id, expected {context.node}, but received {name}"
        )


def _topic_resource(context: RequestContext, name: str) -> ConfigurableResource:
    topics = context.cluster.topics
    topic = topics.named(name)
    if not is_topic_name(name):
        raise ResponseError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: '{name}'")
    config = topic.config if topic else topic_config.TopicConfig()

    def check(values: Mapping[str, str]) -> None:
        if problem := topic_config.problem_with(values):
            raise ResponseError(ErrorCode.invalid_config, problem)
        if topic is None:
            raise ResponseError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
            )

    def apply(own: Mapping[str, str]) -> None:
        if topic is not None:
            topics.configure(topic, own)

    return ConfigurableResource(
        own=config.own,
        keys=topic_config.TOPIC_KEYS,
        default=config.default,
        check=check,
        apply=apply,
    )


def _broker_resource(context: RequestContext, name: str) -> ConfigurableResource:
    if name != ALL_BROKERS:
        _check_node(context, name)
    dynamic, topics = context.cluster.dynamic_configs, context.cluster.topics
    own = dynamic.of(BROKER, name)
    started = {config.name for config in _start_configs(context)}
    fixed = started - topic_config.BROKER_KEYS.keys()

    def check(values: Mapping[str, str]) -> None:
        if names := sorted(fixed & values.keys()):
            raise _invalid_request(f"Cannot update these configs dynamically: {', '.join(names)}")
        for config, value in values.items():
            known = topic_config.BROKER_KEYS.get(config)
            if known is not None and not known.allowed(value):
                raise _invalid_request(f"Invalid value {value} for configuration {config}")

    def apply(values: Mapping[str, str]) -> None:
        dynamic.set(BROKER, name, values)
        topics.set_broker_layers(dynamic.layers())

    return ConfigurableResource(
        own=own,
        keys=topic_config.BROKER_KEYS,
        default=lambda name: topic_config.BROKER_KEYS[name].default,
        check=check,
        apply=apply,
        unknown_operation=ErrorCode.invalid_request,
    )


def _group_resource(context: RequestContext, name: str) -> ConfigurableResource:
    if not name:
        raise _invalid_request("Default group resources are not allowed.")
    dynamic = context.cluster.dynamic_configs
    own = dynamic.of(GROUP, name)

    def check(values: Mapping[str, str]) -> None:
        if problem := topic_config.problem_with(values, GROUP_KEYS, "group"):
            raise ResponseError(ErrorCode.invalid_config, problem)

    return ConfigurableResource(
        own=own,
        keys=GROUP_KEYS,
        default=lambda name: GROUP_KEYS[name].default,
        check=check,
        apply=lambda values: dynamic.set(GROUP, name, values),
    )


def describe_resource(context: RequestContext, item: Any) -> FieldValues:
    """Handle a resource of the DescribeConfigs API."""
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
        _check_node(context, name)
        return _broker_configs(context) if kind == ConfigResourceType.BROKER else _logger_configs()
    if kind == ConfigResourceType.GROUP and name:
        return _group_configs(context, name)
    raise _invalid_request(f"Resource {name!r} of type {kind} has no configs.")


def _topic_config(context: RequestContext, name: str) -> topic_config.TopicConfig:
    topic = context.cluster.topics.named(name)
    if topic is not None:
        return topic.config
    if is_topic_name(name):
        raise ResponseError(ErrorCode.unknown_topic_or_partition, "")
    raise ResponseError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: '{name}'")


def _topic_configs(config: topic_config.TopicConfig) -> Iterable[FieldValues]:
    keys = topic_config.TOPIC_KEYS | {
        name: key for name, key in topic_config.INTERNAL_KEYS.items() if name in config.own
    }
    for name, key in keys.items():
        entry = _config_entry(name, config[name], key.type, config.source(name))
        yield entry | {"synonyms": list(_synonyms(name, config))}


def _synonyms(name: str, config: topic_config.TopicConfig) -> Iterable[FieldValues]:
    if name in config.own:
        yield _synonym(name, config.own[name], ConfigSource.TOPIC)
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
    started = {config.name: config for config in _start_configs(context)}
    for name in [*started, *(key for key in {**node, **cluster} if key not in started)]:
        changed = [_synonym(name, own[name], source) for source, own in layers if name in own]
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
    own = context.cluster.dynamic_configs.of(GROUP, group_id)
    for name, key in GROUP_KEYS.items():
        synonyms = [_synonym(broker_name(name), key.default, ConfigSource.DEFAULT)]
        if name in own:
            synonyms.insert(0, _synonym(name, own[name], ConfigSource.GROUP))
        first = synonyms[0]
        yield _config_entry(name, first["value"], key.type, first["source"]) | {
            "synonyms": synonyms
        }


def _logger_configs() -> Iterable[FieldValues]:
    source = ConfigSource.BROKER_LOGGER
    return [
        _config_entry(name, level, _UNKNOWN_TYPE, source) for name, level in _log_levels().items()
    ]


def _synonym(name: str, value: str | None, source: ConfigSource) -> FieldValues:
    return {"name": name, "value": value, "source": int(source)}


def _config_entry(
    name: str, value: str | None, kind: ConfigType | int, source: ConfigSource | int
) -> dict[str, Any]:
    return {"name": name, "value": value, "config_source": int(source), "config_type": int(kind)}


def list_config_resources(context: RequestContext) -> HandlerResult:
    """Handle the ListConfigResources API."""
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


def alter_configs(context: RequestContext) -> HandlerResult:
    """Handle the AlterConfigs API."""
    return _alter_each_resource(context, _replace_configs)


def incremental_alter_configs(context: RequestContext) -> HandlerResult:
    """Handle the IncrementalAlterConfigs API."""
    return _alter_each_resource(context, _change_configs)


def _alter_each_resource(
    context: RequestContext, change: Callable[[RequestContext, Any], None]
) -> HandlerResult:
    """Change each resource. A duplicate resource or config in the request is an error."""
    items = context.request.resources
    counts = Counter((item.resource_type, item.resource_name) for item in items)

    def alter(item: Any) -> FieldValues:
        if counts[item.resource_type, item.resource_name] > 1:
            raise _invalid_request("Each resource must appear at most once.")
        change(context, item)
        return {}

    return context.handle_each_item(alter)


def _find_for_change(context: RequestContext, item: Any) -> ConfigurableResource:
    resource = _find_resource(context, item.resource_type, item.resource_name)
    if len({config.name for config in item.configs}) < len(item.configs):
        raise _invalid_request("Error due to duplicate config keys")
    return resource


def _replace_configs(context: RequestContext, item: Any) -> None:
    resource = _find_for_change(context, item)
    own = {config.name: config.value for config in item.configs}
    for name, value in own.items():
        if value is None:
            raise _invalid_request(f"Null value not supported for : {name}")
    resource.check(own)
    if not context.request.validate_only:
        resource.apply(own)


class AlterConfigOp(IntEnum):
    """Operations on a config. The values are the codes used in requests."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def _change_configs(context: RequestContext, item: Any) -> None:
    if item.resource_type == ConfigResourceType.BROKER_LOGGER:
        _change_log_levels(context, item)
        return
    resource = _find_for_change(context, item)
    own = dict(resource.own)
    for change in item.configs:
        _change_config(own, resource, change)
    names = [change.name for change in item.configs]
    resource.check({name: own[name] for name in names if name in own})
    if not context.request.validate_only:
        resource.apply(own)


def _change_config(own: dict[str, str], resource: ConfigurableResource, change: Any) -> None:
    if change.config_operation not in set(AlterConfigOp):
        has_message = resource.unknown_operation is ErrorCode.invalid_request
        text = f"Unknown operation {change.config_operation}." if has_message else ""
        raise ResponseError(resource.unknown_operation, text)
    if change.config_operation == AlterConfigOp.DELETE:
        own.pop(change.name, None)
        return
    if change.value is None:
        raise _invalid_request(f"Null value not supported for {change.name}")
    if change.config_operation == AlterConfigOp.SET:
        own[change.name] = change.value
        return
    key = resource.keys.get(change.name)
    if key is None or key.type is not ConfigType.LIST:
        raise ResponseError(
            ErrorCode.invalid_config, f"{change.name} is not a list and can only be set or deleted."
        )
    current = own.get(change.name, resource.default(change.name))
    present = [value for value in current.split(",") if value]
    changed = change.value.split(",")
    if change.config_operation == AlterConfigOp.APPEND:
        kept = present + [value for value in changed if value not in present]
    else:
        kept = [value for value in present if value not in changed]
    own[change.name] = ",".join(kept)


def _change_log_levels(context: RequestContext, item: Any) -> None:
    _check_node(context, item.resource_name)
    for change in item.configs:
        if change.config_operation not in {AlterConfigOp.SET, AlterConfigOp.DELETE}:
            raise _invalid_request("Log levels can only be set or deleted.")
        if change.name not in _log_levels():
            raise ResponseError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
        if change.config_operation == AlterConfigOp.SET and change.value not in _LEVELS:
            raise ResponseError(
                ErrorCode.invalid_config,
                f"Log level {change.value} must be one of {list(_LEVELS)}.",
            )
    for change in () if context.request.validate_only else item.configs:
        is_deleted = change.config_operation == AlterConfigOp.DELETE
        level = logging.NOTSET if is_deleted else _LEVELS[change.value]
        logging.getLogger(change.name).setLevel(level)
