"""The error that a transaction's failure becomes: what happened, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.protocol.error_codes import AUTHORIZATION_FAILED, ErrorCode, error_name
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.producer.acl import AclAdvisor
    from spark_kafka_sink.producer.transactions.settings import TransactionSettings

_FENCED = (
    "a later producer has taken the transactional id, or the coordinator has ended the transaction"
)
_MESSAGES: Mapping[int, str] = {
    ErrorCode.producer_fenced: _FENCED,
    ErrorCode.invalid_producer_epoch: _FENCED,
    ErrorCode.invalid_producer_id_mapping: "the coordinator knows another producer id by the "
    "transactional id, or none any more",
    ErrorCode.invalid_txn_state: "the transaction is not open any more",
    ErrorCode.transaction_abortable: "the coordinator has this transaction aborted",
    ErrorCode.unsupported_version: "the broker does not serve transactions as they are asked for",
}
_AGAIN = "run the write again: nothing of this transaction will be seen by read_committed readers"
_TWO_OWNERS = (
    "another task of the batch writes to this partition, too: with atomicBatch=true each partition "
    "belongs to one task; write spark_kafka_sink.repartition_by_kafka_partition(df, options)"
)
_UNEXPECTED_SEQUENCE = error_name(ErrorCode.out_of_order_sequence_number)
_HINTS: Mapping[int, str] = {
    ErrorCode.invalid_transaction_timeout: "set transaction.timeout.ms to no more than the "
    "brokers' transaction.max.timeout.ms (15 minutes by default), or raise that on every broker",
    ErrorCode.unsupported_version: "exactly-once needs Apache Kafka 2.1 or later, or what is "
    "compatible with it",
}


def coordinator_error(
    completion: Completion,
    code: int,
    transactional_id: str,
    acls: AclAdvisor,
    settings: TransactionSettings | None = None,
) -> DeliveryError:
    """A coordinator, or who was asked for it, refuses a request for good."""
    broker, api = str(completion.node), completion.request.api
    if code in AUTHORIZATION_FAILED:
        two_phase = settings is not None and settings.two_phase
        return acls.transaction_denied(code, broker, two_phase=two_phase)
    said = _MESSAGES.get(code, f"the broker refused {ApiKey(api).name}")
    if code == ErrorCode.invalid_transaction_timeout and settings is not None:
        said = (
            f"transaction.timeout.ms = {settings.timeout_ms} is more than the "
            "transaction.max.timeout.ms of the brokers"
        )
    return DeliveryError(
        f"transactional id {transactional_id}: {said}",
        broker=broker,
        error=error_name(code),
        hint=_HINTS.get(code, _AGAIN),
    )


def second_attempt_error(claim_id: str) -> DeliveryError:
    """A task of a batch in one transaction was run before, and may have written there."""
    return DeliveryError(
        f"{claim_id}: this task was run a second time, which atomicBatch=true does not allow, or "
        "the answer to its claim was lost; nothing of the batch becomes visible",
        hint="start the stream again, which goes on from its checkpoint, or run the batch job "
        "again. What ended a first attempt is another error, which Spark's UI and the driver's "
        "log have. Where tasks are often run again, leave atomicBatch out",
    )


def timed_out_error(settings: TransactionSettings) -> DeliveryError:
    """The transaction has been open for longer than the coordinator leaves it open."""
    return DeliveryError(
        f"the transaction of {settings.transactional_id} has been open for transaction.timeout.ms "
        f"= {settings.timeout_ms}: the coordinator has aborted it",
        error=error_name(ErrorCode.invalid_txn_state),
        hint="make the tasks shorter (more partitions of the DataFrame, smaller micro-batches), or "
        "raise transaction.timeout.ms, and transaction.max.timeout.ms on the brokers with it",
    )


def given_up_error(transactional_id: str) -> DeliveryError:
    """The task has failed elsewhere, and its transaction is aborted."""
    return DeliveryError(
        f"the transaction of {transactional_id} is aborted, as its task was given up", hint=_AGAIN
    )


def aborted_write_error(transactional_id: str) -> DeliveryError:
    """The driver has aborted the write before this task began its transaction."""
    return DeliveryError(
        f"{transactional_id}: the driver has aborted this write, and the task began too late to be "
        "part of it",
        hint="the write was cancelled, the query was stopped, or another task failed first",
    )


def poison(error: KafkaProdError, settings: TransactionSettings) -> None:
    """Have a failure say what it means for the transaction that it happened in."""
    error.message = (
        f"{error.message}; the transaction of {settings.transactional_id} can't be committed any "
        "more, and nothing of it will be seen by read_committed readers"
    )
    if error.error == _UNEXPECTED_SEQUENCE:
        error.hint = _AGAIN if settings.joined is None else _TWO_OWNERS
