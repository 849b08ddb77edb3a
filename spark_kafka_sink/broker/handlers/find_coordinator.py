"""FindCoordinator 0-6: the node for a consumer group; many keys at once since version 4 (KIP-699).

Other key types (transactions, share groups) are INVALID_REQUEST: nobody here coordinates them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.build import Values

GROUP = 0


def handle(call: Call) -> Answer:
    """See the module."""
    if call.version >= 4:
        return {"coordinators": [_find(call, key) for key in call.request.coordinator_keys]}
    return _find(call, call.request.key)


def _find(call: Call, key: str) -> Values:
    if call.get("key_type", GROUP) != GROUP:
        return {
            "key": key,
            "node_id": -1,
            "port": -1,
            "error_code": ErrorCode.invalid_request,
            "error_message": "This broker coordinates consumer groups only",
        }
    node = call.cluster.coordinator(key)
    return {"key": key, "node_id": node.id, "host": node.host, "port": node.port}


HANDLER = Handler(api=ApiKey.FIND_COORDINATOR, versions=VersionRange(0, 6), handle=handle)
