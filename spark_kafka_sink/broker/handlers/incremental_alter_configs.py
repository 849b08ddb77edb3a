"""IncrementalAlterConfigs 0-1 (KIP-339): set, delete, append to and subtract from topic configs.

Changes count at once. Configs of brokers are fixed when the broker starts: INVALID_REQUEST.
An operation that does not exist is UNKNOWN_SERVER_ERROR, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.broker.topic_config import TOPIC_KEYS, ConfigType, problem_with
from spark_kafka_sink.broker.topics import TopicError
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topic_config import TopicConfig
    from spark_kafka_sink.protocol.build import Values

TOPIC = 2


class Operation(IntEnum):
    """What to do with a config, with the numbers of the request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def handle(call: Call) -> Answer:
    """See the module."""
    named = Counter((item.resource_type, item.resource_name) for item in call.request.resources)
    return {"responses": [_resource(call, item, named) for item in call.request.resources]}


def _resource(call: Call, item: Any, named: Counter[tuple[int, str]]) -> Values:
    about = {"resource_type": item.resource_type, "resource_name": item.resource_name}
    try:
        _change_topic(call, item, named[item.resource_type, item.resource_name])
    except TopicError as error:
        return about | {"error_code": error.error, "error_message": error.message}
    return about | {"error_code": ErrorCode.none, "error_message": None}


def _change_topic(call: Call, item: Any, times: int) -> None:
    if times > 1:
        raise TopicError(ErrorCode.invalid_request, "Each resource must appear at most once.")
    if item.resource_type != TOPIC:
        raise TopicError(ErrorCode.invalid_request, "Only configs of topics can be changed.")
    topic = call.cluster.topics.named(item.resource_name)
    if topic is None:
        raise TopicError(
            ErrorCode.unknown_topic_or_partition, "The topic does not exist in this cluster."
        )
    changes = {change.name: change for change in item.configs}
    if len(changes) < len(item.configs):
        raise TopicError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    own = dict(topic.config.own)
    for change in changes.values():
        _apply(own, topic.config, change)
    if problem := problem_with({name: own[name] for name in changes if name in own}):
        raise TopicError(ErrorCode.invalid_config, problem)
    if not call.request.validate_only:
        call.cluster.topics.configure(topic, own)


def _apply(own: dict[str, str], config: TopicConfig, change: Any) -> None:
    if change.config_operation not in set(Operation):
        raise TopicError(
            ErrorCode.unknown_server_error, f"Unknown operation {change.config_operation}."
        )
    if change.config_operation == Operation.DELETE:
        own.pop(change.name, None)
        return
    if change.value is None:
        raise TopicError(ErrorCode.invalid_request, f"Null value not supported for {change.name}")
    if change.config_operation == Operation.SET:
        own[change.name] = change.value
        return
    key = TOPIC_KEYS.get(change.name)
    if key is None or key.type is not ConfigType.LIST:
        raise TopicError(
            ErrorCode.invalid_config, f"The type of {change.name} is not LIST, so only set it."
        )
    present = [value for value in config[change.name].split(",") if value]
    given = change.value.split(",")
    if change.config_operation == Operation.APPEND:
        kept = present + [value for value in given if value not in present]
    else:
        kept = [value for value in present if value not in given]
    own[change.name] = ",".join(kept)


HANDLER = Handler(api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=VersionRange(0, 1), handle=handle)
