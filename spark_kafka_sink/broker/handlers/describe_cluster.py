"""DescribeCluster 0-2 (KIP-700): the nodes; of endpoint type brokers only."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.broker.handlers.metadata import NO_OPERATIONS
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

BROKERS = 1


def handle(call: Call) -> Answer:
    """See the module."""
    cluster = call.cluster
    if call.get("endpoint_type", BROKERS) != BROKERS:
        return {"error_code": ErrorCode.unsupported_endpoint_type}
    return {
        "cluster_id": cluster.config.cluster_id,
        "controller_id": cluster.controller_id,
        "endpoint_type": BROKERS,
        "brokers": [
            {"broker_id": node.id, "host": node.host, "port": node.port}
            for node in cluster.nodes.values()
        ],
        "cluster_authorized_operations": NO_OPERATIONS,
    }


HANDLER = Handler(api=ApiKey.DESCRIBE_CLUSTER, versions=VersionRange(0, 2), handle=handle)
