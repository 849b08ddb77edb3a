"""Topics and partitions that requests name, requests reduced to a part, and failed responses.

`BY_PARTITION` and `BY_ITEM` list, per API, the fields in which requests name topics, partitions and
items, and the fields in which responses report their errors. Authorization, fault injection and the
error log use them to process messages of every API.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.frame import RecordBuffers
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from kio.schema.errors import ErrorCode

    from spark_kafka_sink.protocol.messages import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionShape:
    """Field names of a request by partitions and of its response.

    An empty `index` means that the request's partitions are integers. `failed` are the other fields
    of a failed partition.
    """

    topics: str = "topics"
    partitions: str = "partitions"
    index: str = "partition_index"
    answers: str = "topics"
    answer_partitions: str = "partitions"
    answer_index: str = "partition_index"
    error: str = "error_code"
    failed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemShape:
    """Field names of a request by items and of its response.

    `names` maps fields of the response to fields of the item, "" for the item itself. `failed` are
    the other fields of a failed item.
    """

    items: str
    answers: str
    names: Mapping[str, str]
    failed: Mapping[str, Any] = field(default_factory=dict)


_NO_OFFSETS = {"base_offset": -1, "log_append_time": None, "log_start_offset": -1}
_NO_RECORDS = {
    "high_watermark": -1,
    "last_stable_offset": -1,
    "log_start_offset": -1,
    "aborted_transactions": None,
    "preferred_read_replica": -1,
    "records": RecordBuffers([]),
}
BY_PARTITION: Mapping[int, PartitionShape] = {
    ApiKey.PRODUCE: PartitionShape(
        topics="topic_data",
        partitions="partition_data",
        index="index",
        answers="responses",
        answer_partitions="partition_responses",
        answer_index="index",
        failed=_NO_OFFSETS,
    ),
    ApiKey.FETCH: PartitionShape(index="partition", answers="responses", failed=_NO_RECORDS),
    ApiKey.LIST_OFFSETS: PartitionShape(failed={"timestamp": -1, "offset": -1, "leader_epoch": -1}),
    ApiKey.OFFSET_COMMIT: PartitionShape(),
    ApiKey.TXN_OFFSET_COMMIT: PartitionShape(),
    ApiKey.DELETE_RECORDS: PartitionShape(failed={"low_watermark": -1}),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: PartitionShape(
        index="partition", answer_index="partition", failed={"leader_epoch": -1, "end_offset": -1}
    ),
    ApiKey.DESCRIBE_PRODUCERS: PartitionShape(partitions="partition_indexes", index=""),
    ApiKey.OFFSET_FETCH: PartitionShape(
        partitions="partition_indexes", index="", failed={"committed_offset": -1, "metadata": ""}
    ),
    ApiKey.OFFSET_DELETE: PartitionShape(),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: PartitionShape(answers="responses"),
    ApiKey.ELECT_LEADERS: PartitionShape(
        topics="topic_partitions",
        index="",
        answers="replica_election_results",
        answer_partitions="partition_result",
        answer_index="partition_id",
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: PartitionShape(
        topics="v3_and_below_topics",
        index="",
        answers="results_by_topic_v3_and_below",
        answer_partitions="results_by_partition",
        error="partition_error_code",
    ),
}
_TOPIC = {"name": "name", "topic_id": "topic_id"}
_RESOURCE = {"resource_type": "resource_type", "resource_name": "resource_name"}
BY_ITEM: Mapping[int, tuple[ItemShape, ...]] = {
    ApiKey.CREATE_TOPICS: (
        ItemShape(items="topics", answers="topics", names={"name": "name"}, failed={"configs": ()}),
    ),
    ApiKey.DELETE_TOPICS: (
        ItemShape(items="topics", answers="responses", names=_TOPIC),
        ItemShape(items="topic_names", answers="responses", names={"name": ""}),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        ItemShape(
            items="topics",
            answers="topics",
            names={"name": "name"},
            failed={"topic_id": None, "partitions": (), "topic_authorized_operations": -(2**31)},
        ),
    ),
    ApiKey.CREATE_PARTITIONS: (
        ItemShape(items="topics", answers="results", names={"name": "name"}),
    ),
    ApiKey.FIND_COORDINATOR: (
        ItemShape(
            items="coordinator_keys",
            answers="coordinators",
            names={"key": ""},
            failed={"node_id": -1, "port": -1},
        ),
    ),
    ApiKey.OFFSET_FETCH: (
        ItemShape(items="groups", answers="groups", names={"group_id": "group_id"}),
    ),
    ApiKey.DESCRIBE_GROUPS: (ItemShape(items="groups", answers="groups", names={"group_id": ""}),),
    ApiKey.DELETE_GROUPS: (
        ItemShape(items="groups_names", answers="results", names={"group_id": ""}),
    ),
    ApiKey.DESCRIBE_CONFIGS: (ItemShape(items="resources", answers="results", names=_RESOURCE),),
    ApiKey.ALTER_CONFIGS: (ItemShape(items="resources", answers="responses", names=_RESOURCE),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        ItemShape(items="resources", answers="responses", names=_RESOURCE),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: (
        ItemShape(items="topics", answers="results", names={}, failed={"log_dir": ""}),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        ItemShape(
            items="transactional_ids", answers="transaction_states", names={"transactional_id": ""}
        ),
    ),
}


def topic_name(item: Any, name_of: Callable[[UUID], str | None]) -> str | None:
    """Return the name of the topic that an item of a request names or identifies by id."""
    if isinstance(item, str):
        return item
    topic_id = getattr(item, "topic_id", None)
    name: str | None = getattr(item, "name", getattr(item, "topic", None))
    return name if topic_id is None else name_of(topic_id) or name


def index_of(shape: PartitionShape, one: Any) -> int:
    """Return a partition's index in a request."""
    index: int = getattr(one, shape.index) if shape.index else one
    return index


def without(shape: PartitionShape, request: Any, is_out: Callable[[Any, Any], bool]) -> Any:
    """Return a request without the partitions for which `is_out(item, partition)` is True."""
    topics = []
    for item in getattr(request, shape.topics):
        kept = tuple(one for one in getattr(item, shape.partitions) if not is_out(item, one))
        if kept:
            topics.append(replace(item, **{shape.partitions: kept}))
    return replace(request, **{shape.topics: tuple(topics)})


def failed_items(api: int, request: Any, error: ErrorCode) -> Values | None:
    """Return the response that fails every item, or None if the API has no errors for items."""
    if api == ApiKey.WRITE_TXN_MARKERS:
        return {"markers": [_failed_marker(item, error) for item in request.markers]}
    for shape in BY_ITEM.get(api, ()):
        items = getattr(request, shape.items, None)
        if items is not None:
            failed = [failed_item(shape, item, error) for item in items]
            return {"error_code": error, shape.answers: failed}
    return None


def failed_item(shape: ItemShape, item: Any, error: ErrorCode) -> Values:
    """Return the part of a response that fails one item of a request."""
    return {"error_code": error, **shape.failed} | {
        ours: getattr(item, its, None) if its else item for ours, its in shape.names.items()
    }


def failed_adder(
    shape: PartitionShape, failed: Any, error: ErrorCode
) -> Callable[[Values], dict[str, Any]]:
    """Return a function that adds the partitions of `failed` to a response, with the error."""
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
