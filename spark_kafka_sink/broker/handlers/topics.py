"""CreateTopics, CreatePartitions, DeleteTopics and DeleteRecords.

CreateTopics 2-7: create topics with a partition count and replication factor, or with explicit
assignments. Unknown and invalid configs are rejected (topic_config.py). The response contains the
configs of the new topic since version 5 (KIP-525) and its id since version 7.

CreatePartitions 0-3: add partitions to a topic, optionally on specified nodes. The errors are
INVALID_PARTITIONS if the count is not larger, INVALID_REQUEST for duplicate topics, and
INVALID_REPLICA_ASSIGNMENT for a wrong number of assignments or assignments to unknown nodes.

DeleteTopics 1-6: delete topics by name or, since version 6, by id.

DeleteRecords 0-2: advance the log start offset; -1 means the high watermark. The errors are
OFFSET_OUT_OF_RANGE for an offset above the high watermark, and POLICY_VIOLATION if the topic's
cleanup policy is only "compact". Disk space is freed in whole segments.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.topics import NewTopic, TopicError
from spark_kafka_sink.broker.request_shapes import unknown_topic
from spark_kafka_sink.broker.topic_config import TOPIC_KEYS
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import Answer, RequestContext
    from spark_kafka_sink.broker.partition.partition import Topic
    from spark_kafka_sink.protocol.messages import Values


HIGH_WATERMARK = -1
"""Offset in DeleteRecords that represents the high watermark."""


def create_topics(context: RequestContext) -> Answer:
    """Handle the CreateTopics API."""
    names = Counter(item.name for item in context.request.topics)
    topics = tuple({item.name: item for item in context.request.topics}.values())
    unique = context._replace(request=replace(context.request, topics=topics))
    return unique.by_item(ApiKey.CREATE_TOPICS, partial(_create, context, names))


def _create(context: RequestContext, names: Counter[str], item: Any) -> Values:
    topics = context.cluster.topics
    new = NewTopic(
        name=item.name,
        partitions=item.num_partitions,
        replication_factor=item.replication_factor,
        assignments={a.partition_index: list(a.broker_ids) for a in item.assignments},
        configs={config.name: config.value for config in item.configs},
    )
    if names[item.name] > 1:
        raise TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
    if len(new.assignments) < len(item.assignments):
        twice = "Found multiple manual partition assignments for one partition."
        raise TopicError(ErrorCode.invalid_replica_assignment, twice)
    topics.check(new)
    return _created(topics.draft(new) if context.request.validate_only else topics.create(new))


def _created(topic: Topic) -> Values:
    return {
        "topic_id": topic.id,
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


def create_partitions(context: RequestContext) -> Answer:
    """Handle the CreatePartitions API."""
    names = Counter(item.name for item in context.request.topics)
    return context.by_item(ApiKey.CREATE_PARTITIONS, partial(_add_partitions, context, names))


def _add_partitions(context: RequestContext, names: Counter[str], item: Any) -> ErrorCode:
    topics = context.cluster.topics
    if names[item.name] > 1:
        raise TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
    topic = topics.named(item.name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition
    _check_count(topic, item)
    replicas = [list(one.broker_ids) for one in item.assignments or ()]
    for assigned in replicas:
        topics.check_replicas(topic, assigned)
    if not context.request.validate_only:
        assignments = dict(enumerate(replicas, len(topic.partitions)))
        topics.add_partitions(topic, item.count, assignments)
    return ErrorCode.none


def _check_count(topic: Topic, item: Any) -> None:
    present = len(topic.partitions)
    if item.count == present:
        raise TopicError(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if item.count < present:
        raise TopicError(
            ErrorCode.invalid_partitions,
            f"Topic '{item.name}' already has {present} partition(s), more than {item.count}.",
        )
    if item.assignments is not None and len(item.assignments) != item.count - present:
        raise TopicError(
            ErrorCode.invalid_replica_assignment,
            f"{len(item.assignments)} assignment(s) for {item.count - present} new partition(s).",
        )


def delete_topic(context: RequestContext, item: Any) -> Values:
    """Handle a topic of the DeleteTopics API."""
    topic = context.find_topic(item)
    if topic is None:
        raise TopicError(unknown_topic(item), "This server does not host this topic.")
    context.cluster.topics.delete(topic)
    return {"name": topic.name, "topic_id": topic.id}


def delete_records(context: RequestContext, item: Any, requested: Any) -> Values | ErrorCode:
    """Handle a partition of the DeleteRecords API."""
    topic = context.cluster.topics.named(item.name)
    partition = topic.partition(requested.partition_index) if topic else None
    if topic is None or partition is None:
        return ErrorCode.unknown_topic_or_partition
    if error := partition.leadership_error(context.node, -1):
        return error
    if "delete" not in topic.config["cleanup.policy"].split(","):
        return ErrorCode.policy_violation
    end = partition.high_watermark
    offset = end if requested.offset == HIGH_WATERMARK else requested.offset
    if not 0 <= offset <= end:
        return ErrorCode.offset_out_of_range
    if offset > partition.log.start_offset:
        context.cluster.topics.store.delete_records(partition, offset)
    return {"low_watermark": partition.log.start_offset}
