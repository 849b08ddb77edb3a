"""OffsetDelete 0 (KIP-496): committed offsets of a group go, one by one.

Those of a topic that a member subscribes to stay: GROUP_SUBSCRIBED_TO_TOPIC. A group that has
members and is not one of consumers is NON_EMPTY_GROUP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.membership import check_coordinator
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup

CONSUMER = "consumer"


def handle(context: RequestContext) -> Answer:
    """Handle the OffsetDelete API."""
    if error := check_coordinator(context):
        return {"error_code": error}
    group = context.cluster.group_coordinator.find(context.request.group_id)
    if group is None:
        return {"error_code": ErrorCode.group_id_not_found}
    if group.members and group.protocol_type != CONSUMER:
        return {"error_code": ErrorCode.non_empty_group}
    return {
        "topics": [
            {
                "name": item.name,
                "partitions": [
                    {
                        "partition_index": asked.partition_index,
                        "error_code": _delete(context, group, item.name, asked.partition_index),
                    }
                    for asked in item.partitions
                ],
            }
            for item in context.request.topics
        ]
    }


def _delete(context: RequestContext, group: ClassicGroup, name: str, index: int) -> ErrorCode:
    topic = context.cluster.topics.named(name)
    if topic is None or topic.partition(index) is None:
        return ErrorCode.unknown_topic_or_partition
    if group.subscribes_to(name):
        return ErrorCode.group_subscribed_to_topic
    group.offsets.pop((name, index), None)
    return ErrorCode.none


HANDLER = Handler(api=ApiKey.OFFSET_DELETE, versions=VersionRange(0, 0), handle=handle)
