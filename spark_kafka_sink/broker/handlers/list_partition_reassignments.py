"""ListPartitionReassignments 0 (KIP-455): partitions whose replicas change now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values


def handle(context: RequestContext) -> Answer:
    """Handle the ListPartitionReassignments API."""
    asked = context.request.topics
    requested = None
    if asked is not None:
        requested = {(item.name, index) for item in asked for index in item.partition_indexes}
    by_topic: dict[str, list[Values]] = {}
    for partition in context.cluster.reassignments.ongoing():
        if requested is None or (partition.topic, partition.index) in requested:
            by_topic.setdefault(partition.topic, []).append(
                {
                    "partition_index": partition.index,
                    "replicas": partition.replicas,
                    "adding_replicas": partition.adding,
                    "removing_replicas": partition.removing,
                }
            )
    return {"topics": [{"name": name, "partitions": some} for name, some in by_topic.items()]}


HANDLER = Handler(
    api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=VersionRange(0, 0), handle=handle
)
