"""The broker's response to a batch, with the state of the batch's partition."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import error_name
from spark_kafka_sink.producer.bad_rows.row_error import TOPIC_ROW_ERRORS, RowError

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.partition_state import PartitionState


class RejectionCause(Enum):
    """The cause of a rejected batch: some records, the topic, or something else."""

    RECORDS = auto()
    """Some records are the cause; the partition and the broker work."""
    TOPIC = auto()
    """The topic is the cause; the broker works."""
    OTHER = auto()


class BatchResult(NamedTuple):
    """The broker's response to a batch, or the reason why there is none, and the partition."""

    state: PartitionState
    batch: ProducerBatch
    response: PartitionResponse

    @property
    def error(self) -> str:
        """The name of the error."""
        return error_name(self.response.code)

    @property
    def cause(self) -> RejectionCause:
        """The cause of the rejection."""
        if self.response.record_errors or self.response.code in error_codes.INVALID_RECORDS:
            return RejectionCause.RECORDS
        return (
            RejectionCause.TOPIC if self.response.code in TOPIC_ROW_ERRORS else RejectionCause.OTHER
        )

    @property
    def row_error(self) -> RowError:
        """The error of each rejected record."""
        if self.response.code in error_codes.RECORDS_TOO_LARGE:
            return RowError.OVERSIZED
        return TOPIC_ROW_ERRORS.get(self.response.code, RowError.REJECTED)

    @property
    def rejected(self) -> set[int]:
        """The indexes of the records listed in the response; all if the topic is the cause."""
        if self.cause is RejectionCause.TOPIC:
            return set(range(self.batch.records))
        errors = self.response.record_errors
        return {index for index, _ in errors if 0 <= index < self.batch.records}
