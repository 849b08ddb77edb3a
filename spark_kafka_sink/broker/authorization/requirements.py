"""Which rights each API needs: Kafka's KafkaApis and ControllerApis as a table.

Rights for a whole request, for each topic whose partitions it names, and for each of its items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.security.acl import CLUSTER_NAME, Operation, ResourceType
from spark_kafka_sink.protocol.versions import ApiKey

_TRANSACTION_KEY: Final = 1
"""FindCoordinator's key type of transactional ids; 0 is a group's."""
_CONFIG_RESOURCES: Final[Mapping[int, ResourceType]] = {
    2: ResourceType.TOPIC,
    32: ResourceType.GROUP,
}
"""By Kafka's ConfigResource type; all others are the cluster's."""


class Right(NamedTuple):
    """An operation on a resource."""

    operation: Operation
    type: ResourceType
    name: str


class Refusal(NamedTuple):
    """How a lacking right is answered."""

    error: ErrorCode
    message: str


REFUSALS: Final[Mapping[ResourceType, Refusal]] = {
    ResourceType.TOPIC: Refusal(
        ErrorCode.topic_authorization_failed, "Topic authorization failed."
    ),
    ResourceType.GROUP: Refusal(
        ErrorCode.group_authorization_failed, "Group authorization failed."
    ),
    ResourceType.CLUSTER: Refusal(
        ErrorCode.cluster_authorization_failed, "Cluster authorization failed."
    ),
    ResourceType.TRANSACTIONAL_ID: Refusal(
        ErrorCode.transactional_id_authorization_failed,
        "Transactional Id authorization failed.",
    ),
}

_Rights: TypeAlias = Callable[[Any], Iterator[Right]]
_ItemRights: TypeAlias = Callable[[Any, Any, str | None], Iterator[Right]]


def _on_cluster(*operations: Operation) -> _Rights:
    def rights(_: Any) -> Iterator[Right]:
        for operation in operations:
            yield Right(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    return rights


def _on_group(operation: Operation) -> _Rights:
    def rights(request: Any) -> Iterator[Right]:
        group = getattr(request, "group_id", None)
        if group is not None:
            yield Right(operation, ResourceType.GROUP, group)

    return rights


def _on_transactional_id(field: str = "transactional_id") -> _Rights:
    def rights(request: Any) -> Iterator[Right]:
        name = getattr(request, field, None)
        if name is not None:
            yield Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)

    return rights


def _of_new_producer(request: Any) -> Iterator[Right]:
    if request.transactional_id is not None:
        yield from _on_transactional_id()(request)
    else:
        yield Right(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)


def _of_added_partitions(request: Any) -> Iterator[Right]:
    if hasattr(request, "transactions"):
        yield from _on_cluster(Operation.CLUSTER_ACTION)(request)
    yield from _on_transactional_id("v3_and_below_transactional_id")(request)


def _of_one_coordinator(request: Any) -> Iterator[Right]:
    if hasattr(request, "key"):
        yield from _of_coordinator(request, request.key, None)


def _both(*all_rights: _Rights) -> _Rights:
    def rights(request: Any) -> Iterator[Right]:
        for one in all_rights:
            yield from one(request)

    return rights


OF_REQUEST: Final[Mapping[int, _Rights]] = {
    ApiKey.PRODUCE: _on_transactional_id(),
    ApiKey.OFFSET_COMMIT: _on_group(Operation.READ),
    ApiKey.OFFSET_FETCH: _on_group(Operation.DESCRIBE),
    ApiKey.FIND_COORDINATOR: _of_one_coordinator,
    ApiKey.JOIN_GROUP: _on_group(Operation.READ),
    ApiKey.HEARTBEAT: _on_group(Operation.READ),
    ApiKey.LEAVE_GROUP: _on_group(Operation.READ),
    ApiKey.SYNC_GROUP: _on_group(Operation.READ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _on_group(Operation.READ),
    ApiKey.OFFSET_DELETE: _on_group(Operation.DELETE),
    ApiKey.INIT_PRODUCER_ID: _of_new_producer,
    ApiKey.ADD_PARTITIONS_TO_TXN: _of_added_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _both(_on_transactional_id(), _on_group(Operation.READ)),
    ApiKey.TXN_OFFSET_COMMIT: _both(_on_transactional_id(), _on_group(Operation.READ)),
    ApiKey.END_TXN: _on_transactional_id(),
    ApiKey.WRITE_TXN_MARKERS: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_LOG_DIRS: _on_cluster(Operation.DESCRIBE),
    ApiKey.ELECT_LEADERS: _on_cluster(Operation.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _on_cluster(Operation.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _on_cluster(Operation.DESCRIBE),
    ApiKey.LIST_CONFIG_RESOURCES: _on_cluster(Operation.DESCRIBE_CONFIGS),
}
"""Without one of these the whole request is refused."""

OF_PARTITIONS: Final[Mapping[int, Operation]] = {
    ApiKey.PRODUCE: Operation.WRITE,
    ApiKey.FETCH: Operation.READ,
    ApiKey.LIST_OFFSETS: Operation.DESCRIBE,
    ApiKey.OFFSET_COMMIT: Operation.READ,
    ApiKey.OFFSET_FETCH: Operation.DESCRIBE,
    ApiKey.OFFSET_DELETE: Operation.READ,
    ApiKey.TXN_OFFSET_COMMIT: Operation.READ,
    ApiKey.ADD_PARTITIONS_TO_TXN: Operation.WRITE,
    ApiKey.DELETE_RECORDS: Operation.DELETE,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Operation.DESCRIBE,
    ApiKey.DESCRIBE_PRODUCERS: Operation.READ,
}
"""What is needed of each topic whose partitions a request names."""


def _on_topic(*operations: Operation) -> _ItemRights:
    def rights(_: Any, __: Any, topic: str | None) -> Iterator[Right]:
        for operation in operations if topic is not None else ():
            yield Right(operation, ResourceType.TOPIC, topic or "")

    return rights


def _of_new_topic(request: Any, item: Any, topic: str | None) -> Iterator[Right]:
    yield from _on_topic(Operation.CREATE)(request, item, topic)
    yield Right(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)


def _on_each_group(operation: Operation) -> _ItemRights:
    def rights(_: Any, item: Any, __: str | None) -> Iterator[Right]:
        yield Right(operation, ResourceType.GROUP, getattr(item, "group_id", item))

    return rights


def _of_coordinator(request: Any, key: str, _: str | None) -> Iterator[Right]:
    transactional = getattr(request, "key_type", 0) == _TRANSACTION_KEY
    type_ = ResourceType.TRANSACTIONAL_ID if transactional else ResourceType.GROUP
    yield Right(Operation.DESCRIBE, type_, key)


def _of_transaction(_: Any, transactional_id: str, __: str | None) -> Iterator[Right]:
    yield Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _on_config(operation: Operation) -> _ItemRights:
    def rights(_: Any, item: Any, __: str | None) -> Iterator[Right]:
        type_ = _CONFIG_RESOURCES.get(int(item.resource_type), ResourceType.CLUSTER)
        name = CLUSTER_NAME if type_ is ResourceType.CLUSTER else item.resource_name
        yield Right(operation, type_, name)

    return rights


OF_ITEMS: Final[Mapping[int, _ItemRights]] = {
    ApiKey.CREATE_TOPICS: _of_new_topic,
    ApiKey.DELETE_TOPICS: _on_topic(Operation.DESCRIBE, Operation.DELETE),
    ApiKey.CREATE_PARTITIONS: _on_topic(Operation.ALTER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _on_topic(Operation.DESCRIBE),
    ApiKey.FIND_COORDINATOR: _of_coordinator,
    ApiKey.OFFSET_FETCH: _on_each_group(Operation.DESCRIBE),
    ApiKey.DESCRIBE_GROUPS: _on_each_group(Operation.DESCRIBE),
    ApiKey.DELETE_GROUPS: _on_each_group(Operation.DELETE),
    ApiKey.DESCRIBE_TRANSACTIONS: _of_transaction,
    ApiKey.DESCRIBE_CONFIGS: _on_config(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _on_config(Operation.ALTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _on_config(Operation.ALTER_CONFIGS),
}
"""What is needed of each item: the request, the item, and the name of the topic that it is."""
