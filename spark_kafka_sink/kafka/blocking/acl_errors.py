"""The errors for unauthorized requests, which contain the missing ACL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.common.text import capitalized
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import error_name
from spark_kafka_sink.kafka.security.acl_commands import Acl, AclCommandBuilder

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient


def denied_error(client: BlockingClient, action: str, code: int, acl: Acl) -> AuthorizationError:
    """Return an error for a request that failed with an authorization error code.

    Args:
        client: the client that sent the request.
        action: the request, such as "InitProducerId".
        code: Kafka's error code.
        acl: the missing ACL.
    """
    config = client.config
    acls = AclCommandBuilder.of(config)
    topic = acl.name if acl.resource is ResourceType.TOPIC else None
    return AuthorizationError(
        f"{action} was rejected: {acl} is denied to {acls.principal}",
        topic=topic,
        kafka_error=error_name(code),
        hint=capitalized(acls.grant_hint(acl)),
    )


def topic_acl(operation: AclOperation, topic: str) -> Acl:
    """Return an ACL for one topic."""
    return Acl(operation, ResourceType.TOPIC, topic)


def transactional_id_acl(operation: AclOperation, name: str, prefix: str | None) -> Acl:
    """Return an ACL for all transactional ids with a prefix, or for `name` if `prefix` is None."""
    if prefix is None:
        return Acl(operation, ResourceType.TRANSACTIONAL_ID, name)
    return Acl(operation, ResourceType.TRANSACTIONAL_ID, prefix, prefixed=True)
