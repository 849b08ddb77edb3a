"""Which broker coordinates a transactional id (KIP-98). Source: ``CoordinatorStrategy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.handlers.body import write
from spark_kafka_sink.client.cluster import Node
from spark_kafka_sink.protocol.error_codes import COORDINATOR_UNAVAILABLE, ClientErrorCode
from spark_kafka_sink.protocol.transaction_requests import find_coordinator
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.call import Answer

_BATCHED = 4
"""The first version of FindCoordinator with many keys (KIP-699)."""
_MANY = 1_000


class FindCoordinatorHandler(ApiHandler[str, Node]):
    """The coordinators of transactional ids (KIP-98)."""

    api = ApiKey.FIND_COORDINATOR

    def keys_per_request(self, version: int | None) -> int:
        """See `ApiHandler`."""
        return _MANY if version is not None and version >= _BATCHED else 1

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        return write(self.api, version, find_coordinator(keys))

    def results(self, keys: Sequence[str], answer: Answer) -> Mapping[str, KeyResult[Node]]:
        """See `ApiHandler`."""
        response = answer.response
        told = getattr(response, "coordinators", None)
        if told is None:
            return {keys[0]: _coordinator(response)}
        return {one.key: _coordinator(one) for one in told}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        retriable = code in COORDINATOR_UNAVAILABLE or code in _LOST
        return Action.RETRY if retriable else Action.DONE


_LOST = frozenset({ClientErrorCode.disconnected, ClientErrorCode.not_sent})


def _coordinator(told: object) -> KeyResult[Node]:
    code = int(getattr(told, "error_code", 0))
    message = getattr(told, "error_message", None)
    node_id, host, port = (getattr(told, name) for name in ("node_id", "host", "port"))
    node = Node(int(node_id), host, int(port))
    return KeyResult(code=code, message=message, value=None if code else node)
