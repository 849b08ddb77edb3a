"""Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.authorization.denials import CLUSTER_NAME
from spark_kafka_sink.broker.cluster.topics import TopicSpec
from spark_kafka_sink.broker.handlers.cluster import describe_brokers
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.broker.requests.shapes import id_of, unknown_topic
from spark_kafka_sink.kafka.protocol.acl import NO_OPERATIONS, AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

_NULLABLE_NAME = 12
"""First version of Metadata whose topics have a nullable name."""
_MAX_PARTITIONS = 2_000
"""Kafka's max.request.partition.size.limit."""


def metadata(context: RequestContext) -> HandlerResult:
    """Return brokers, topics, and the leader of each partition (Metadata 0-13).

    All topics are returned if the request's list is null (in version 0 also if it is empty). Since
    version 10, topics can be requested by id (KIP-516). An unknown topic is created if the broker
    and (since version 4) the client allow this. A partition whose in-sync replicas are all down has
    no leader; its error is LEADER_NOT_AVAILABLE.
    """
    cluster, requested = context.cluster, context.request.topics
    if requested is None or (context.version == 0 and not requested):
        topics = [_describe_topic(context, topic) for topic in _described_topics(context)]
    else:
        topics = [_find_topic(context, item) for item in requested]
        topics.sort(key=_is_denied)  # Denied topics are last, as in Kafka.
    return {
        "brokers": describe_brokers(context, "node_id"),
        "cluster_id": cluster.config.cluster_id,
        "controller_id": cluster.controller_id,
        "topics": topics,
        "cluster_authorized_operations": context.requested_operations(ResourceType.CLUSTER),
    }


def _described_topics(context: RequestContext) -> list[Topic]:
    """Return the topics that the client may describe."""
    return [topic for topic in context.cluster.topics.all() if _may_describe(context, topic.name)]


def _may_describe(context: RequestContext, topic: str) -> bool:
    return context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)


def _is_denied(topic: FieldValues) -> bool:
    return topic.get("error_code") is ErrorCode.topic_authorization_failed


def _find_topic(context: RequestContext, item: Any) -> FieldValues:
    """Return the entry of a requested topic.

    If the client may not describe the topic, the error does not reveal whether the topic exists.
    """
    topics = context.cluster.topics
    by_id = id_of(item)
    topic = topics.with_id(by_id) if by_id is not None else topics.named(item.name)
    displayed_name = item.name
    if by_id is not None:
        displayed_name = None if context.version >= _NULLABLE_NAME else ""
    if topic is None and by_id is not None:
        return _failed_topic(context, unknown_topic(item), displayed_name) | {"topic_id": by_id}
    name = topic.name if topic else item.name or ""
    if not _may_describe(context, name) or (topic is None and not _may_create(context, name)):
        return {
            "error_code": ErrorCode.topic_authorization_failed,
            "name": displayed_name,
            "topic_id": by_id,
            "topic_authorized_operations": NO_OPERATIONS,
        }
    return _describe_topic(context, topic) if topic else _create_if_enabled(context, name)


def _creates_topics(context: RequestContext) -> bool:
    """Return True if both the broker and the client allow that the request creates topics."""
    is_allowed: bool = context.get("allow_auto_topic_creation", True)
    return context.cluster.config.auto_create_topics and is_allowed


def _may_create(context: RequestContext, topic: str) -> bool:
    """Return False if the request would create the topic without authorization of the client."""
    return not _creates_topics(context) or (
        context.allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        and context.allows(AclOperation.CREATE, ResourceType.TOPIC, topic)
    )


def _create_if_enabled(context: RequestContext, name: str) -> FieldValues:
    new = TopicSpec(name=name)
    try:
        context.cluster.topics.check(new)
        if _creates_topics(context):
            return _describe_topic(context, context.cluster.topics.create(new))
    except ResponseError as error:
        return _failed_topic(context, error.code, name)
    return _failed_topic(context, ErrorCode.unknown_topic_or_partition, name)


def _failed_topic(context: RequestContext, error: ErrorCode, name: str | None) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_authorized_operations": context.requested_operations(ResourceType.TOPIC, name),
    }


def _describe_topic(context: RequestContext, topic: Topic) -> FieldValues:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "topic_authorized_operations": context.requested_operations(ResourceType.TOPIC, topic.name),
        "partitions": [_describe_partition(context, partition) for partition in topic.partitions],
    }


def _describe_partition(context: RequestContext, partition: Partition) -> FieldValues:
    """Return the fields of a partition in responses to Metadata and DescribeTopicPartitions."""
    active = context.cluster.nodes
    has_leader = partition.leader in active
    return {
        "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.in_sync,
        "offline_replicas": [node for node in partition.replicas if node not in active],
    }


def describe_topic_partitions(context: RequestContext) -> HandlerResult:
    """Return partitions ordered by topic name, in pages (DescribeTopicPartitions 0, KIP-966).

    All topics are returned if the request lists none. A page contains at most
    response_partition_limit partitions, and never more than 2,000. The cursor is the first
    partition of the next page.
    """
    cursor = context.request.cursor
    first = (cursor.topic_name, cursor.partition_index) if cursor else ("", 0)
    left = min(context.request.response_partition_limit, _MAX_PARTITIONS)
    described: list[FieldValues] = []
    requested = {item.name for item in context.request.topics}
    for name in sorted(requested) or [topic.name for topic in context.cluster.topics.all()]:
        if name < first[0]:
            continue
        start = first[1] if name == first[0] else 0
        if left <= 0:
            next_page = {"topic_name": name, "partition_index": start}
            return _page_response(context, described, next_page)
        topic = context.cluster.topics.named(name)
        partitions = topic.partitions[start : start + left] if topic else []
        described.append(_describe_page(context, name, topic, partitions))
        left -= len(partitions)
        end = start + len(partitions)
        if topic and left <= 0 and end < len(topic.partitions):
            return _page_response(context, described, {"topic_name": name, "partition_index": end})
    return _page_response(context, described, None)


def _describe_page(
    context: RequestContext, name: str, topic: Topic | None, partitions: list[Partition]
) -> FieldValues:
    common = {
        "name": name,
        "topic_authorized_operations": context.authorized_operations(ResourceType.TOPIC, name),
    }
    if topic is None:
        return common | {"error_code": ErrorCode.unknown_topic_or_partition, "topic_id": None}
    elr: FieldValues = {"eligible_leader_replicas": (), "last_known_elr": ()}
    described = [{**_describe_partition(context, partition), **elr} for partition in partitions]
    return common | {"topic_id": topic.id, "partitions": described}


def _page_response(
    context: RequestContext, topics: list[FieldValues], cursor: FieldValues | None
) -> FieldValues:
    visible = [topic for topic in topics if _may_describe(context, topic["name"])]
    return {"topics": visible, "next_cursor": cursor}
