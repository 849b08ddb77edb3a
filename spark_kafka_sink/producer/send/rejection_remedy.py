"""What happens to the records of a batch that was rejected permanently; a pure decision."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.producer.send.batch_result import RejectionCause

if TYPE_CHECKING:
    from spark_kafka_sink.producer.send.batch_result import BatchResult

_CORRECTABLE = error_codes.RECORDS_TOO_LARGE | {ErrorCode.invalid_timestamp}


class Remedy(Enum):
    """The next step after a rejected batch."""

    NONE = auto()
    """No remedy: the task fails."""
    REMOVE_REJECTED = auto()
    """The rejected records are known and become dead letters; the others are retried."""
    HALVE = auto()
    """The rejected records are unknown: the batch is halved until each bad record is isolated."""
    CORRECT = auto()
    """The rejected records are dead letters, which are shrunk or get the current time, if possible.
    """


def choose_remedy(result: BatchResult, *, is_tolerant: bool, is_dead_letter: bool) -> Remedy:
    """Return the remedy for a permanently failed batch.

    Dead letters are corrected if they are rejected because of their size or timestamp; for other
    reasons, they have no remedy. A possibly persisted batch has no remedy either, because its
    records may have been appended before the rejection.

    Args:
        result: the batch and its response.
        is_tolerant: errors are tolerated.
        is_dead_letter: the batch is for the dead letter topic.
    """
    batch, cause = result.batch, result.cause
    is_tolerated = is_tolerant and cause is not RejectionCause.OTHER
    if batch.delivery.is_possibly_persisted or not is_tolerated:
        return Remedy.NONE
    if is_dead_letter:
        return Remedy.CORRECT if result.response.code in _CORRECTABLE else Remedy.NONE
    if cause is RejectionCause.TOPIC or batch.records == 1 or result.rejected:
        return Remedy.REMOVE_REJECTED
    return Remedy.HALVE
