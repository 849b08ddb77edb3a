"""A request without some of what it names, and the failed answer to that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.requests.message_shapes import BY_ITEM
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kio.schema.errors import ErrorCode

    from spark_kafka_sink.broker.requests.message_shapes import ItemShape, PartitionShape
    from spark_kafka_sink.protocol.message_builder import Values


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
            failed = [failed_item(shape, item, error) for item in items]
            return {"error_code": error, shape.answers: failed}
    return None


def failed_item(shape: ItemShape, item: Any, error: ErrorCode) -> Values:
    """The answer that fails one item of a request."""
    return {"error_code": error, **shape.failed} | {
        ours: getattr(item, its, None) if its else item for ours, its in shape.names.items()
    }


def failed_adder(
    shape: PartitionShape, failed: Any, error: ErrorCode
) -> Callable[[Values], dict[str, Any]]:
    """Makes what adds failed partitions to an answer, of the request `failed`."""
    more: list[dict[str, Any]] = [
        {
            "name": getattr(item, "name", None),
            "topic": getattr(item, "topic", None),
            "topic_id": getattr(item, "topic_id", None),
            shape.answer_partitions: [
                {shape.answer_index: index_of(shape, one), shape.error: error, **shape.failed}
                for one in getattr(item, shape.partitions)
            ],
        }
        for item in getattr(failed, shape.topics)
    ]

    def add(values: Values) -> dict[str, Any]:
        answers = [dict(answer) for answer in values.get(shape.answers, ())]
        for topic in more:
            same = [a for a in answers if _is_same_topic(a, topic)]
            if same:
                together = [*same[0][shape.answer_partitions], *topic[shape.answer_partitions]]
                same[0][shape.answer_partitions] = together
            else:
                answers.append(topic)
        return {**values, shape.answers: answers}

    return add


def _is_same_topic(one: dict[str, Any], other: dict[str, Any]) -> bool:
    keys = ("name", "topic", "topic_id")
    return any(one.get(key) is not None and one.get(key) == other[key] for key in keys)


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
