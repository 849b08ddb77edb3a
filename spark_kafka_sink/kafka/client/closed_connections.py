"""Detect brokers that close the connection on a request, or whose response cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.client.request import Loss

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.client.network_client import NetworkClient
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.kafka.protocol.versions import ApiKey


def is_closed(loss: Loss | None, *, is_written: bool) -> bool:
    """Return True if the connection was closed after the broker received the whole request.

    The broker has closed it, or this client, because it could not read the response.
    """
    return is_written and loss in (Loss.CLOSED, Loss.UNREADABLE)


def closed_twice_error(api: ApiKey, node: Node, loss: Loss | None, failure: str) -> ProtocolError:
    """Return the error for a connection that was closed on the same request twice."""
    return ProtocolError(
        f"{failure} (twice)"
        if loss is Loss.UNREADABLE
        else f"the broker closed the connection twice when it received {api.name}",
        broker=str(node),
        hint=f"See the broker's log; it may not support {api.name}.",
    )


class ClosedConnections:
    """The brokers that have closed the connection on an API since its last response."""

    def __init__(self) -> None:
        self._nodes: set[tuple[ApiKey, Node]] = set()

    def record(self, completion: Completion) -> None:
        """Record a completed request.

        Raises:
            ProtocolError: the broker has closed the connection on the same request twice.
        """
        api, node = completion.request.api, completion.node
        if not completion.is_oldest:  # The broker may have closed it on an older request.
            return
        if not is_closed(completion.loss, is_written=completion.is_written):
            self._nodes = {closed for closed in self._nodes if closed[0] is not api}
        elif (api, node) in self._nodes:
            raise closed_twice_error(api, node, completion.loss, completion.failure or "")
        else:
            self._nodes.add((api, node))

    def forget_restarted(self, network: NetworkClient) -> None:
        """Forget the brokers that have refused a connection since then, because they restart."""
        # The closed connection is the first failure.
        self._nodes = {closed for closed in self._nodes if network.failed_attempts(closed[1]) <= 1}
