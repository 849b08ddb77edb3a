"""Metadata 0-13: brokers, topics, and who leads each partition.

All topics where none are named (null, and in version 0 also an empty list). Topics by id since
version 10 (KIP-516). An unknown topic is created where the broker and, since version 4, the client
allow it. A partition whose replicas in sync are all down has no leader: LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.new_topic import NewTopic, TopicError
from spark_kafka_sink.broker.handlers.authorized_operations import of_cluster, of_topic
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import id_of, missing
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.protocol.message_builder import Values

NULL_NAME_VERSION = 12


def handle(context: RequestContext) -> Answer:
    """Handle the Metadata API."""
    cluster = context.cluster
    asked = context.request.topics
    if asked is None or (context.version == 0 and not asked):
        topics = [_describe(context, topic) for topic in cluster.topics.all()]
    else:
        topics = [_find(context, item) for item in asked]
    return {
        "brokers": [
            {"node_id": node.id, "host": node.host, "port": node.port}
            for node in cluster.nodes.values()
        ],
        "cluster_id": cluster.config.cluster_id,
        "controller_id": cluster.controller_id,
        "topics": topics,
        "cluster_authorized_operations": of_cluster(context),
    }


def _find(context: RequestContext, item: Any) -> Values:
    topics = context.cluster.topics
    by_id = id_of(item)
    topic = topics.with_id(by_id) if by_id is not None else topics.named(item.name)
    if topic is not None:
        return _describe(context, topic)
    if by_id is not None:
        name = None if context.version >= NULL_NAME_VERSION else ""
        return _missing(context, missing(item), name) | {"topic_id": by_id}
    return _create_or_miss(context, item.name or "")


def _create_or_miss(context: RequestContext, name: str) -> Values:
    new = NewTopic(name=name)
    try:
        context.cluster.topics.check(new)
        if context.cluster.config.auto_create_topics and context.get(
            "allow_auto_topic_creation", True
        ):
            return _describe(context, context.cluster.topics.create(new))
    except TopicError as error:
        return _missing(context, error.error, name)
    return _missing(context, ErrorCode.unknown_topic_or_partition, name)


def _missing(context: RequestContext, error: ErrorCode, name: str | None) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_authorized_operations": of_topic(context, name),
    }


def _describe(context: RequestContext, topic: Topic) -> Values:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "topic_authorized_operations": of_topic(context, topic.name),
        "partitions": [describe_partition(context, partition) for partition in topic.partitions],
    }


def describe_partition(context: RequestContext, partition: Partition) -> Values:
    """One partition, as Metadata and DescribeTopicPartitions name it."""
    led = partition.leader in context.cluster.nodes
    return {
        "error_code": ErrorCode.none if led else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.in_sync,
        "offline_replicas": [n for n in partition.replicas if n not in context.cluster.nodes],
    }


HANDLER = Handler(api=ApiKey.METADATA, versions=VersionRange(0, 13), handle=handle)
