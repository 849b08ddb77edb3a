"""AlterConfigs and IncrementalAlterConfigs (KIP-339).

Both change configs of topics, brokers (KIP-226) and groups; IncrementalAlterConfigs also changes
the levels of the broker's loggers (KIP-412). Changes take effect immediately. Configs that the
broker was started with cannot be changed, except those that topic configs default to.

AlterConfigs 0-2: replace all configs of a resource; configs left out of the request are reset.
Older clients only know this API; IncrementalAlterConfigs replaced it.

IncrementalAlterConfigs 0-1: set, delete, append to and subtract from single configs.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.topics import TopicError
from spark_kafka_sink.broker.handlers.config_resources import (
    LEVELS,
    Resource,
    ResourceType,
    check_node,
    find_resource,
    invalid_request,
    is_list,
    levels,
    set_level,
)
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.messages import Values


def alter_configs(context: RequestContext) -> Answer:
    """Handle the AlterConfigs API."""
    named = Counter((item.resource_type, item.resource_name) for item in context.request.resources)
    return {"responses": [_resource(context, item, named) for item in context.request.resources]}


def _resource(context: RequestContext, item: Any, named: Counter[tuple[int, str]]) -> Values:
    about = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    try:
        _replace(context, item, named[item.resource_type, item.resource_name])
    except TopicError as error:
        return about | {"error_code": error.error, "error_message": error.message}
    return about | {"error_code": ErrorCode.none, "error_message": None}


def _replace(context: RequestContext, item: Any, times: int) -> None:
    if times > 1:
        raise invalid_request("Each resource must appear at most once.")
    resource = find_resource(context, item.resource_type, item.resource_name)
    own = {config.name: config.value for config in item.configs}
    if len(own) < len(item.configs):
        raise invalid_request("Error due to duplicate config keys")
    for name, value in own.items():
        if value is None:
            raise invalid_request(f"Null value not supported for : {name}")
    resource.check(own)
    if not context.request.validate_only:
        resource.apply(own)


ALTER_CONFIGS = Handler(api=ApiKey.ALTER_CONFIGS, versions=VersionRange(0, 2), handle=alter_configs)


class Operation(IntEnum):
    """Operations on a config, numbered as in the request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(context: RequestContext) -> Answer:
    """Handle the IncrementalAlterConfigs API."""
    named = Counter((item.resource_type, item.resource_name) for item in context.request.resources)
    return {
        "responses": [
            _incremental_resource(context, item, named) for item in context.request.resources
        ]
    }


def _incremental_resource(
    context: RequestContext, item: Any, named: Counter[tuple[int, str]]
) -> Values:
    about = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    try:
        if named[item.resource_type, item.resource_name] > 1:
            raise invalid_request("Each resource must appear at most once.")
        if item.resource_type == ResourceType.BROKER_LOGGER:
            _change_levels(context, item)
        else:
            _change(context, item)
    except TopicError as error:
        return about | {"error_code": error.error, "error_message": error.message or None}
    return about | {"error_code": ErrorCode.none, "error_message": None}


def _change(context: RequestContext, item: Any) -> None:
    resource = find_resource(context, item.resource_type, item.resource_name)
    changes = {change.name: change for change in item.configs}
    if len(changes) < len(item.configs):
        raise invalid_request("Error due to duplicate config keys")
    own = dict(resource.own)
    for change in changes.values():
        _apply(own, resource, change)
    resource.check({name: own[name] for name in changes if name in own})
    if not context.request.validate_only:
        resource.apply(own)


def _apply(own: dict[str, str], resource: Resource, change: Any) -> None:
    if change.config_operation not in set(Operation):
        kafka_tells = resource.unknown_operation is ErrorCode.invalid_request
        text = f"Unknown operation {change.config_operation}." if kafka_tells else ""
        raise TopicError(resource.unknown_operation, text)
    if change.config_operation == Operation.DELETE:
        own.pop(change.name, None)
        return
    if change.value is None:
        raise invalid_request(f"Null value not supported for {change.name}")
    if change.config_operation == Operation.SET:
        own[change.name] = change.value
        return
    if not is_list(resource, change.name):
        raise TopicError(
            ErrorCode.invalid_config, f"The type of {change.name} is not LIST, so only set it."
        )
    present = [value for value in resource.value(change.name).split(",") if value]
    given = change.value.split(",")
    if change.config_operation == Operation.APPEND:
        kept = present + [value for value in given if value not in present]
    else:
        kept = [value for value in present if value not in given]
    own[change.name] = ",".join(kept)


def _change_levels(context: RequestContext, item: Any) -> None:
    check_node(context, item.resource_name)
    for change in item.configs:
        if change.config_operation not in {Operation.SET, Operation.DELETE}:
            raise invalid_request("Levels of loggers are set or deleted, and nothing else.")
        if change.name not in levels():
            raise TopicError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
        if change.config_operation == Operation.SET and change.value not in LEVELS:
            raise TopicError(
                ErrorCode.invalid_config, f"Log level {change.value} is none of {list(LEVELS)}."
            )
    for change in () if context.request.validate_only else item.configs:
        deletes = change.config_operation == Operation.DELETE
        set_level(change.name, None if deletes else change.value)


INCREMENTAL_ALTER_CONFIGS = Handler(
    api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=VersionRange(0, 1),
    handle=incremental_alter_configs,
)
