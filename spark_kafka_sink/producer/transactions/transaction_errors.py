"""Errors of a whole transaction, and the reason that a failed one adds to an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings

RUN_AGAIN = "Run the write again: read_committed consumers never see records of this transaction."
_SHARED_PARTITION = (
    "Another task of the batch also writes to this partition, but with atomicBatch=true each "
    "partition belongs to one task: write spark_kafka_sink.repartition_by_kafka_partition(df, "
    "options)."
)
_UNEXPECTED_SEQUENCE = error_name(ErrorCode.out_of_order_sequence_number)


def second_attempt_error(claim_id: str) -> DeliveryError:
    """Return the error for a second attempt of a task, which atomicBatch=true does not allow."""
    return DeliveryError(
        f"{claim_id}: this task ran a second time, which atomicBatch=true does not allow, or "
        "the response to its claim was lost; no record of the batch becomes visible",
        hint="Restart the stream, which continues from its checkpoint, or run the batch job again. "
        "Spark's UI and the driver's log show why a first attempt failed. If tasks are often "
        "retried, remove atomicBatch.",
    )


def cancelled_error(transactional_id: str) -> DeliveryError:
    """Return the error for a transaction that is aborted because its task was cancelled."""
    return DeliveryError(
        f"the transaction of {transactional_id} was aborted because its task was cancelled",
        hint=RUN_AGAIN,
    )


def aborted_write_error(transactional_id: str) -> DeliveryError:
    """Return the error for a write that the driver aborted before the transaction began."""
    return DeliveryError(
        f"{transactional_id}: the driver aborted this write before the task began",
        hint="The write was cancelled, the query was stopped, or another task failed first.",
    )


def mark_uncommittable(error: KafkaProdError, settings: TransactionSettings) -> None:
    """Add to an error's message that the transaction cannot be committed."""
    error.message = (
        f"{error.message}; the transaction of {settings.transactional_id} cannot be committed; "
        "read_committed consumers never see its records"
    )
    if error.kafka_error == _UNEXPECTED_SEQUENCE:
        error.hint = RUN_AGAIN if settings.shared is None else _SHARED_PARTITION
