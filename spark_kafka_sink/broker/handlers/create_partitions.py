"""CreatePartitions 0-3: a topic gets more partitions; explicit assignments are counted only.

A count that is not larger is INVALID_PARTITIONS, a wrong number of assignments
INVALID_REPLICA_ASSIGNMENT, a topic named twice INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.broker.topics import TopicError
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topics import Topic
    from spark_kafka_sink.protocol.build import Values


def handle(call: Call) -> Answer:
    """See the module."""
    names = [item.name for item in call.request.topics]
    return {"results": [_grow(call, item, names) for item in call.request.topics]}


def _grow(call: Call, item: Any, names: list[str]) -> Values:
    try:
        topic = _checked(call.cluster.topics.named(item.name), item, names)
    except TopicError as error:
        return {"name": item.name, "error_code": error.error, "error_message": error.message}
    if not call.request.validate_only:
        call.cluster.topics.add_partitions(topic, item.count)
    return {"name": item.name}


def _checked(topic: Topic | None, item: Any, names: list[str]) -> Topic:
    if names.count(item.name) > 1:
        raise TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
    if topic is None:
        raise TopicError(
            ErrorCode.unknown_topic_or_partition, f"Topic '{item.name}' does not exist."
        )
    present = len(topic.partitions)
    if item.count == present:
        raise TopicError(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if item.count < present:
        raise TopicError(
            ErrorCode.invalid_partitions,
            f"Topic '{item.name}' has {present} partition(s), {item.count} would not be more.",
        )
    if item.assignments is not None and len(item.assignments) != item.count - present:
        raise TopicError(
            ErrorCode.invalid_replica_assignment,
            f"{len(item.assignments)} assignment(s) for {item.count - present} new partition(s).",
        )
    return topic


HANDLER = Handler(api=ApiKey.CREATE_PARTITIONS, versions=VersionRange(0, 3), handle=handle)
