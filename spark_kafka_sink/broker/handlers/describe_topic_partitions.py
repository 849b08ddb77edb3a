"""DescribeTopicPartitions 0 (KIP-966): partitions by topic name, page by page.

All topics where none are named. A page has at most response_partition_limit partitions (2,000 at
the most); the cursor names the first one of the next page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.authorized_operations import allowed_on_topic
from spark_kafka_sink.broker.handlers.metadata import describe_partition
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values

MAX_PARTITIONS = 2_000
"""Kafka's max.request.partition.size.limit."""


def handle(context: RequestContext) -> Answer:
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


HANDLER = Handler(api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=VersionRange(0, 0), handle=handle)
