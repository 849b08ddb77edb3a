"""Resources that have configs: topics, brokers, groups and loggers, found by type and name.

Values are validated as by Kafka's ConfigAdminManager and ControllerConfigurationValidator.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.cluster import ALL_BROKERS, BROKER, GROUP
from spark_kafka_sink.broker.cluster.topics import TopicError, is_topic_name
from spark_kafka_sink.broker.coordinator.group_coordinator import GROUP_KEYS
from spark_kafka_sink.broker.topic_config import (
    TOPIC_KEYS,
    TOPIC_NAMES,
    ConfigType,
    TopicConfig,
    problem_with,
    settings_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.broker.handlers.request_context import RequestContext
    from spark_kafka_sink.broker.topic_config import ConfigKey, Setting


ROOT: Final = "spark_kafka_sink.broker"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
_NAMES = {number: name for name, number in reversed(LEVELS.items())} | {logging.DEBUG: "DEBUG"}


def levels() -> dict[str, str]:
    """Return the effective level of every logger of the broker, by name."""
    known = logging.root.manager.loggerDict
    own = {ROOT, *(name for name in known if name.startswith(f"{ROOT}."))}
    return {name: _name(logging.getLogger(name).getEffectiveLevel()) for name in sorted(own)}


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger; None inherits the parent's level."""
    logging.getLogger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _name(number: int) -> str:
    below = [known for known in _NAMES if known <= number]
    return _NAMES[max(below, default=logging.DEBUG)]


class ResourceType(IntEnum):
    """Types of resources, numbered as in the requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that has configs.

    Args:
        own: the configs that are set for the resource.
        key: returns the definition of a config, or None if it is unknown.
        value: returns the effective value of a config.
        check: raises TopicError if some of the given values cannot be set.
        apply: replaces the configs that are set for the resource.
        unknown_operation: Kafka's error code for an unknown operation on this resource.
    """

    own: Mapping[str, str]
    key: Callable[[str], ConfigKey | None]
    value: Callable[[str], str]
    check: Callable[[Mapping[str, str]], None]
    apply: Callable[[Mapping[str, str]], None]
    unknown_operation: ErrorCode = ErrorCode.unknown_server_error


def invalid_request(message: str) -> TopicError:
    """Return an INVALID_REQUEST error, which most failures use."""
    return TopicError(ErrorCode.invalid_request, message)


def find_resource(context: RequestContext, kind: int, name: str) -> Resource:
    """Return a resource whose configs can be changed.

    Raises:
        TopicError: the resource does not exist, or its type has no configs that can be changed.
    """
    if kind == ResourceType.TOPIC:
        return _topic(context, name)
    if kind == ResourceType.BROKER:
        return _broker(context, name)
    if kind == ResourceType.GROUP:
        return _group(context, name)
    raise invalid_request(f"Unknown resource type {kind}")


def broker_settings(context: RequestContext) -> list[Setting]:
    """Return the configs that the node which received the request was started with."""
    node = context.cluster.node(context.node)
    address = node.host, node.port
    return list(settings_of(context.cluster.config, node.id, node.bound, address))


def check_node(context: RequestContext, name: str) -> None:
    """Check that a resource name is the id of the node that received the request.

    Raises:
        TopicError: it is not.
    """
    if not name.removeprefix("-").isdecimal():
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    if int(name) != context.node:
        raise invalid_request(f"Unexpected broker id, expected {context.node}, but received {name}")


def _topic(context: RequestContext, name: str) -> Resource:
    topics = context.cluster.topics
    topic = topics.named(name)
    if not is_topic_name(name):
        raise TopicError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: '{name}'")
    config = topic.config if topic else TopicConfig()

    def check(values: Mapping[str, str]) -> None:
        if problem := problem_with(values):
            raise TopicError(ErrorCode.invalid_config, problem)
        if topic is None:
            raise TopicError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
            )

    def apply(own: Mapping[str, str]) -> None:
        if topic is not None:
            topics.configure(topic, own)

    return Resource(
        own=config.own, key=TOPIC_KEYS.get, value=config.__getitem__, check=check, apply=apply
    )


def _broker(context: RequestContext, name: str) -> Resource:
    if name != ALL_BROKERS:
        check_node(context, name)
    dynamic, topics = context.cluster.dynamic_configs, context.cluster.topics
    own = dynamic.of(BROKER, name)
    started = {one.name for one in broker_settings(context)}
    fixed = started - TOPIC_NAMES.keys()

    def key(config: str) -> ConfigKey | None:
        return TOPIC_KEYS.get(TOPIC_NAMES.get(config, ""))

    def check(values: Mapping[str, str]) -> None:
        if named := sorted(fixed & values.keys()):
            raise invalid_request(f"Cannot update these configs dynamically: {', '.join(named)}")
        for config, value in values.items():
            if (known := key(config)) is not None and not known.allowed(value):
                raise invalid_request(f"Invalid value {value} for configuration {config}")

    def apply(values: Mapping[str, str]) -> None:
        dynamic.set(BROKER, name, values)
        topics.set_broker_layers(dynamic.layers())

    def value(config: str) -> str:
        known = key(config)
        return own.get(config, known.default if known else "")

    return Resource(
        own=own,
        key=key,
        value=value,
        check=check,
        apply=apply,
        unknown_operation=ErrorCode.invalid_request,
    )


def _group(context: RequestContext, name: str) -> Resource:
    if not name:
        raise invalid_request("Default group resources are not allowed.")
    dynamic = context.cluster.dynamic_configs
    own = dynamic.of(GROUP, name)

    def check(values: Mapping[str, str]) -> None:
        for key, value in values.items():
            if key not in GROUP_KEYS:
                raise TopicError(ErrorCode.invalid_config, f"Unknown group config name: {key}")
            if not GROUP_KEYS[key].allowed(value):
                problem = f"Invalid value {value} for configuration {key}"
                raise TopicError(ErrorCode.invalid_config, problem)

    return Resource(
        own=own,
        key=GROUP_KEYS.get,
        value=lambda key: own.get(key, GROUP_KEYS[key].default),
        check=check,
        apply=lambda values: dynamic.set(GROUP, name, values),
    )


def is_list(resource: Resource, name: str) -> bool:
    """Return True if the type of a config is LIST."""
    key = resource.key(name)
    return key is not None and key.type is ConfigType.LIST
