"""How to handle the errors of transaction coordinators.

The next step after a coordinator's response (`action_for`):

    NONE                                            DONE
    load in progress, concurrent transactions,
      request timed out                             RETRY
    not available, not coordinator, disconnected    FIND_COORDINATOR, then retry
    unknown topic or partition, not attempted       RETRY (AddPartitionsToTxn)
    topic authorization failed                      DENIED (AddPartitionsToTxn)
    TRANSACTION_ABORTABLE                           ABORT
    any other                                       FAIL

Source: Kafka's ``TransactionManager`` (``InitProducerIdHandler``, ``AddPartitionsToTxnHandler``,
``EndTxnHandler``), KIP-98, KIP-890.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions.transaction_errors import RUN_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings

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


def error_code(response: Any | None) -> int:
    """Return the error code of a response; `disconnected` if there is no response."""
    return ClientErrorCode.disconnected if response is None else int(response.error_code)
