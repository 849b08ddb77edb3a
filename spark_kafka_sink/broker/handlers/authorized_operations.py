"""What a client may do with a resource, as bit fields (KIP-430): everything that is not denied.

The operations of a resource type are those of Kafka's AclEntry.supportedOperations, a bit is the
code of its AclOperation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import RequestContext


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS = _bits(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
TOPIC_OPERATIONS: Final = _CONFIGS | _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
GROUP_OPERATIONS: Final = _CONFIGS | _bits(Operation.READ, Operation.DESCRIBE, Operation.DELETE)
CLUSTER_OPERATIONS: Final = _CONFIGS | _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.IDEMPOTENT_WRITE,
)
NOT_ASKED: Final = -(2**31)
"""The value of the bit field when the client did not request it."""


def of_topic(context: RequestContext, topic: str | None) -> int:
    """Operations on a topic, where Metadata is asked for them."""
    if not context.get("include_topic_authorized_operations", False):
        return NOT_ASKED
    return allowed_on_topic(context, topic)


def allowed_on_topic(context: RequestContext, topic: str | None) -> int:
    """Operations on a topic."""
    return _allowed(context, TOPIC_OPERATIONS, ResourceType.TOPIC, topic or "")


def of_group(context: RequestContext, group: str) -> int:
    """Operations on a group, where DescribeGroups is asked for them."""
    if not context.get("include_authorized_operations", False):
        return NOT_ASKED
    return _allowed(context, GROUP_OPERATIONS, ResourceType.GROUP, group)


def of_cluster(context: RequestContext) -> int:
    """Operations on the cluster, where Metadata or DescribeCluster is asked for them."""
    if not context.get("include_cluster_authorized_operations", False):
        return NOT_ASKED
    return _allowed(context, CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME)


def _allowed(context: RequestContext, operations: int, type_: ResourceType, name: str) -> int:
    return context.cluster.denials.without_denied(operations, context.user, type_, name)
