"""FindCoordinator 0-6: the node for a consumer group or, since version 1, a transactional id.

Many keys at once since version 4 (KIP-699). Other key types are INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values

GROUP = 0
TRANSACTION = 1
BATCHED_VERSION = 4


def handle(context: RequestContext) -> Answer:
    """Handle the FindCoordinator API."""
    if context.version >= BATCHED_VERSION:
        return {"coordinators": [_find(context, key) for key in context.request.coordinator_keys]}
    return _find(context, context.request.key)


def _find(context: RequestContext, key: str) -> Values:
    key_type = context.get("key_type", GROUP)
    if key_type not in {GROUP, TRANSACTION}:
        return {
            "key": key,
            "node_id": -1,
            "port": -1,
            "error_code": ErrorCode.invalid_request,
            "error_message": "This broker coordinates consumer groups and transactions only",
        }
    node = context.cluster.coordinator(key)
    found = {"key": key, "node_id": node.id, "host": node.host, "port": node.port}
    return found if context.version >= BATCHED_VERSION else found | {"error_message": "NONE"}


HANDLER = Handler(api=ApiKey.FIND_COORDINATOR, versions=VersionRange(0, 6), handle=handle)
