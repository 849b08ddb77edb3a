"""Actions for error codes of coordinators and leaders, and the FindCoordinator handler (KIP-98).

Source: ``TransactionManager``, ``PartitionLeaderStrategy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.client.cluster import Node
from spark_kafka_sink.protocol.codec import encode
from spark_kafka_sink.protocol.error_codes import (
    COORDINATOR_BUSY,
    COORDINATOR_MOVED,
    COORDINATOR_UNAVAILABLE,
    INVALID_METADATA,
    LEADER_BUSY,
    ErrorCode,
)
from spark_kafka_sink.protocol.messages import build
from spark_kafka_sink.protocol.transactions import find_coordinator
from spark_kafka_sink.protocol.versions import ApiKey, request_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.call import Answer
    from spark_kafka_sink.protocol.messages import Values


def coordinator_action(code: int) -> Action:
    """Return the action for an error code of a coordinator."""
    if code in COORDINATOR_MOVED:
        return Action.LOOK_UP
    return Action.RETRY if code in COORDINATOR_BUSY else Action.DONE


def leader_action(code: int) -> Action:
    """Return the action for an error code of a partition's leader."""
    if code in INVALID_METADATA or code == ErrorCode.unknown_leader_epoch:
        return Action.LOOK_UP
    return Action.RETRY if code in LEADER_BUSY else Action.DONE


def write(api: ApiKey, version: int, values: Values) -> list[Buffer]:
    """Write a request's body from a tree of plain values."""
    return [encode(build(request_type(api, version), values))]


_BATCHED = 4
"""The first version of FindCoordinator with several keys (KIP-699)."""
_MANY = 1_000


class FindCoordinatorHandler(ApiHandler[str, Node]):
    """Finds the coordinators of transactional ids (KIP-98)."""

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
        return Action.RETRY if code in COORDINATOR_UNAVAILABLE else Action.DONE


def _coordinator(told: object) -> KeyResult[Node]:
    code = int(getattr(told, "error_code", 0))
    message = getattr(told, "error_message", None)
    node_id, host, port = (getattr(told, name) for name in ("node_id", "host", "port"))
    node = Node(int(node_id), host, int(port))
    return KeyResult(code=code, message=message, value=None if code else node)
