"""Find the transaction coordinator, and decide on its error codes.

The next step after a coordinator's response (`decide`):

    NONE                                            DONE
    COORDINATOR_BUSY                                RETRY
    COORDINATOR_MOVED                               FIND_COORDINATOR, then retry
    unknown topic or partition, not attempted       RETRY (AddPartitionsToTxn)
    topic authorization failed                      DENIED (AddPartitionsToTxn)
    TRANSACTION_ABORTABLE                           ABORT
    any other                                       FAIL

The groups of error codes are in `protocol/error_codes.py`.
The coordinator is looked up again if it reports that it is not the coordinator, if a response is
lost, or if the connection fails. Sender thread only.

Source: Kafka's ``TransactionManager`` (``InitProducerIdHandler``, ``AddPartitionsToTxnHandler``,
``EndTxnHandler``, ``FindCoordinatorHandler``, ``lookupCoordinator``), KIP-890.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.client.backoff import RetryTimer
from spark_kafka_sink.producer.transactions import messages
from spark_kafka_sink.producer.transactions.state import coordinator_error
from spark_kafka_sink.protocol.error_codes import (
    COORDINATOR_BUSY,
    COORDINATOR_MOVED,
    ErrorCode,
    error_name,
)
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from spark_kafka_sink.client.client import Client
    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.producer.acl import AclAdvisor


class CoordinatorAction(Enum):
    """The next step after a coordinator's response."""

    DONE = auto()
    RETRY = auto()
    """Send the request again to the same coordinator, after a backoff."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator, then send the request again."""
    DENIED = auto()
    """This client may not write to the partition's topic."""
    ABORT = auto()
    """The transaction must be aborted, which the coordinator does."""
    FAIL = auto()
    """The coordinator refuses this producer."""


_OF_PARTITION = {
    ErrorCode.unknown_topic_or_partition: CoordinatorAction.RETRY,
    ErrorCode.operation_not_attempted: CoordinatorAction.RETRY,
    ErrorCode.topic_authorization_failed: CoordinatorAction.DENIED,
}


def decide(api: ApiKey, code: int) -> CoordinatorAction:
    """Return the next step after a response to `api` with error `code`.

    `code` is Kafka's, or a `ClientErrorCode`.
    """
    if code == ErrorCode.none:
        return CoordinatorAction.DONE
    if code in COORDINATOR_BUSY:
        return CoordinatorAction.RETRY
    if code in COORDINATOR_MOVED:
        return CoordinatorAction.FIND_COORDINATOR
    if api is ApiKey.ADD_PARTITIONS_TO_TXN and code in _OF_PARTITION:
        return _OF_PARTITION[ErrorCode(code)]
    if code == ErrorCode.transaction_abortable:
        return CoordinatorAction.ABORT
    return CoordinatorAction.FAIL


_RETRIED = {CoordinatorAction.RETRY, CoordinatorAction.FIND_COORDINATOR}


class CoordinatorLookup:
    """Finds the coordinator and connects to it; the caller passes the responses.

    Args:
        client: the connections.
        transactional_id: the id whose coordinator is looked up.
        acls: names missing ACLs.
    """

    def __init__(self, client: Client, transactional_id: str, acls: AclAdvisor) -> None:
        self.problem = ""
        """Why the coordinator is unknown, as Kafka's name of the error; empty without an error."""
        self._client = client
        self._network = client.network
        self._transactional_id = transactional_id
        self._acls = acls
        self._node: Node | None = None
        self._attempts = 0
        """Failed connection attempts to it before it was found."""
        self._asking = False
        config = client.config
        self._retry = RetryTimer(
            config.retry_backoff_ms, config.retry_backoff_max_ms, client.random
        )

    def ready_node(self, now: float, context: object) -> Node | None:
        """Return the coordinator if a request can be sent to it now; else look it up or connect.

        `context` is the context of the FindCoordinator request.

        Raises:
            ProtocolError: the broker asked does not support transactions.
        """
        node = self._node
        if node is None:
            self._maybe_ask(now, context)
            return None
        if self._network.is_ready(node, now):
            return node
        if self._network.attempts(node) > self._attempts:
            self.forget(now)
            self.problem = f"no connection to {node}"
            self._client.metadata.refresh()
            return None
        self._network.connect(node, now)
        return None

    def forget(self, now: float) -> None:
        """Discard the coordinator, which may have changed; look it up again after a backoff."""
        self._node = None
        self._retry.record_failure(now)

    def handle_response(self, completion: Completion, now: float) -> None:
        """Handle the response to FindCoordinator.

        Raises:
            DeliveryError: the broker refuses the request.
        """
        self._asking = False
        code, node = messages.coordinator(completion.response)
        if node is None:
            self.problem = error_name(code)
            if decide(completion.request.api, code) not in _RETRIED:
                raise coordinator_error(completion, code, self._transactional_id, self._acls)
            self._retry.record_failure(now)
            return
        self.problem = ""
        self._retry.record_success()
        # The metadata's node, so that there is one connection to each broker.
        self._node = self._client.metadata.cluster.nodes.get(node.node_id, node)
        self._attempts = self._network.attempts(self._node)

    def wait(self, now: float) -> float:
        """Return the seconds until `ready_node` has something to do.

        Connections and responses end a poll by themselves.
        """
        if self._asking:
            return 1.0
        return max(0.02, self._retry.at - now)

    def _maybe_ask(self, now: float, context: object) -> None:
        if self._asking or now < self._retry.at:
            return
        metadata, network = self._client.metadata, self._network
        node = metadata.least_loaded_node(network, now)
        if node is None:
            metadata.connect_any(network, now)
            return
        connection = network.broker(node.node_id).connection
        request = messages.find_coordinator(connection, self._transactional_id, context)
        self._asking = True
        network.send(node.node_id, request, now)
