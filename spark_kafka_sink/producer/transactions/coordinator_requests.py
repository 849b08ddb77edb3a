"""Find the transaction coordinator, build requests to it, and determine how to handle its errors.

The next step after a coordinator's response (`action_for`):

    NONE                                            DONE
    load in progress, concurrent transactions,
      request timed out                             RETRY
    not available, not coordinator, disconnected    FIND_COORDINATOR, then retry
    unknown topic or partition, not attempted       RETRY (AddPartitionsToTxn)
    topic authorization failed                      DENIED (AddPartitionsToTxn)
    TRANSACTION_ABORTABLE                           ABORT
    any other                                       FAIL

The coordinator is looked up again if it reports that it is not the coordinator, if a response is
lost, or if the connection fails. Sender thread only.

Source: Kafka's ``TransactionManager`` (``InitProducerIdHandler``, ``AddPartitionsToTxnHandler``,
``EndTxnHandler``, ``FindCoordinatorHandler``, ``lookupCoordinator``), KIP-98, KIP-699
(FindCoordinator in batches), KIP-890, KIP-939.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import DeliveryError, ProtocolError
from spark_kafka_sink.kafka.client.backoff import RetryTimer
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.kafka.client.request import Request
from spark_kafka_sink.kafka.protocol import error_codes, transactions
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange, negotiate
from spark_kafka_sink.producer.transactions.producer_transaction import RUN_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.kafka.client.client import Client
    from spark_kafka_sink.kafka.client.connection_protocol import ConnectionProtocol
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.transactions.producer_transaction import TransactionSettings

_FENCED = "a newer producer uses the transactional id, or the coordinator has ended the transaction"
_MESSAGES: Mapping[int, str] = {
    ErrorCode.producer_fenced: _FENCED,
    ErrorCode.invalid_producer_epoch: _FENCED,
    ErrorCode.invalid_producer_id_mapping: "the coordinator has a different producer id for the "
    "transactional id, or no longer has one",
    ErrorCode.invalid_txn_state: "the transaction is no longer open",
    ErrorCode.transaction_abortable: "the transaction must be aborted",
    ErrorCode.unsupported_version: "the broker does not support the requested transaction",
}
_HINTS: Mapping[int, str] = {
    ErrorCode.invalid_transaction_timeout: "Set transaction.timeout.ms to at most the brokers' "
    "transaction.max.timeout.ms (15 minutes by default), or raise that setting on every broker.",
    ErrorCode.unsupported_version: "Exactly-once needs Apache Kafka 2.1 or later, or a compatible "
    "broker.",
}
_TWO_PHASE = VersionRange(6, 6)
"""The version of InitProducerId that supports two-phase commit (KIP-939)."""


class CoordinatorAction(Enum):
    """The next step after a coordinator's response, in order of severity."""

    DONE = auto()
    RETRY = auto()
    """Send the request again to the same coordinator, after a backoff."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator, then send the request again."""
    DENIED = auto()
    """This client may not write to the partition's topic."""
    ABORT = auto()
    """The coordinator aborts the transaction; the session fails."""
    FAIL = auto()
    """The coordinator rejects this producer."""


RETRYING = {CoordinatorAction.RETRY, CoordinatorAction.FIND_COORDINATOR}


_PARTITION_ACTIONS = {
    ErrorCode.unknown_topic_or_partition: CoordinatorAction.RETRY,
    ErrorCode.operation_not_attempted: CoordinatorAction.RETRY,
    ErrorCode.topic_authorization_failed: CoordinatorAction.DENIED,
}


def action_for(api: ApiKey, code: int) -> CoordinatorAction:
    """Return the next step after a response to `api` with error `code`.

    `code` is a Kafka error code or a `ClientErrorCode`.
    """
    if code == ErrorCode.none:
        return CoordinatorAction.DONE
    if code in error_codes.COORDINATOR_BUSY:
        return CoordinatorAction.RETRY
    if code in error_codes.COORDINATOR_MOVED:
        return CoordinatorAction.FIND_COORDINATOR
    if api is ApiKey.ADD_PARTITIONS_TO_TXN and code in _PARTITION_ACTIONS:
        return _PARTITION_ACTIONS[ErrorCode(code)]
    if code == ErrorCode.transaction_abortable:
        return CoordinatorAction.ABORT
    return CoordinatorAction.FAIL


def worst_code(codes: Iterable[int]) -> int:
    """Return the code of an AddPartitionsToTxn response that determines the next step."""
    return max(codes, key=lambda code: action_for(ApiKey.ADD_PARTITIONS_TO_TXN, code).value)


def coordinator_error(
    completion: Completion,
    code: int,
    transactional_id: str,
    acls: AclAdvisor,
    settings: TransactionSettings | None = None,
) -> DeliveryError:
    """Return the error for a permanently rejected coordinator request or lookup."""
    broker = str(completion.node)
    api = completion.request.api
    if code in error_codes.AUTHORIZATION_FAILED:
        two_phase = settings is not None and settings.two_phase
        return acls.transaction_error(code, broker, two_phase=two_phase)
    problem = _MESSAGES.get(code, f"the broker rejected {ApiKey(api).name}")
    if code == ErrorCode.invalid_transaction_timeout and settings is not None:
        problem = (
            f"transaction.timeout.ms = {settings.timeout_ms} exceeds the brokers' "
            f"transaction.max.timeout.ms"
        )
    return DeliveryError(
        f"transactional id {transactional_id}: {problem}",
        broker=broker,
        kafka_error=error_name(code),
        hint=_HINTS.get(code, RUN_AGAIN),
    )


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
            code, node = result.code, Node(*result[-3:])
        if code:
            self.problem = error_name(code)
            if action_for(completion.request.api, code) not in RETRYING:
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
        connection = network.broker(node.node_id).connection
        request = find_coordinator_request(connection, self._transactional_id, context)
        self._is_requested = True
        network.send(node.node_id, request, now)


def find_coordinator_request(
    connection: ConnectionProtocol, transactional_id: str, context: object
) -> Request:
    """Return a request to any broker for the coordinator of a transactional id.

    Raises:
        ProtocolError: the broker is too old to support transactions.
    """
    version = connection.version(ApiKey.FIND_COORDINATOR)
    if version < 1:
        raise ProtocolError(
            "the broker does not support transactions",
            kafka_error=error_name(ErrorCode.unsupported_version),
            hint="Exactly-once needs Apache Kafka 2.1 or later, or a compatible broker.",
        )
    values = transactions.find_coordinator_values([transactional_id])
    return Request.of(ApiKey.FIND_COORDINATOR, version, values, context)


def init_producer_id_request(
    connection: ConnectionProtocol, settings: TransactionSettings, context: object
) -> Request:
    """Return a request to the coordinator for a producer id and the next epoch.

    Raises:
        ProtocolError: two-phase commit is requested, but the broker does not support it.
    """
    api = ApiKey.INIT_PRODUCER_ID
    version = _two_phase(connection) if settings.two_phase else connection.version(api)
    timeout_ms = transactions.NO_TIMEOUT_MS if settings.two_phase else settings.timeout_ms
    values = transactions.init_producer_id_values(
        settings.first_id, timeout_ms, two_phase=settings.two_phase
    )
    return Request.of(api, version, values, context)


def _two_phase(connection: ConnectionProtocol) -> int:
    api = ApiKey.INIT_PRODUCER_ID
    try:
        return negotiate(api, _TWO_PHASE, connection.versions.get(api))
    except ProtocolError as error:
        raise ProtocolError(
            "two-phase commit requires InitProducerId 6, which the broker does not support "
            "(KIP-939)",
            kafka_error=error.kafka_error,
            hint="It needs unstable.api.versions.enable=true and "
            "transaction.two.phase.commit.enable=true on every broker (Kafka 4.2 or later); "
            "without twoPhaseCommit, brokers abort transactions after transaction.max.timeout.ms.",
        ) from error


def supports_describe(connection: ConnectionProtocol) -> bool:
    """Return True if the broker supports DescribeTransactions (Kafka 3.0 and later)."""
    return ApiKey.DESCRIBE_TRANSACTIONS in connection.versions


def error_code(response: Any | None) -> int:
    """Return the error code of a response; `disconnected` if there is no response."""
    return ClientErrorCode.disconnected if response is None else int(response.error_code)


def flag_error_code(response: Any | None) -> int:
    """Return the error code of the abort flag in a DescribeTransactions response.

    Raises:
        ProtocolError: the response describes no transactional id.
    """
    if response is not None and not response.transaction_states:
        raise ProtocolError("a response to DescribeTransactions contains no transactional id")
    return error_code(None if response is None else response.transaction_states[0])
