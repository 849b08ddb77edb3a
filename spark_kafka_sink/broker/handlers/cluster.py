"""DescribeCluster, FindCoordinator and DescribeLogDirs."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.acl import ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

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


def describe_brokers(context: RequestContext, id_field: str) -> list[FieldValues]:
    """Return the fields of all brokers in responses to Metadata and DescribeCluster."""
    nodes = context.cluster.nodes.values()
    return [{id_field: node.id, "host": node.host, "port": node.port} for node in nodes]


def describe_cluster(context: RequestContext) -> HandlerResult:
    """Return the brokers, the controller and the cluster id (DescribeCluster 0-2)."""
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
        "brokers": describe_brokers(context, "broker_id"),
        "cluster_authorized_operations": context.requested_operations(ResourceType.CLUSTER),
    }


def find_coordinator(context: RequestContext) -> HandlerResult:
    """Return the node that coordinates a consumer group or a transactional id.

    FindCoordinator 0-6: transactional ids since version 1, several keys in a request since version
    4 (KIP-699). Other key types fail with INVALID_REQUEST.
    """
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
    """Return log sizes, and the size of the volume that contains the data folder, if any.

    DescribeLogDirs 1-5.
    """
    folder, items = context.cluster.config.data_dir, context.request.topics
    volume = shutil.disk_usage(folder) if folder else None
    requested = {(item.topic, index) for item in items or () for index in item.partitions}
    topics = []
    for topic in context.cluster.topics.all():
        partitions = [
            {"partition_index": partition.index, "partition_size": partition.log.size}
            for partition in topic.partitions
            if context.node in partition.replicas
            and (items is None or (topic.name, partition.index) in requested)
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
