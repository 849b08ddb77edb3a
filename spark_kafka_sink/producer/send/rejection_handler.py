"""Handle batches that brokers have rejected permanently.

If errors are tolerated, the rejected records become dead letters and the other records are sent
again; otherwise the batch and the session fail. Rejections are rare, so records may be processed
one by one here.

Source: KIP-467.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
from spark_kafka_sink.producer.limits.size_limits import half
from spark_kafka_sink.producer.send.batch_completer import status_of
from spark_kafka_sink.producer.send.batch_failure import batch_error, too_large
from spark_kafka_sink.producer.send.batch_result import BatchResult
from spark_kafka_sink.producer.send.batch_split import piece_of, recompress, records_of, split
from spark_kafka_sink.producer.send.partition_state import PartitionState
from spark_kafka_sink.producer.send.rejection_remedy import Remedy, choose_remedy

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.delivery_status import DeliveryStatus
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.records.record_decoder import Record
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.bad_rows.bad_row_counter import BadRowCounter
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.rows import RowNumbers
    from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
    from spark_kafka_sink.producer.send.dead_letter_batches import DeadLetterBatches
    from spark_kafka_sink.producer.send.failure_handler import FailureHandler
    from spark_kafka_sink.producer.send.session_partitions import SessionPartitions

_DENIED = PartitionResponse(code=ErrorCode.topic_authorization_failed)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RejectionHandler:
    """Separates rejected records from their batch, or fails the batch and the session.

    Sender thread only. The records are counted in `BadRowCounter`, which has its own lock.
    """

    config: ProducerConfig
    partitions: SessionPartitions
    completer: BatchCompleter
    failures: FailureHandler
    bad_rows: BadRowCounter
    dead_letters: DeadLetterBatches | None
    """Builds dead letters; None without a dead letter topic."""
    acls: AclAdvisor

    def repair(self, result: BatchResult) -> bool:
        """Separate the rejected records if errors are tolerated; return False without a remedy."""
        match self._choose_remedy(result):
            case Remedy.NONE:
                return False
            case Remedy.REMOVE_REJECTED:
                self._remove_rejected(result)
            case Remedy.HALVE:
                self.split(result, half(result.batch.raw_size))
            case Remedy.CORRECT:
                dead_letters = self.dead_letters
                replacement = None if dead_letters is None else dead_letters.correct(result)
                if replacement is None:
                    return False
                self.completer.replace(result, [replacement])
        return True

    def fail_rejected(self, result: BatchResult, status: DeliveryStatus) -> None:
        """Fail the batch and the session."""
        state, batch, response = result
        transactional = self.failures.is_transactional
        error = batch_error(batch, response, self.acls, transactional=transactional)
        state.remove(batch)
        self.completer.fail_batch(batch, status, result.error)
        self.failures.record_failure(error)

    def split(self, result: BatchResult, size: int) -> None:
        """Send the batch again in batches of at most `size` bytes before compression."""
        pieces = split(result.batch, size, self.config.compression_level)
        self.completer.replace(result, pieces, split_size=size)

    def reject_unauthorized(self, topics: frozenset[str]) -> None:
        """Reject the waiting batches of topics that the metadata reports as unauthorized."""
        self._reject_waiting(topics, self.acls.topic_error)

    def reject_unwritable(self, topics: frozenset[str]) -> None:
        """Reject the waiting batches of topics that the coordinator does not allow to write to."""
        self._reject_waiting(topics, self.acls.write_error)

    def _reject_waiting(
        self, topics: frozenset[str], topic_error: Callable[[str], DeliveryError]
    ) -> None:
        """Treat waiting batches as if the leaders of their partitions had rejected them.

        Batches in flight wait for their responses; batches being compressed wait for the next
        metadata.
        """

        def is_rejected(batch: ProducerBatch) -> bool:
            return batch.topic_partition.topic in topics and batch.is_ready

        for batch in self.partitions.take_waiting(is_rejected):
            topic_partition = batch.topic_partition
            state = self.partitions.get(topic_partition) or PartitionState(topic_partition)
            result = BatchResult(state, batch, _DENIED)
            if self._choose_remedy(result) is Remedy.REMOVE_REJECTED:
                self._remove_rejected(result)
                continue
            self.completer.fail_batch(batch, status_of(batch), result.error)
            self.failures.record_failure(topic_error(topic_partition.topic))

    def _remove_rejected(self, result: BatchResult) -> None:
        """Convert the rejected records to dead letters, and retry the other records.

        If too many rows are bad, fail the session.
        """
        remaining, rejected = self._split_off_rejected(result)
        dead_letters: list[ProducerBatch] = []
        if self.dead_letters is not None:
            dead_letters = self.dead_letters.build(result, rejected, self._broker_message(result))
        try:
            self.bad_rows.check_ratio()
        except DeliveryError as error:
            self.failures.record_failure(error)
        self.completer.remove_rejected(result, remaining, dead_letters)

    def _choose_remedy(self, result: BatchResult) -> Remedy:
        dead_letters = self.dead_letters
        topic = result.batch.topic_partition.topic
        return choose_remedy(
            result,
            is_tolerant=self.bad_rows.policy.is_tolerant,
            is_dead_letter=dead_letters is not None and topic == dead_letters.topic.name,
        )

    def _split_off_rejected(self, result: BatchResult) -> tuple[list[ProducerBatch], list[Record]]:
        """Remove the rejected records; return the remaining batch, and the rejected records.

        The first element is a list with one batch without a sequence, or an empty list if no
        records remain.
        """
        batch = result.batch
        records = records_of(batch)
        bad = result.rejected or set(range(len(records)))
        rejected = [record for index, record in enumerate(records) if index in bad]
        kept = [record for index, record in enumerate(records) if index not in bad]
        self._count_bad_rows(result, len(rejected))
        if not kept:
            return [], rejected
        remaining = piece_of(batch, kept, _row_numbers_without(batch.row_numbers(), bad))
        remaining.inherit_position(batch)
        recompress(remaining, batch.codec, self.config.compression_level)
        return [remaining], rejected

    def _broker_message(self, result: BatchResult) -> str:
        """Return the broker's message; if an ACL is missing, also a hint."""
        message, code = result.response.message or "", result.response.code
        if code not in error_codes.AUTHORIZATION_FAILED:
            return message
        hint = self.acls.hint(code, result.batch.topic_partition.topic)
        return f"{message}; {hint}" if message else hint

    def _count_bad_rows(self, result: BatchResult, count: int) -> None:
        batch, response = result.batch, result.response
        texts = [text or result.error for _, text in response.record_errors]
        if response.code in error_codes.RECORDS_TOO_LARGE and count == batch.records == 1:
            texts = [too_large(batch, response)]
        examples = [
            f"{batch.topic_partition}: {text}"
            for text in texts or [self._broker_message(result) or result.error]
        ]
        self.bad_rows.count_error(result.row_error, count, examples)


def _row_numbers_without(row_numbers: RowNumbers | None, bad: set[int]) -> RowNumbers | None:
    """Return the row numbers of the records that are not bad."""
    if row_numbers is None:
        return None
    return row_numbers._replace(numbers=np.delete(np.asarray(row_numbers.numbers), sorted(bad)))
