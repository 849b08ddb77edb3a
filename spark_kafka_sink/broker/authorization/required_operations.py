"""The operations that a client must be authorized for, by API.

The tables contain the rules of Kafka's KafkaApis and ControllerApis:

- `OF_REQUEST`: operations required for the whole request; if one is denied, the request fails
- `OF_PARTITIONS`: the operation required on each topic whose partitions a request contains
- `OF_ITEMS`: operations required for each item, such as a topic, group or config resource
- `WITHOUT_OPERATIONS`: APIs that require no operation
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.broker.authorization.denials import CLUSTER_NAME
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_TRANSACTION_KEY = 1
"""Key type of transactional ids in FindCoordinator; groups have key type 0."""
_CONFIG_RESOURCES: Mapping[int, ResourceType] = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
}
"""Resource types of the authorizer by `ConfigResourceType`. All others map to the cluster."""
_WRITE_TRANSACTION = (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
_READ_GROUP = (AclOperation.READ, ResourceType.GROUP, "group_id")
OF_PARTITIONS: Mapping[int, AclOperation] = {
    ApiKey.PRODUCE: AclOperation.WRITE,
    ApiKey.FETCH: AclOperation.READ,
    ApiKey.LIST_OFFSETS: AclOperation.DESCRIBE,
    ApiKey.OFFSET_COMMIT: AclOperation.READ,
    ApiKey.OFFSET_FETCH: AclOperation.DESCRIBE,
    ApiKey.OFFSET_DELETE: AclOperation.READ,
    ApiKey.TXN_OFFSET_COMMIT: AclOperation.READ,
    ApiKey.ADD_PARTITIONS_TO_TXN: AclOperation.WRITE,
    ApiKey.DELETE_RECORDS: AclOperation.DELETE,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: AclOperation.DESCRIBE,
    ApiKey.DESCRIBE_PRODUCERS: AclOperation.READ,
}
"""The operation required on each topic whose partitions a request contains, by API."""
_OF_ITEM = None
"""Placeholder for a resource type that the item (config resource, coordinator key) determines."""
OF_ITEMS: Mapping[int, tuple[tuple[AclOperation, ResourceType | None], ...]] = {
    ApiKey.CREATE_TOPICS: (
        (AclOperation.CREATE, ResourceType.TOPIC),
        (AclOperation.CREATE, ResourceType.CLUSTER),
    ),
    ApiKey.DELETE_TOPICS: (
        (AclOperation.DESCRIBE, ResourceType.TOPIC),
        (AclOperation.DELETE, ResourceType.TOPIC),
    ),
    ApiKey.CREATE_PARTITIONS: ((AclOperation.ALTER, ResourceType.TOPIC),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ((AclOperation.DESCRIBE, ResourceType.TOPIC),),
    ApiKey.FIND_COORDINATOR: ((AclOperation.DESCRIBE, _OF_ITEM),),
    ApiKey.OFFSET_FETCH: ((AclOperation.DESCRIBE, ResourceType.GROUP),),
    ApiKey.DESCRIBE_GROUPS: ((AclOperation.DESCRIBE, ResourceType.GROUP),),
    ApiKey.DELETE_GROUPS: ((AclOperation.DELETE, ResourceType.GROUP),),
    ApiKey.DESCRIBE_TRANSACTIONS: ((AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.DESCRIBE_CONFIGS: ((AclOperation.DESCRIBE_CONFIGS, _OF_ITEM),),
    ApiKey.ALTER_CONFIGS: ((AclOperation.ALTER_CONFIGS, _OF_ITEM),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ((AclOperation.ALTER_CONFIGS, _OF_ITEM),),
}
"""Operations required for each item of a request, and the resource types, by API."""
OF_REQUEST: Mapping[int, tuple[tuple[AclOperation, ResourceType, str], ...]] = {
    ApiKey.PRODUCE: (_WRITE_TRANSACTION,),
    ApiKey.OFFSET_COMMIT: (_READ_GROUP,),
    ApiKey.OFFSET_FETCH: ((AclOperation.DESCRIBE, ResourceType.GROUP, "group_id"),),
    ApiKey.JOIN_GROUP: (_READ_GROUP,),
    ApiKey.HEARTBEAT: (_READ_GROUP,),
    ApiKey.LEAVE_GROUP: (_READ_GROUP,),
    ApiKey.SYNC_GROUP: (_READ_GROUP,),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (_READ_GROUP,),
    ApiKey.OFFSET_DELETE: ((AclOperation.DELETE, ResourceType.GROUP, "group_id"),),
    ApiKey.INIT_PRODUCER_ID: (_WRITE_TRANSACTION,),
    ApiKey.ADD_PARTITIONS_TO_TXN: ((*_WRITE_TRANSACTION[:2], "v3_and_below_transactional_id"),),
    ApiKey.ADD_OFFSETS_TO_TXN: (_WRITE_TRANSACTION, _READ_GROUP),
    ApiKey.TXN_OFFSET_COMMIT: (_WRITE_TRANSACTION, _READ_GROUP),
    ApiKey.END_TXN: (_WRITE_TRANSACTION,),
    ApiKey.WRITE_TXN_MARKERS: ((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, ""),),
    ApiKey.DESCRIBE_LOG_DIRS: ((AclOperation.DESCRIBE, ResourceType.CLUSTER, ""),),
    ApiKey.ELECT_LEADERS: ((AclOperation.ALTER, ResourceType.CLUSTER, ""),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ((AclOperation.ALTER, ResourceType.CLUSTER, ""),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ((AclOperation.DESCRIBE, ResourceType.CLUSTER, ""),),
    ApiKey.LIST_CONFIG_RESOURCES: ((AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, ""),),
}
"""Operations required for the whole request, by API. If any is denied, the request fails.

Each entry also specifies the resource type and the request field that contains the resource name.
If the field is null or missing, the operation is not required.
"""
WITHOUT_OPERATIONS = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.METADATA,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_TRANSACTIONS,
    }
)
"""APIs that every client may call. The handlers of the last three omit or reject the topics, groups
and transactions that the client is not authorized for.
"""


class RequiredOperation(NamedTuple):
    """An operation on a resource."""

    operation: AclOperation
    type: ResourceType
    name: str


def operations_on_request(api: ApiKey, request: Any) -> Iterator[RequiredOperation]:
    """Yield the operations that the whole request requires."""
    if api == ApiKey.INIT_PRODUCER_ID and request.transactional_id is None:
        yield RequiredOperation(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    if api == ApiKey.ADD_PARTITIONS_TO_TXN and hasattr(request, "transactions"):
        yield RequiredOperation(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    if api == ApiKey.FIND_COORDINATOR and hasattr(request, "key"):
        yield from operations_on_item(api, request, request.key, None)
    for operation, type_, field in OF_REQUEST.get(api, ()):
        name = getattr(request, field, None) if field else CLUSTER_NAME
        if name is not None:
            yield RequiredOperation(operation, type_, name)


def operations_on_item(
    api: ApiKey, request: Any, item: Any, topic: str | None
) -> Iterator[RequiredOperation]:
    """Yield the operations that an item requires. If the item is a topic, `topic` is its name."""
    for operation, known_type in OF_ITEMS[api]:
        type_ = known_type
        if type_ is ResourceType.TOPIC:
            name = topic
        elif type_ is ResourceType.CLUSTER:
            name = CLUSTER_NAME
        elif type_ is not None:
            name = getattr(item, "group_id", item)
        else:
            type_, name = _resource_of(request, item)
        if name is not None:
            yield RequiredOperation(operation, type_, name)


def _resource_of(request: Any, item: Any) -> tuple[ResourceType, str]:
    """Return the type and name of the resource that an item refers to."""
    if not hasattr(item, "resource_type"):
        is_transaction = getattr(request, "key_type", 0) == _TRANSACTION_KEY
        return ResourceType.TRANSACTIONAL_ID if is_transaction else ResourceType.GROUP, item
    type_ = _CONFIG_RESOURCES.get(int(item.resource_type), ResourceType.CLUSTER)
    return type_, CLUSTER_NAME if type_ is ResourceType.CLUSTER else item.resource_name
