"""DescribeCluster 0-2 (KIP-700): the nodes; of endpoint type brokers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.authorized_operations import of_cluster
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values

BROKERS = 1
CONTROLLERS = 2


def handle(context: RequestContext) -> Answer:
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


HANDLER = Handler(api=ApiKey.DESCRIBE_CLUSTER, versions=VersionRange(0, 2), handle=handle)
