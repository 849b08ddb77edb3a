"""The partitions that a request names, a request without some of them, its failed response."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.faults.fault import RequestPartition
from spark_kafka_sink.broker.net.message_shapes import BY_ITEM, BY_PARTITION
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kio.schema.errors import ErrorCode

    from spark_kafka_sink.broker.net.message_shapes import PartitionShape
    from spark_kafka_sink.protocol.message_builder import Values


def partitions_of(
    api: int, request: Any, name_of: Callable[[UUID], str | None]
) -> tuple[RequestPartition, ...]:
    """The topics and partitions that a request names; `name_of` knows topics by their ids."""
    shape = BY_PARTITION.get(api)
    if shape is None:
        topics = getattr(request, "topics", None) or getattr(request, "topic_names", None) or ()
        return tuple(RequestPartition(topic_name(item, name_of), None) for item in topics)
    return tuple(
        RequestPartition(topic_name(item, name_of), index_of(shape, one))
        for item in getattr(request, shape.topics, None) or ()
        for one in getattr(item, shape.partitions)
    )


def topic_name(item: Any, name_of: Callable[[UUID], str | None]) -> str | None:
    """The topic that an item of a request names in one way or another."""
    if isinstance(item, str):
        return item
    topic_id = getattr(item, "topic_id", None)
    name: str | None = getattr(item, "name", getattr(item, "topic", None))
    return name if topic_id is None else name_of(topic_id) or name


def index_of(shape: PartitionShape, one: Any) -> int:
    """A partition's index in a request."""
    index: int = getattr(one, shape.index) if shape.index else one
    return index


def without(shape: PartitionShape, request: Any, is_out: Callable[[Any, Any], bool]) -> Any:
    """A request without the partitions that `is_out` names, by item and partition."""
    topics = []
    for item in getattr(request, shape.topics):
        kept = tuple(one for one in getattr(item, shape.partitions) if not is_out(item, one))
        if kept:
            topics.append(replace(item, **{shape.partitions: kept}))
    return replace(request, **{shape.topics: tuple(topics)})


def failed_items(api: int, request: Any, error: ErrorCode) -> Values | None:
    """The answer that fails every item of a request; None where the error stands at the top."""
    if api == ApiKey.WRITE_TXN_MARKERS:
        return {"markers": [_failed_marker(item, error) for item in request.markers]}
    for shape in BY_ITEM.get(api, ()):
        items = getattr(request, shape.items, None)
        if items is not None:
            return {
                "error_code": error,
                shape.answers: [
                    {"error_code": error, **shape.failed}
                    | {
                        ours: getattr(item, its, None) if its else item
                        for ours, its in shape.names.items()
                    }
                    for item in items
                ],
            }
    return None


def _failed_marker(item: Any, error: ErrorCode) -> Values:
    return {
        "producer_id": item.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": index, "error_code": error}
                    for index in topic.partition_indexes
                ],
            }
            for topic in item.topics
        ],
    }
