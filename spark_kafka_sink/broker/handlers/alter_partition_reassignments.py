"""AlterPartitionReassignments 0-1 (KIP-455): partitions get other replicas, null takes it back.

The answer comes when it has begun. Version 1 can forbid another number of replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.new_topic import TopicError
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values


def handle(context: RequestContext) -> Answer:
    """Handle the AlterPartitionReassignments API."""
    return {
        "allow_replication_factor_change": context.get("allow_replication_factor_change", True),
        "responses": [
            {
                "name": item.name,
                "partitions": [_one(context, item.name, p) for p in item.partitions],
            }
            for item in context.request.topics
        ],
    }


def _one(context: RequestContext, name: str, asked: Any) -> Values:
    about = {"partition_index": asked.partition_index}
    try:
        _reassign(context, name, asked)
    except TopicError as error:
        return about | {"error_code": error.error, "error_message": error.message or None}
    return about | {"error_code": ErrorCode.none, "error_message": None}


def _reassign(context: RequestContext, name: str, asked: Any) -> None:
    topic = context.cluster.topics.named(name)
    partition = topic.partition(asked.partition_index) if topic else None
    if topic is None or partition is None:
        raise TopicError(
            ErrorCode.unknown_topic_or_partition, f"There is no {name}-{asked.partition_index}."
        )
    if asked.replicas is None:
        context.cluster.reassignments.cancel(topic, partition)
        return
    before = len(partition.replicas) - len(partition.adding)
    changes = len(asked.replicas) != before
    if changes and not context.get("allow_replication_factor_change", True):
        raise TopicError(
            ErrorCode.invalid_replication_factor,
            f"The number of replicas would be {len(asked.replicas)}, not {before}.",
        )
    context.cluster.reassignments.begin(topic, partition, list(asked.replicas))


HANDLER = Handler(
    api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=VersionRange(0, 1), handle=handle
)
