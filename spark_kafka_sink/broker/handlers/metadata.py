"""Metadata, DescribeTopicPartitions, DescribeCluster, FindCoordinator and DescribeLogDirs.

Metadata 0-13: brokers, topics, and the leader of each partition. All topics are returned if the
request's list is null (in version 0 also if it is empty). Since version 10, topics can be requested
by id (KIP-516). An unknown topic is created if the broker and (since version 4) the client allow
this. A partition whose in-sync replicas are all down has no leader; its error is
LEADER_NOT_AVAILABLE.

DescribeTopicPartitions 0 (KIP-966): partitions ordered by topic name, in pages. All topics are
returned if the request lists none. A page contains at most response_partition_limit partitions, and
never more than 2,000. The cursor is the first partition of the next page.

DescribeCluster 0-2: the brokers, the controller and the cluster id.

FindCoordinator 0-6: the node that coordinates a consumer group or, since version 1, a transactional
id. Since version 4, a request can contain several keys (KIP-699). Other key types fail with
INVALID_REQUEST.

DescribeLogDirs 1-5: log sizes, and the size of the volume that contains the data folder, if any.

Authorized operations (KIP-430) are a bit field of all operations that are not denied to the client.
Kafka's AclEntry.supportedOperations defines the operations of a resource type. The code of an
AclOperation is the index of its bit.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.broker.cluster.response_error import ResponseError
from spark_kafka_sink.broker.cluster.topics import TopicSpec
from spark_kafka_sink.broker.request_shapes import id_of, unknown_topic
from spark_kafka_sink.broker.security.denials import CLUSTER_NAME
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

_REQUESTED_BY: Final = {
    ResourceType.TOPIC: "include_topic_authorized_operations",
    ResourceType.GROUP: "include_authorized_operations",
    ResourceType.CLUSTER: "include_cluster_authorized_operations",
}
"""The field with which a client requests the authorized operations."""
NOT_REQUESTED: Final = -(2**31)
"""Value of the authorized operations if the client did not request them."""
_NULLABLE_NAME = 12
"""First version of Metadata whose topics have a nullable name."""
_MAX_PARTITIONS = 2_000
"""Kafka's max.request.partition.size.limit."""
_BROKER_ENDPOINT = 1
_CONTROLLER_ENDPOINT = 2
"""Values of endpoint_type in DescribeCluster."""
_GROUP_KEY = 0
_TRANSACTION_KEY = 1
"""Values of key_type in FindCoordinator."""
_FIND_SEVERAL = 4
"""First version of FindCoordinator with several keys."""
_IN_MEMORY = "/memory"
"""The folder that DescribeLogDirs reports if there is no data folder."""


def _operation_bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS = _operation_bits(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_OPERATIONS: Final = {
    ResourceType.TOPIC: _CONFIGS
    | _operation_bits(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE)
    | _operation_bits(AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE),
    ResourceType.GROUP: _CONFIGS
    | _operation_bits(AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    ResourceType.CLUSTER: _CONFIGS
    | _operation_bits(AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE)
    | _operation_bits(AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE),
}
"""The operations on each type of resource."""


def allowed_operations(context: RequestContext, type_: ResourceType, name: str | None) -> int:
    """Return the authorized operations on a resource."""
    denials = context.cluster.denials
    return denials.without_denied(_OPERATIONS[type_], context.user, type_, name or "")


def operations_on(context: RequestContext, type_: ResourceType, name: str | None) -> int:
    """Return the authorized operations on a resource, or `NOT_REQUESTED`."""
    if not context.get(_REQUESTED_BY[type_], False):
        return NOT_REQUESTED
    return allowed_operations(context, type_, name)


def metadata(context: RequestContext) -> HandlerResult:
    """Handle the Metadata API."""
    cluster, requested = context.cluster, context.request.topics
    if requested is None or (context.version == 0 and not requested):
        topics = [_describe_topic(context, topic) for topic in _described_topics(context)]
    else:
        topics = [_find_topic(context, item) for item in requested]
        topics.sort(key=_is_denied)  # Denied topics are last, as in Kafka.
    return {
        "brokers": _describe_brokers(context, "node_id"),
        "cluster_id": cluster.config.cluster_id,
        "controller_id": cluster.controller_id,
        "topics": topics,
        "cluster_authorized_operations": operations_on(context, ResourceType.CLUSTER, CLUSTER_NAME),
    }


def _describe_brokers(context: RequestContext, id_field: str) -> list[FieldValues]:
    nodes = context.cluster.nodes.values()
    return [{id_field: node.id, "host": node.host, "port": node.port} for node in nodes]


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
    shown = item.name
    if by_id is not None:
        shown = None if context.version >= _NULLABLE_NAME else ""
    if topic is None and by_id is not None:
        return _failed_topic(context, unknown_topic(item), shown) | {"topic_id": by_id}
    name = topic.name if topic else item.name or ""
    if not _may_describe(context, name) or (topic is None and not _may_create(context, name)):
        return {
            "error_code": ErrorCode.topic_authorization_failed,
            "name": shown,
            "topic_id": by_id,
            "topic_authorized_operations": NOT_REQUESTED,
        }
    return _describe_topic(context, topic) if topic else _create_if_enabled(context, name)


def _creates_topics(context: RequestContext) -> bool:
    """Return True if both the broker and the client allow that the request creates topics."""
    allowed: bool = context.get("allow_auto_topic_creation", True)
    return context.cluster.config.auto_create_topics and allowed


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
        "topic_authorized_operations": operations_on(context, ResourceType.TOPIC, name),
    }


def _describe_topic(context: RequestContext, topic: Topic) -> FieldValues:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "topic_authorized_operations": operations_on(context, ResourceType.TOPIC, topic.name),
        "partitions": [describe_partition(context, partition) for partition in topic.partitions],
    }


def describe_partition(context: RequestContext, partition: Partition) -> FieldValues:
    """Return the fields of a partition in responses to Metadata and DescribeTopicPartitions."""
    has_leader = partition.leader in context.cluster.nodes
    return {
        "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.in_sync,
        "offline_replicas": [n for n in partition.replicas if n not in context.cluster.nodes],
    }


def describe_topic_partitions(context: RequestContext) -> HandlerResult:
    """Handle the DescribeTopicPartitions API."""
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
            return _page_response(
                context, described, {"topic_name": name, "partition_index": start}
            )
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
        "topic_authorized_operations": allowed_operations(context, ResourceType.TOPIC, name),
    }
    if topic is None:
        return common | {"error_code": ErrorCode.unknown_topic_or_partition, "topic_id": None}
    elr: FieldValues = {"eligible_leader_replicas": (), "last_known_elr": ()}
    described = [{**describe_partition(context, partition), **elr} for partition in partitions]
    return common | {"topic_id": topic.id, "partitions": described}


def _page_response(
    context: RequestContext, topics: list[FieldValues], cursor: FieldValues | None
) -> FieldValues:
    shown = [topic for topic in topics if _may_describe(context, topic["name"])]
    return {"topics": shown, "next_cursor": cursor}


def describe_cluster(context: RequestContext) -> HandlerResult:
    """Handle the DescribeCluster API."""
    cluster = context.cluster
    requested = context.get("endpoint_type", _BROKER_ENDPOINT)
    if requested == _CONTROLLER_ENDPOINT:
        message = "This is a broker's endpoint."
        return {"error_code": ErrorCode.mismatched_endpoint_type, "error_message": message}
    if requested != _BROKER_ENDPOINT:
        message = f"Unsupported endpoint type {requested}."
        return {"error_code": ErrorCode.unsupported_endpoint_type, "error_message": message}
    return {
        "cluster_id": cluster.config.cluster_id,
        "controller_id": cluster.controller_id,
        "endpoint_type": _BROKER_ENDPOINT,
        "brokers": _describe_brokers(context, "broker_id"),
        "cluster_authorized_operations": operations_on(context, ResourceType.CLUSTER, CLUSTER_NAME),
    }


def find_coordinator(context: RequestContext) -> HandlerResult:
    """Handle the FindCoordinator API."""
    if context.version >= _FIND_SEVERAL:
        return context.handle_each_item(partial(_find_node, context))
    return {"error_message": "NONE", **_find_node(context, context.request.key)}


def _find_node(context: RequestContext, key: str) -> FieldValues:
    if context.get("key_type", _GROUP_KEY) not in {_GROUP_KEY, _TRANSACTION_KEY}:
        return {
            "node_id": -1,
            "port": -1,
            "error_code": ErrorCode.invalid_request,
            "error_message": "This broker coordinates only consumer groups and transactions",
        }
    node = context.cluster.coordinator(key)
    return {"node_id": node.id, "host": node.host, "port": node.port}


def describe_log_dirs(context: RequestContext) -> HandlerResult:
    """Handle the DescribeLogDirs API."""
    folder, items = context.cluster.config.data_dir, context.request.topics
    volume = shutil.disk_usage(folder) if folder else None
    requested = None if items is None else {(i.topic, p) for i in items for p in i.partitions}
    topics = []
    for topic in context.cluster.topics.all():
        partitions = [
            {"partition_index": partition.index, "partition_size": partition.log.size}
            for partition in topic.partitions
            if context.node in partition.replicas
            and (requested is None or (topic.name, partition.index) in requested)
        ]
        if partitions:
            topics.append({"name": topic.name, "partitions": partitions})
    directory = {
        "log_dir": folder or _IN_MEMORY,
        "topics": topics,
        "total_bytes": volume.total if volume else -1,
        "usable_bytes": volume.free if volume else -1,
    }
    return {"results": [directory]}
