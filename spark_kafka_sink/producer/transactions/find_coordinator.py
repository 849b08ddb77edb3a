"""Find the transaction coordinator, and connect to it.

The coordinator is looked up again if it reports that it is not the coordinator, if a response is
lost, or if the connection fails. Sender thread only.

Source: Kafka's ``TransactionManager`` (``FindCoordinatorHandler``, ``lookupCoordinator``), KIP-699
(FindCoordinator in batches).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.client.backoff import RetryTimer
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.kafka.protocol import transactions
from spark_kafka_sink.kafka.protocol.error_codes import (
    COORDINATOR_UNAVAILABLE,
    ClientErrorCode,
    error_name,
)
from spark_kafka_sink.producer.transactions.coordinator_errors import coordinator_error
from spark_kafka_sink.producer.transactions.coordinator_requests import find_coordinator_request

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.client import Client
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor


class CoordinatorLookup:
    """Looks up the coordinator and connects to it; the caller passes the responses.

    Args:
        client: the connections.
        transactional_id: the id whose coordinator is looked up.
        acls: determines missing ACLs.
    """

    def __init__(self, client: Client, transactional_id: str, acls: AclAdvisor) -> None:
        self.problem = ""
        """Kafka's name for the error that prevents the lookup; empty if there is none."""
        self._client = client
        self._network = client.network
        self._transactional_id = transactional_id
        self._acls = acls
        self._node: Node | None = None
        self._attempts = 0
        """Number of failed connection attempts to the coordinator at the time of the lookup."""
        self._is_requested = False
        self._retry = RetryTimer(client.config, client.random)

    def ready_node(self, now: float, context: object) -> Node | None:
        """Return the coordinator if a request can be sent now; otherwise look it up or connect.

        `context` is the context of the FindCoordinator request.

        Raises:
            ProtocolError: the broker does not support transactions.
        """
        node = self._node
        if node is None:
            self._maybe_request(now, context)
            return None
        if self._network.is_ready(node, now):
            return node
        if self._network.failed_attempts(node) > self._attempts:
            self.forget(now)
            self.problem = f"no connection to {node}"
            self._client.metadata.request_refresh()
            return None
        self._network.connect(node, now)
        return None

    def forget(self, now: float) -> None:
        """Discard the coordinator, which may have changed; look it up after a backoff."""
        self._node = None
        self._retry.back_off(now)

    def handle_response(self, completion: Completion, now: float) -> None:
        """Handle the response to FindCoordinator.

        Raises:
            DeliveryError: the broker rejects the request.
        """
        self._is_requested = False
        response = completion.response
        code = int(ClientErrorCode.disconnected)
        if response is not None:
            (result,) = transactions.read_coordinators(response, [self._transactional_id])
            code, node = result.code, Node(result.node_id, result.host, result.port)
        if code:
            self.problem = error_name(code)
            if code not in COORDINATOR_UNAVAILABLE:
                raise coordinator_error(completion, code, self._transactional_id, self._acls)
            self._retry.back_off(now)
            return
        self.problem = ""
        self._retry.record_success()
        # Use the node from the metadata, so that each broker has only one connection.
        self._node = self._client.metadata.cluster.nodes.get(node.node_id, node)
        self._attempts = self._network.failed_attempts(self._node)

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until `ready_node` must be called again.

        Connections and responses are not considered, because they end a poll anyway.
        """
        if self._is_requested:
            return 1.0
        return max(0.02, self._retry.due_at - now)

    def _maybe_request(self, now: float, context: object) -> None:
        if self._is_requested or now < self._retry.due_at:
            return
        network = self._network
        node = self._client.metadata.any_node(network, now)
        if node is None:
            return
        versions = network.broker(node.node_id).versions
        request = find_coordinator_request(versions, self._transactional_id, context)
        self._is_requested = True
        network.send(node.node_id, request, now)
