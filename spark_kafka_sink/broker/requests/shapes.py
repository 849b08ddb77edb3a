"""The fields for topics, partitions and items in requests, and for errors in responses.

`BY_PARTITION` and `BY_ITEM` contain these fields by API. Handlers, authorization, fault injection
and the error log use these tables to process messages of all APIs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.kafka.protocol.acl import NO_OPERATIONS
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.messages import FieldValues
from spark_kafka_sink.kafka.protocol.send_buffers import RecordBuffers
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

ItemResult: TypeAlias = FieldValues | ErrorCode | ResponseError
"""The result for a partition or an item of a request: fields of the response, or an error."""
_NO_OFFSETS = {"base_offset": -1, "log_append_time": None, "log_start_offset": -1}
_NO_RECORDS = {
    "high_watermark": -1,
    "last_stable_offset": -1,
    "log_start_offset": -1,
    "aborted_transactions": None,
    "preferred_read_replica": -1,
    "records": RecordBuffers([]),
}
_NAME = {"name": "name"}
_NAME_AND_ID = {"name": "name", "topic_id": "topic_id"}
_RESOURCE = {"resource_type": "resource_type", "resource_name": "resource_name"}
_NO_TOPIC = {"topic_id": None, "partitions": (), "topic_authorized_operations": NO_OPERATIONS}


def _result_fields(result: ItemResult, error: str, failed: Mapping[str, Any]) -> FieldValues:
    """Return the response fields for a result. `error` is the name of the field for its error."""
    if isinstance(result, ResponseError):
        message = {"error_message": result.message or None}
        return {**_result_fields(result.code, error, failed), **message}
    if isinstance(result, int):
        return {error: result, **(failed if result else {})}
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionShape:
    """Field names of a request that lists partitions, and of its response."""

    topics: str = "topics"
    partitions: str = "partitions"
    index: str = "partition_index"
    """The partition's field; empty if the request's partitions are integers."""
    response_topics: str = "topics"
    response_partitions: str = "partitions"
    response_index: str = "partition_index"
    error: str = "error_code"
    failed: Mapping[str, Any] = field(default_factory=dict)
    """The additional fields of failed partitions."""

    def index_of(self, partition: Any) -> int:
        """Return the index of a partition of a request."""
        index: int = getattr(partition, self.index) if self.index else partition
        return index

    def partition_response(self, partition: Any, result: ItemResult) -> FieldValues:
        """Return a partition's part of the response, from its fields or its error."""
        return {
            self.response_index: self.index_of(partition),
            **_result_fields(result, self.error, self.failed),
        }

    def topic_response(self, item: Any, handle: Callable[[Any], ItemResult]) -> FieldValues:
        """Return a topic's part of the response. `handle` is called for each partition."""
        partitions = getattr(item, self.partitions)
        return {
            **{name: getattr(item, name, None) for name in ("name", "topic", "topic_id")},
            self.response_partitions: [
                self.partition_response(partition, handle(partition)) for partition in partitions
            ],
        }


BY_PARTITION: Mapping[int, PartitionShape] = {
    ApiKey.PRODUCE: PartitionShape(
        topics="topic_data",
        partitions="partition_data",
        index="index",
        response_topics="responses",
        response_partitions="partition_responses",
        response_index="index",
        failed=_NO_OFFSETS,
    ),
    ApiKey.FETCH: PartitionShape(
        index="partition", response_topics="responses", failed=_NO_RECORDS
    ),
    ApiKey.LIST_OFFSETS: PartitionShape(failed={"timestamp": -1, "offset": -1, "leader_epoch": -1}),
    ApiKey.OFFSET_COMMIT: PartitionShape(),
    ApiKey.TXN_OFFSET_COMMIT: PartitionShape(),
    ApiKey.DELETE_RECORDS: PartitionShape(failed={"low_watermark": -1}),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: PartitionShape(
        index="partition", response_index="partition", failed={"leader_epoch": -1, "end_offset": -1}
    ),
    ApiKey.DESCRIBE_PRODUCERS: PartitionShape(partitions="partition_indexes", index=""),
    ApiKey.OFFSET_FETCH: PartitionShape(
        partitions="partition_indexes", index="", failed={"committed_offset": -1, "metadata": ""}
    ),
    ApiKey.OFFSET_DELETE: PartitionShape(),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: PartitionShape(response_topics="responses"),
    ApiKey.ELECT_LEADERS: PartitionShape(
        topics="topic_partitions",
        index="",
        response_topics="replica_election_results",
        response_partitions="partition_result",
        response_index="partition_id",
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: PartitionShape(
        topics="v3_and_below_topics",
        index="",
        response_topics="results_by_topic_v3_and_below",
        response_partitions="results_by_partition",
        error="partition_error_code",
    ),
}
MARKER_TOPICS = PartitionShape(partitions="partition_indexes", index="")
"""The shape of the topics of a marker in WriteTxnMarkers."""


@dataclass(frozen=True, slots=True)
class ItemShape:
    """Field names of a request that lists items, and of its response."""

    items: str
    response_items: str
    names: Mapping[str, str]
    """Fields of the item by field of the response; "" is the item itself."""
    failed: Mapping[str, Any] = field(default_factory=dict)
    """The additional fields of failed items."""

    def item_response(self, item: Any, result: ItemResult) -> FieldValues:
        """Return an item's part of the response, from its fields or its error."""
        names = {
            response_field: getattr(item, item_field) if item_field else item
            for response_field, item_field in self.names.items()
        }
        return {**names, **_result_fields(result, "error_code", self.failed)}


BY_ITEM: Mapping[int, tuple[ItemShape, ...]] = {
    ApiKey.CREATE_TOPICS: (ItemShape("topics", "topics", _NAME, {"configs": ()}),),
    ApiKey.DELETE_TOPICS: (
        ItemShape("topics", "responses", _NAME_AND_ID),
        ItemShape("topic_names", "responses", {"name": ""}),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (ItemShape("topics", "topics", _NAME, _NO_TOPIC),),
    ApiKey.CREATE_PARTITIONS: (ItemShape("topics", "results", _NAME),),
    ApiKey.FIND_COORDINATOR: (
        ItemShape("coordinator_keys", "coordinators", {"key": ""}, {"node_id": -1, "port": -1}),
    ),
    ApiKey.OFFSET_FETCH: (ItemShape("groups", "groups", {"group_id": "group_id"}),),
    ApiKey.DESCRIBE_GROUPS: (ItemShape("groups", "groups", {"group_id": ""}),),
    ApiKey.DELETE_GROUPS: (ItemShape("groups_names", "results", {"group_id": ""}),),
    ApiKey.DESCRIBE_CONFIGS: (ItemShape("resources", "results", _RESOURCE),),
    ApiKey.ALTER_CONFIGS: (ItemShape("resources", "responses", _RESOURCE),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (ItemShape("resources", "responses", _RESOURCE),),
    ApiKey.DESCRIBE_LOG_DIRS: (ItemShape("topics", "results", {}, {"log_dir": ""}),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        ItemShape("transactional_ids", "transaction_states", {"transactional_id": ""}),
    ),
}


def name_of(item: Any) -> str | None:
    """Return the topic name of an item, which can be the name. Fetch uses the field `topic`."""
    if isinstance(item, str):
        return item
    name: str | None = getattr(item, "name", getattr(item, "topic", None))
    return name


def item_label(values: FieldValues) -> str:
    """Return the name of an item in a response, for the broker's log."""
    names = ("name", "group_id", "key", "resource_name", "topic_id", "transactional_id")
    return str(next((values[name] for name in names if values.get(name)), ""))


def id_of(item: Any) -> UUID | None:
    """Return the topic id of an item, or None if the request's version uses names."""
    topic_id: UUID | None = getattr(item, "topic_id", None)
    return topic_id


def unknown_topic(item: Any) -> ErrorCode:
    """Return the error for an item whose topic does not exist."""
    has_id = id_of(item) is not None
    return ErrorCode.unknown_topic_id if has_id else ErrorCode.unknown_topic_or_partition


def item_shape_of(api: int, request: Any) -> ItemShape | None:
    """Return the shape of a request that lists items, or None for other requests."""
    shapes = BY_ITEM.get(api, ())
    return next((shape for shape in shapes if getattr(request, shape.items, None)), None)


def split_request(
    shape: PartitionShape, request: Any, is_failed: Callable[[Any, Any], bool]
) -> tuple[Any, Any]:
    """Split a request into two requests: one without and one with the failed partitions.

    The arguments of `is_failed` are the request's items for topic and partition. A Fetch
    request with failed partitions must not wait for data.
    """
    parts: tuple[list[Any], list[Any]] = [], []
    for item in getattr(request, shape.topics):
        split_partitions: tuple[list[Any], list[Any]] = [], []
        for partition in getattr(item, shape.partitions):
            split_partitions[is_failed(item, partition)].append(partition)
        for part, partitions in zip(parts, split_partitions, strict=True):
            if partitions:
                part.append(replace(item, **{shape.partitions: tuple(partitions)}))
    if parts[1] and hasattr(request, "max_wait"):
        request = replace(request, max_wait=timedelta(0))
    remaining, failed = (replace(request, **{shape.topics: tuple(part)}) for part in parts)
    return remaining, failed


def failed_items(api: int, request: Any, error: ErrorCode) -> FieldValues | None:
    """Return a response with the error for every item, or None if items have no error field."""
    if api == ApiKey.WRITE_TXN_MARKERS:
        return {"markers": [_failed_marker(item, error) for item in request.markers]}
    for shape in BY_ITEM.get(api, ()):
        items = getattr(request, shape.items, None)
        if items is not None:
            return {
                "error_code": error,
                shape.response_items: [shape.item_response(item, error) for item in items],
            }
    return None


def failed_adder(
    shape: PartitionShape, failed: Any, error: ErrorCode
) -> Callable[[FieldValues], dict[str, Any]]:
    """Return a function that adds the partitions in `failed` to a response, with an error."""
    added = [shape.topic_response(item, lambda _: error) for item in getattr(failed, shape.topics)]

    def add(values: FieldValues) -> dict[str, Any]:
        topics = [dict(topic) for topic in values.get(shape.response_topics, ())]
        for topic in added:
            same = next((other for other in topics if _is_same_topic(other, topic)), None)
            if same is None:
                topics.append(dict(topic))
            else:
                partitions = shape.response_partitions
                same[partitions] = [*same[partitions], *topic[partitions]]
        return {**values, shape.response_topics: topics}

    return add


def _is_same_topic(topic: FieldValues, other: FieldValues) -> bool:
    keys = ("name", "topic", "topic_id")
    return any(topic.get(key) is not None and topic.get(key) == other[key] for key in keys)


def _failed_marker(item: Any, error: ErrorCode) -> FieldValues:
    topics = [MARKER_TOPICS.topic_response(topic, lambda _: error) for topic in item.topics]
    return {"producer_id": item.producer_id, "topics": topics}
