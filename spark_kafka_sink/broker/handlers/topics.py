"""CreateTopics, CreatePartitions, DeleteTopics and DeleteRecords.

CreateTopics 2-7: partition count, replication factor, explicit assignments. Unknown or invalid
configs are refused (topic_config.py). The response has the configs of the new topic since version 5
(KIP-525) and its id since version 7.

CreatePartitions 0-3: add partitions to a topic, optionally on given nodes. A count that is not
larger fails with INVALID_PARTITIONS, a topic named twice with INVALID_REQUEST, and a wrong number
of assignments or an assignment to unknown nodes with INVALID_REPLICA_ASSIGNMENT.

DeleteTopics 1-6: topics by name, since version 6 also by id.

DeleteRecords 0-2: move the log start offset forward; -1 is the high watermark. An offset above the
high watermark fails with OFFSET_OUT_OF_RANGE, a topic whose cleanup policy is only "compact" with
POLICY_VIOLATION. Disk space is freed in whole segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.topics import NewTopic, TopicError
from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    RequestContext,
    missing,
    topic_of,
)
from spark_kafka_sink.broker.topic_config import TOPIC_KEYS
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition, Topic
    from spark_kafka_sink.protocol.messages import Values


def create_topics(context: RequestContext) -> Answer:
    """Handle the CreateTopics API."""
    names = [item.name for item in context.request.topics]
    items = {item.name: item for item in context.request.topics}
    return {"topics": [_create(context, item, names) for item in items.values()]}


def _create(context: RequestContext, item: Any, names: list[str]) -> dict[str, Any]:
    topics = context.cluster.topics
    new = NewTopic(
        name=item.name,
        partitions=item.num_partitions,
        replication_factor=item.replication_factor,
        assignments={a.partition_index: list(a.broker_ids) for a in item.assignments},
        configs={config.name: config.value for config in item.configs},
    )
    if names.count(item.name) > 1:
        return _refused(new, TopicError(ErrorCode.invalid_request, "Duplicate topic name."))
    if len(new.assignments) < len(item.assignments):
        twice = "Found multiple manual partition assignments for one partition."
        return _refused(new, TopicError(ErrorCode.invalid_replica_assignment, twice))
    try:
        topics.check(new)
        return _created(topics.draft(new) if context.request.validate_only else topics.create(new))
    except TopicError as error:
        return _refused(new, error)


def _refused(new: NewTopic, error: TopicError) -> dict[str, Any]:
    return {
        "name": new.name,
        "error_code": error.error,
        "error_message": error.message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _created(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "error_code": ErrorCode.none,
        "num_partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "configs": [
            {
                "name": name,
                "value": topic.config[name],
                "read_only": False,
                "config_source": int(topic.config.source(name)),
                "is_sensitive": False,
            }
            for name in TOPIC_KEYS
        ],
    }


CREATE_TOPICS = Handler(api=ApiKey.CREATE_TOPICS, versions=VersionRange(2, 7), handle=create_topics)


def create_partitions(context: RequestContext) -> Answer:
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


CREATE_PARTITIONS = Handler(
    api=ApiKey.CREATE_PARTITIONS, versions=VersionRange(0, 3), handle=create_partitions
)


NOT_THERE = "This server does not host this topic."


def delete_topics(context: RequestContext) -> Answer:
    """Handle the DeleteTopics API."""
    if context.version >= 6:
        return {"responses": [_delete_state(context, item) for item in context.request.topics]}
    return {"responses": [_delete_name(context, name) for name in context.request.topic_names]}


def _delete_state(context: RequestContext, item: Any) -> Values:
    topic = topic_of(context, item)
    if topic is None:
        gone = {"error_code": missing(item), "error_message": NOT_THERE}
        return {"name": item.name, "topic_id": item.topic_id} | gone
    return {"name": topic.name, "topic_id": topic.id} | _delete(context, topic)


def _delete_name(context: RequestContext, name: str) -> Values:
    topic = context.cluster.topics.named(name)
    if topic is None:
        return {"name": name, "error_code": missing(None), "error_message": NOT_THERE}
    return {"name": name} | _delete(context, topic)


def _delete(context: RequestContext, topic: Topic) -> dict[str, Any]:
    try:
        context.cluster.topics.delete(topic)
    except TopicError as error:
        return {"error_code": error.error, "error_message": error.message}
    return {}


DELETE_TOPICS = Handler(api=ApiKey.DELETE_TOPICS, versions=VersionRange(1, 6), handle=delete_topics)


HIGH_WATERMARK = -1
NO_OFFSET = -1


def delete_records(context: RequestContext) -> Answer:
    """Handle the DeleteRecords API."""
    return {"topics": [_topic(context, item) for item in context.request.topics]}


def _topic(context: RequestContext, item: Any) -> Values:
    partitions = [_delete_records(context, item.name, p) for p in item.partitions]
    return {"name": item.name, "partitions": partitions}


def _delete_records(context: RequestContext, name: str, asked: Any) -> Values:
    topic = context.cluster.topics.named(name)
    partition = topic.partition(asked.partition_index) if topic else None
    if topic is None or partition is None:
        return _failed(asked, ErrorCode.unknown_topic_or_partition)
    if error := partition.leadership_error(context.node, -1):
        return _failed(asked, error)
    if "delete" not in topic.config["cleanup.policy"].split(","):
        return _failed(asked, ErrorCode.policy_violation)
    end = partition.high_watermark
    offset = end if asked.offset == HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= end:
        return _failed(asked, ErrorCode.offset_out_of_range)
    _apply(context, partition, offset)
    return {
        "partition_index": asked.partition_index,
        "low_watermark": partition.log.start_offset,
    }


def _apply(context: RequestContext, partition: Partition, offset: int) -> None:
    if offset <= partition.log.start_offset:
        return
    partition.log.delete_records(offset)
    context.cluster.topics.store.save_start(partition)


def _failed(asked: Any, error: ErrorCode) -> Values:
    return {
        "partition_index": asked.partition_index,
        "low_watermark": NO_OFFSET,
        "error_code": error,
    }


DELETE_RECORDS = Handler(
    api=ApiKey.DELETE_RECORDS, versions=VersionRange(0, 2), handle=delete_records
)
