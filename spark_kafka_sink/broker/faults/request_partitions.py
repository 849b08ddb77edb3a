"""The topics and partitions that a request names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.faults.fault import RequestPartition
from spark_kafka_sink.broker.requests.message_shapes import BY_PARTITION
from spark_kafka_sink.broker.requests.partial import index_of, topic_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID


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
