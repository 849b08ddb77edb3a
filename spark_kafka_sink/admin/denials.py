"""What brokers deny to whoever administers transactions and topics: which ACL is missing.

Source: ``KafkaApis``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.protocol.error_codes import error_name
from spark_kafka_sink.security.acl import Acl, AclGuide, Operation, ResourceType

if TYPE_CHECKING:
    from spark_kafka_sink.admin.blocking_client import BlockingClient


def denied(client: BlockingClient, what: str, code: int, acl: Acl) -> AuthorizationError:
    """The error for what was refused with an authorization error code.

    Args:
        client: who asked.
        what: the request, such as "InitProducerId".
        code: Kafka's error code.
        acl: the right that is missing.
    """
    config = client.config
    guide = AclGuide(config.security, config.bootstrap_servers[0])
    topic = acl.name if acl.resource is ResourceType.TOPIC else None
    return AuthorizationError(
        f"{what} was refused: {acl} is denied to {guide.principal}",
        topic=topic,
        error=error_name(code),
        hint=guide.grant(acl),
    )


def on_topic(operation: Operation, topic: str) -> Acl:
    """A right on one topic."""
    return Acl(operation, ResourceType.TOPIC, topic)


def on_transactional_id(operation: Operation, name: str, prefix: str | None) -> Acl:
    """A right on all transactional ids with a prefix where there is one, else on this id."""
    if prefix is None:
        return Acl(operation, ResourceType.TRANSACTIONAL_ID, name)
    return Acl(operation, ResourceType.TRANSACTIONAL_ID, prefix, prefixed=True)
