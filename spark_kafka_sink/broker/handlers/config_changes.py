"""AlterConfigs and IncrementalAlterConfigs.

Both change configs of topics, brokers (KIP-226) and groups. Changes take effect immediately. The
configs with which the broker was started cannot be changed, except for those that provide defaults
for topics.

Values are validated as in Kafka's ConfigAdminManager and ControllerConfigurationValidator.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.cluster.dynamic_configs import ALL_BROKERS, BROKER, GROUP
from spark_kafka_sink.broker.config import log_levels, topic_config
from spark_kafka_sink.broker.config.topic_config import ConfigKey, ConfigType
from spark_kafka_sink.broker.coordinator.group_coordinator import GROUP_KEYS
from spark_kafka_sink.broker.handlers.configs import check_node, invalid_request, node_configs
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.common.text import is_topic_name
from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


class _AlterConfigOp(IntEnum):
    """Operations on a config. The values are the codes used in requests."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConfigurableResource:
    """A resource that has configs."""

    overrides: Mapping[str, str]
    """The configs that are set for the resource."""
    keys: Mapping[str, ConfigKey]
    """The definitions of the known configs."""
    default: Callable[[str], str]
    """Returns the value of a config that is not set for the resource."""
    check: Callable[[Mapping[str, str]], None]
    """Raises ResponseError if a value is invalid."""
    apply: Callable[[Mapping[str, str]], None]
    """Replaces the configs that are set for the resource."""
    unknown_operation: ErrorCode = ErrorCode.unknown_server_error
    """Kafka's error code for an unknown operation on this resource."""


def alter_configs(context: RequestContext) -> HandlerResult:
    """Replace all configs of resources (AlterConfigs 0-2).

    Configs that are not in the request are reset.
    """
    return _alter_each_resource(context, _replace_configs)


def incremental_alter_configs(context: RequestContext) -> HandlerResult:
    """Set, delete, append to and subtract from configs (IncrementalAlterConfigs 0-1, KIP-339).

    Also changes the levels of the broker's loggers (KIP-412).
    """
    return _alter_each_resource(context, _change_configs)


def _alter_each_resource(
    context: RequestContext, change: Callable[[RequestContext, Any], None]
) -> HandlerResult:
    """Change each resource. A duplicate resource or config in the request is an error."""
    items = context.request.resources
    counts = Counter((item.resource_type, item.resource_name) for item in items)

    def alter(item: Any) -> FieldValues:
        if counts[item.resource_type, item.resource_name] > 1:
            raise invalid_request("Each resource must appear at most once.")
        change(context, item)
        return {}

    return context.handle_each_item(alter)


def _find_for_change(context: RequestContext, item: Any) -> _ConfigurableResource:
    resource = _find_resource(context, item.resource_type, item.resource_name)
    if len({config.name for config in item.configs}) < len(item.configs):
        raise invalid_request("Error due to duplicate config keys")
    return resource


def _replace_configs(context: RequestContext, item: Any) -> None:
    resource = _find_for_change(context, item)
    overrides = {config.name: config.value for config in item.configs}
    for name, value in overrides.items():
        if value is None:
            raise invalid_request(f"Null value not supported for : {name}")
    resource.check(overrides)
    if not context.request.validate_only:
        resource.apply(overrides)


def _change_configs(context: RequestContext, item: Any) -> None:
    if item.resource_type == ConfigResourceType.BROKER_LOGGER:
        _change_log_levels(context, item)
        return
    resource = _find_for_change(context, item)
    overrides = dict(resource.overrides)
    for change in item.configs:
        _change_config(overrides, resource, change)
    names = [change.name for change in item.configs]
    resource.check({name: overrides[name] for name in names if name in overrides})
    if not context.request.validate_only:
        resource.apply(overrides)


def _change_config(overrides: dict[str, str], resource: _ConfigurableResource, change: Any) -> None:
    if change.config_operation not in set(_AlterConfigOp):
        has_message = resource.unknown_operation is ErrorCode.invalid_request
        text = f"Unknown operation {change.config_operation}." if has_message else ""
        raise ResponseError(resource.unknown_operation, text)
    if change.config_operation == _AlterConfigOp.DELETE:
        overrides.pop(change.name, None)
        return
    if change.value is None:
        raise invalid_request(f"Null value not supported for {change.name}")
    if change.config_operation == _AlterConfigOp.SET:
        overrides[change.name] = change.value
        return
    key = resource.keys.get(change.name)
    if key is None or key.type is not ConfigType.LIST:
        raise ResponseError(
            ErrorCode.invalid_config, f"{change.name} is not a list and can only be set or deleted."
        )
    current = overrides.get(change.name, resource.default(change.name))
    present = [value for value in current.split(",") if value]
    changed = change.value.split(",")
    if change.config_operation == _AlterConfigOp.APPEND:
        kept = present + [value for value in changed if value not in present]
    else:
        kept = [value for value in present if value not in changed]
    overrides[change.name] = ",".join(kept)


def _change_log_levels(context: RequestContext, item: Any) -> None:
    check_node(context, item.resource_name)
    for change in item.configs:
        if change.config_operation not in {_AlterConfigOp.SET, _AlterConfigOp.DELETE}:
            raise invalid_request("Log levels can only be set or deleted.")
        if change.name not in log_levels.effective_levels():
            raise ResponseError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
        if change.config_operation == _AlterConfigOp.SET and change.value not in log_levels.LEVELS:
            raise ResponseError(
                ErrorCode.invalid_config,
                f"Log level {change.value} must be one of {list(log_levels.LEVELS)}.",
            )
    for change in () if context.request.validate_only else item.configs:
        is_deleted = change.config_operation == _AlterConfigOp.DELETE
        level = logging.NOTSET if is_deleted else log_levels.LEVELS[change.value]
        logging.getLogger(change.name).setLevel(level)


def _find_resource(context: RequestContext, kind: int, name: str) -> _ConfigurableResource:
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
    raise invalid_request(f"Unknown resource type {kind}")


def _topic_resource(context: RequestContext, name: str) -> _ConfigurableResource:
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

    def apply(overrides: Mapping[str, str]) -> None:
        if topic is not None:
            topics.configure(topic, overrides)

    return _ConfigurableResource(
        overrides=config.overrides,
        keys=topic_config.TOPIC_KEYS,
        default=config.default,
        check=check,
        apply=apply,
    )


def _broker_resource(context: RequestContext, name: str) -> _ConfigurableResource:
    if name != ALL_BROKERS:
        check_node(context, name)
    dynamic, topics = context.cluster.dynamic_configs, context.cluster.topics
    started = {config.name for config in node_configs(context)}
    fixed = started - topic_config.BROKER_KEYS.keys()

    def check(values: Mapping[str, str]) -> None:
        if names := sorted(fixed & values.keys()):
            raise invalid_request(f"Cannot update these configs dynamically: {', '.join(names)}")
        for config, value in values.items():
            known = topic_config.BROKER_KEYS.get(config)
            if known is not None and not known.allowed(value):
                raise invalid_request(f"Invalid value {value} for configuration {config}")

    def apply(values: Mapping[str, str]) -> None:
        dynamic.set(BROKER, name, values)
        topics.set_broker_layers(dynamic.layers())

    return _ConfigurableResource(
        overrides=dynamic.of(BROKER, name),
        keys=topic_config.BROKER_KEYS,
        default=lambda name: topic_config.BROKER_KEYS[name].default,
        check=check,
        apply=apply,
        unknown_operation=ErrorCode.invalid_request,
    )


def _group_resource(context: RequestContext, name: str) -> _ConfigurableResource:
    if not name:
        raise invalid_request("Default group resources are not allowed.")
    dynamic = context.cluster.dynamic_configs

    def check(values: Mapping[str, str]) -> None:
        if problem := topic_config.problem_with(values, GROUP_KEYS, "group"):
            raise ResponseError(ErrorCode.invalid_config, problem)

    return _ConfigurableResource(
        overrides=dynamic.of(GROUP, name),
        keys=GROUP_KEYS,
        default=lambda name: GROUP_KEYS[name].default,
        check=check,
        apply=lambda values: dynamic.set(GROUP, name, values),
    )
