"""What a client may do with a resource, as bit fields (KIP-430): without an authorizer, everything.

The operations of a resource type are those of Kafka's AclEntry.supportedOperations, a bit is the
code of its AclOperation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import RequestContext

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = range(3, 10)
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(10, 13)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS = _bits(_DESCRIBE_CONFIGS, _ALTER_CONFIGS)
TOPIC_OPERATIONS: Final = _CONFIGS | _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE)
GROUP_OPERATIONS: Final = _CONFIGS | _bits(_READ, _DESCRIBE, _DELETE)
CLUSTER_OPERATIONS: Final = _CONFIGS | _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _IDEMPOTENT_WRITE
)
NOT_ASKED: Final = -(2**31)
"""The value of the bit field when the client did not request it."""


def of_topic(context: RequestContext) -> int:
    """Operations on a topic, where Metadata is asked for them."""
    return (
        TOPIC_OPERATIONS if context.get("include_topic_authorized_operations", False) else NOT_ASKED
    )


def of_group(context: RequestContext) -> int:
    """Operations on a group, where DescribeGroups is asked for them."""
    return GROUP_OPERATIONS if context.get("include_authorized_operations", False) else NOT_ASKED


def of_cluster(context: RequestContext) -> int:
    """Operations on the cluster, where Metadata or DescribeCluster is asked for them."""
    asked = context.get("include_cluster_authorized_operations", False)
    return CLUSTER_OPERATIONS if asked else NOT_ASKED
