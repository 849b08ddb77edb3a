"""Authorized operations (KIP-430): a bit field of all operations not denied to the client.

Kafka's AclEntry.supportedOperations defines the operations of a resource type. The code of an
AclOperation is the index of its bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from spark_kafka_sink.broker.authorization.denials import Denials

REQUESTED_BY = {
    ResourceType.TOPIC: "include_topic_authorized_operations",
    ResourceType.GROUP: "include_authorized_operations",
    ResourceType.CLUSTER: "include_cluster_authorized_operations",
}
"""The field with which a client requests the authorized operations."""
_CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_OPERATIONS = {
    ResourceType.TOPIC: (
        *_CONFIGS,
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE),
        *(AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE),
    ),
    ResourceType.GROUP: (
        *_CONFIGS,
        *(AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    ),
    ResourceType.CLUSTER: (
        *_CONFIGS,
        *(AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE),
        *(AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE),
    ),
}
"""The operations on each type of resource."""


def authorized_operations(denials: Denials, user: str, type_: ResourceType, name: str) -> int:
    """Return the operations on a resource that no rule denies to a user."""
    operations = _OPERATIONS[type_]
    return sum(1 << code for code in operations if denials.allows(user, code, type_, name))
