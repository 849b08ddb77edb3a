"""OffsetForLeaderEpoch 2-4: where a leader epoch, or the newest below it, ended (KIP-320).

An epoch that nobody knows of yet is answered with epoch and offset -1. The client's own leader
epoch is checked: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values


def handle(context: RequestContext) -> Answer:
    """Handle the OffsetForLeaderEpoch API."""
    return {"topics": [_topic(context, item) for item in context.request.topics]}


def _topic(context: RequestContext, item: Any) -> Values:
    partitions = [_end(context, item.topic, p) for p in item.partitions]
    return {"topic": item.topic, "partitions": partitions}


def _end(context: RequestContext, name: str, asked: Any) -> Values:
    topic = context.cluster.topics.named(name)
    partition = topic.partition(asked.partition) if topic else None
    if partition is None:
        return _failed(asked, ErrorCode.unknown_topic_or_partition)
    if error := partition.leadership_error(context.node, asked.current_leader_epoch):
        return _failed(asked, error)
    found = partition.log.epochs.end_of(asked.leader_epoch, partition.log.end_offset)
    return {
        "partition": asked.partition,
        "leader_epoch": found.epoch,
        "end_offset": found.offset,
    }


def _failed(asked: Any, error: ErrorCode) -> Values:
    return {
        "partition": asked.partition,
        "error_code": error,
        "leader_epoch": -1,
        "end_offset": -1,
    }


HANDLER = Handler(api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=VersionRange(2, 4), handle=handle)
