"""Metadata, DescribeTopicPartitions, DescribeCluster and FindCoordinator.

Metadata 0-13: brokers, topics, and the leader of each partition. All topics are returned if the
request's list is null (in version 0 also if it is empty). Topics may be requested by id since
version 10 (KIP-516). An unknown topic is created if the broker and, since version 4, the client
allow it. A partition whose in-sync replicas are all down has no leader: LEADER_NOT_AVAILABLE.

DescribeTopicPartitions 0 (KIP-966): partitions in order of topic names, in pages. All topics are
returned if the request names none. A page has at most response_partition_limit partitions, and
never more than 2,000; the cursor names the first partition of the next page.

DescribeCluster 0-2: the brokers, the controller and the cluster id.

FindCoordinator 0-6: the node that coordinates a consumer group or, since version 1, a transactional
id. Several keys per request since version 4 (KIP-699). Other key types fail with INVALID_REQUEST.

Authorized operations (KIP-430) are bit fields of all operations that are not denied to the client.
The operations of a resource type are those of Kafka's AclEntry.supportedOperations, and the bit of
an operation is the code of its AclOperation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.topics import NewTopic, TopicError
from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    RequestContext,
    id_of,
    missing,
)
from spark_kafka_sink.broker.security.acl import CLUSTER_NAME, Operation, ResourceType
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition, Topic
    from spark_kafka_sink.protocol.messages import Values


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS = _bits(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
TOPIC_OPERATIONS: Final = _CONFIGS | _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
GROUP_OPERATIONS: Final = _CONFIGS | _bits(Operation.READ, Operation.DESCRIBE, Operation.DELETE)
CLUSTER_OPERATIONS: Final = _CONFIGS | _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.IDEMPOTENT_WRITE,
)
NOT_ASKED: Final = -(2**31)
"""The value of the bit field when the client did not request it."""


def of_topic(context: RequestContext, topic: str | None) -> int:
    """Return the authorized operations on a topic, if Metadata requests them."""
    if not context.get("include_topic_authorized_operations", False):
        return NOT_ASKED
    return allowed_on_topic(context, topic)


def allowed_on_topic(context: RequestContext, topic: str | None) -> int:
    """Return the authorized operations on a topic."""
    return _allowed(context, TOPIC_OPERATIONS, ResourceType.TOPIC, topic or "")


def of_group(context: RequestContext, group: str) -> int:
    """Return the authorized operations on a group, if DescribeGroups requests them."""
    if not context.get("include_authorized_operations", False):
        return NOT_ASKED
    return _allowed(context, GROUP_OPERATIONS, ResourceType.GROUP, group)


def of_cluster(context: RequestContext) -> int:
    """Return the authorized operations on the cluster, if the request asks for them."""
    if not context.get("include_cluster_authorized_operations", False):
        return NOT_ASKED
    return _allowed(context, CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME)


def _allowed(context: RequestContext, operations: int, type_: ResourceType, name: str) -> int:
    return context.cluster.denials.without_denied(operations, context.user, type_, name)


NULL_NAME_VERSION = 12


def metadata(context: RequestContext) -> Answer:
    """Handle the Metadata API."""
    cluster = context.cluster
    asked = context.request.topics
    if asked is None or (context.version == 0 and not asked):
        topics = [_describe(context, topic) for topic in cluster.topics.all()]
    else:
        topics = [_find_topic(context, item) for item in asked]
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


def _find_topic(context: RequestContext, item: Any) -> Values:
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
    """Return a partition's fields in Metadata and DescribeTopicPartitions."""
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


METADATA = Handler(api=ApiKey.METADATA, versions=VersionRange(0, 13), handle=metadata)


MAX_PARTITIONS = 2_000
"""Kafka's max.request.partition.size.limit."""


def describe_topic_partitions(context: RequestContext) -> Answer:
    """Handle the DescribeTopicPartitions API."""
    cursor = context.request.cursor
    first = (cursor.topic_name, cursor.partition_index) if cursor else ("", 0)
    left = min(context.request.response_partition_limit, MAX_PARTITIONS)
    topics: list[Values] = []
    for name in _names(context):
        if name < first[0]:
            continue
        start = first[1] if name == first[0] else 0
        if left <= 0:
            return _page(topics, {"topic_name": name, "partition_index": start})
        topics.append(_topic(context, name, range(start, start + left)))
        left -= len(topics[-1]["partitions"])
        topic = context.cluster.topics.named(name)
        if topic and left <= 0 and start + len(topics[-1]["partitions"]) < len(topic.partitions):
            end = start + len(topics[-1]["partitions"])
            return _page(topics, {"topic_name": name, "partition_index": end})
    return _page(topics, None)


def _names(context: RequestContext) -> list[str]:
    if context.request.topics:
        return sorted({item.name for item in context.request.topics})
    return [topic.name for topic in context.cluster.topics.all()]


def _topic(context: RequestContext, name: str, indexes: range) -> Values:
    topic = context.cluster.topics.named(name)
    about = {"name": name, "topic_authorized_operations": allowed_on_topic(context, name)}
    if topic is None:
        error = ErrorCode.unknown_topic_or_partition
        return about | {"error_code": error, "topic_id": None, "partitions": []}
    chosen = topic.partitions[indexes.start : indexes.stop]
    elr: Values = {"eligible_leader_replicas": (), "last_known_elr": ()}
    described = [{**describe_partition(context, partition), **elr} for partition in chosen]
    return about | {"topic_id": topic.id, "partitions": described}


def _page(topics: list[Values], cursor: Values | None) -> Values:
    return {"topics": topics, "next_cursor": cursor}


DESCRIBE_TOPIC_PARTITIONS = Handler(
    api=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions=VersionRange(0, 0),
    handle=describe_topic_partitions,
)


BROKERS = 1
CONTROLLERS = 2


def describe_cluster(context: RequestContext) -> Answer:
    """Handle the DescribeCluster API."""
    cluster = context.cluster
    asked = context.get("endpoint_type", BROKERS)
    if asked == CONTROLLERS:
        return _refused(ErrorCode.mismatched_endpoint_type, "This is a broker's endpoint.")
    if asked != BROKERS:
        return _refused(ErrorCode.unsupported_endpoint_type, f"No endpoint type is {asked}.")
    return {
        "cluster_id": cluster.config.cluster_id,
        "controller_id": cluster.controller_id,
        "endpoint_type": BROKERS,
        "brokers": [
            {"broker_id": node.id, "host": node.host, "port": node.port}
            for node in cluster.nodes.values()
        ],
        "cluster_authorized_operations": of_cluster(context),
    }


def _refused(error: ErrorCode, message: str) -> Values:
    return {"error_code": error, "error_message": message}


DESCRIBE_CLUSTER = Handler(
    api=ApiKey.DESCRIBE_CLUSTER, versions=VersionRange(0, 2), handle=describe_cluster
)


GROUP = 0
TRANSACTION = 1
BATCHED_VERSION = 4


def find_coordinator(context: RequestContext) -> Answer:
    """Handle the FindCoordinator API."""
    if context.version >= BATCHED_VERSION:
        return {
            "coordinators": [_find_node(context, key) for key in context.request.coordinator_keys]
        }
    return _find_node(context, context.request.key)


def _find_node(context: RequestContext, key: str) -> Values:
    key_type = context.get("key_type", GROUP)
    if key_type not in {GROUP, TRANSACTION}:
        return {
            "key": key,
            "node_id": -1,
            "port": -1,
            "error_code": ErrorCode.invalid_request,
            "error_message": "This broker coordinates consumer groups and transactions only",
        }
    node = context.cluster.coordinator(key)
    found = {"key": key, "node_id": node.id, "host": node.host, "port": node.port}
    return found if context.version >= BATCHED_VERSION else found | {"error_message": "NONE"}


FIND_COORDINATOR = Handler(
    api=ApiKey.FIND_COORDINATOR, versions=VersionRange(0, 6), handle=find_coordinator
)
