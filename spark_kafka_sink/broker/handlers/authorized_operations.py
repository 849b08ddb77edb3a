"""Authorized operations (KIP-430): a bit field of all operations not denied to the client.

Kafka's AclEntry.supportedOperations defines the operations of a resource type. The code of an
AclOperation is the index of its bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import RequestContext

_REQUESTED_BY = {
    ResourceType.TOPIC: "include_topic_authorized_operations",
    ResourceType.GROUP: "include_authorized_operations",
    ResourceType.CLUSTER: "include_cluster_authorized_operations",
}
"""The field with which a client requests the authorized operations."""
NOT_REQUESTED = -(2**31)
"""Value of the authorized operations if the client did not request them."""


def _operation_bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS = _operation_bits(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_OPERATIONS = {
    ResourceType.TOPIC: _CONFIGS
    | _operation_bits(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE)
    | _operation_bits(AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE),
    ResourceType.GROUP: _CONFIGS
    | _operation_bits(AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    ResourceType.CLUSTER: _CONFIGS
    | _operation_bits(AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE)
    | _operation_bits(AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE),
}
"""The operations on each type of resource."""


def allowed_operations(context: RequestContext, type_: ResourceType, name: str | None) -> int:
    """Return the authorized operations on a resource."""
    denials = context.cluster.denials
    return denials.without_denied(_OPERATIONS[type_], context.user, type_, name or "")


def operations_on(context: RequestContext, type_: ResourceType, name: str | None) -> int:
    """Return the authorized operations on a resource, or `NOT_REQUESTED`."""
    if not context.get(_REQUESTED_BY[type_], False):
        return NOT_REQUESTED
    return allowed_operations(context, type_, name)
