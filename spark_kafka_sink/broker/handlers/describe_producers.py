"""DescribeProducers 0-0: what a partition's replicas know about its producers (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import topic_of
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.protocol.message_builder import Values

NO_OFFSET = -1


def handle(context: RequestContext) -> Answer:
    """Handle the DescribeProducers API."""
    return {
        "topics": [
            {
                "name": item.name,
                "partitions": [_describe(context, item, index) for index in item.partition_indexes],
            }
            for item in context.request.topics
        ]
    }


def _describe(context: RequestContext, item: Any, index: int) -> Values:
    topic = topic_of(context, item)
    partition = topic.partition(index) if topic else None
    if partition is None:
        error = ErrorCode.unknown_topic_or_partition
        return {"partition_index": index, "error_code": error, "active_producers": []}
    if context.node not in partition.replicas:
        error = ErrorCode.not_leader_or_follower
        return {"partition_index": index, "error_code": error, "active_producers": []}
    return {"partition_index": index, "active_producers": _producers(partition)}


def _producers(partition: Partition) -> list[Values]:
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_start_offset": partition.transactions.ongoing.get(producer_id, NO_OFFSET),
        }
        for producer_id, entry in partition.producers.entries.items()
    ]


HANDLER = Handler(api=ApiKey.DESCRIBE_PRODUCERS, versions=VersionRange(0, 0), handle=handle)
