"""The errors for unauthorized requests, which contain the missing ACL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.common.text import capitalized
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import error_name
from spark_kafka_sink.kafka.security.acl_commands import Acl, AclCommandBuilder

if TYPE_CHECKING:
    from spark_kafka_sink.config.client_config import ClientConfig


def denied_error(
    config: ClientConfig, action: str | None, code: int, acl: Acl, broker: str | None = None
) -> AuthorizationError:
    """Return an error for a missing ACL.

    Args:
        config: the configuration of the unauthorized client.
        action: the rejected request, such as "InitProducerId"; None if no request was rejected.
        code: Kafka's error code.
        acl: the missing ACL.
        broker: the broker that rejected the request, or None.
    """
    acls = AclCommandBuilder.of(config)
    rejected = f"{action} was rejected: " if action else ""
    return AuthorizationError(
        f"{rejected}{acl} is denied to {acls.principal}",
        topic=acl.name if acl.resource is ResourceType.TOPIC else None,
        broker=broker,
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
