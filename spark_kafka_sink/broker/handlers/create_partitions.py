"""CreatePartitions 0-3: a topic gets more partitions, on the nodes that are asked for.

A count that is not larger is INVALID_PARTITIONS, a topic named twice INVALID_REQUEST. A wrong
number of assignments, or one to other nodes than there are, is INVALID_REPLICA_ASSIGNMENT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.new_topic import TopicError
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.protocol.message_builder import Values


def handle(context: RequestContext) -> Answer:
    """Handle the CreatePartitions API."""
    names = [item.name for item in context.request.topics]
    return {"results": [_grow(context, item, names) for item in context.request.topics]}


def _grow(context: RequestContext, item: Any, names: list[str]) -> Values:
    topics = context.cluster.topics
    try:
        topic = _checked(topics.named(item.name), item, names)
        asked = [list(one.broker_ids) for one in item.assignments or ()]
        for replicas in asked:
            topics.check_replicas(topic, replicas)
        if not context.request.validate_only:
            topics.add_partitions(topic, item.count, dict(enumerate(asked, len(topic.partitions))))
    except TopicError as error:
        message = error.message or None
        return {"name": item.name, "error_code": error.error, "error_message": message}
    return {"name": item.name}


def _checked(topic: Topic | None, item: Any, names: list[str]) -> Topic:
    if names.count(item.name) > 1:
        raise TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
    if topic is None:
        raise TopicError(ErrorCode.unknown_topic_or_partition, "")
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
