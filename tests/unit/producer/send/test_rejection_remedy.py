"""The remedy for a rejected batch, by its contents and response."""

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.send.batch_result import BatchResult
from spark_kafka_sink.producer.send.partition_state import PartitionState
from spark_kafka_sink.producer.send.rejection_remedy import Remedy, choose_remedy

PARTITION = TopicPartition("t", 0)
NAMED = PartitionResponse(code=ErrorCode.invalid_record, record_errors=((1, "bad"),))


def rejected(response: PartitionResponse, records: int = 3) -> BatchResult:
    batch = ProducerBatch(PARTITION, 0.0, 0, 0, records=records)
    return BatchResult(PartitionState(PARTITION), batch, response)


@pytest.mark.parametrize(
    ("response", "records", "remedy"),
    [
        (NAMED, 3, Remedy.REMOVE_REJECTED),
        (PartitionResponse(code=ErrorCode.invalid_record), 3, Remedy.HALVE),
        (PartitionResponse(code=ErrorCode.invalid_record), 1, Remedy.REMOVE_REJECTED),
        (PartitionResponse(code=ErrorCode.topic_authorization_failed), 3, Remedy.REMOVE_REJECTED),
        (PartitionResponse(code=ErrorCode.unknown_server_error), 3, Remedy.NONE),
    ],
)
def test_tolerated_rejection(response: PartitionResponse, records: int, remedy: Remedy) -> None:
    result = rejected(response, records)
    assert choose_remedy(result, is_tolerant=True, is_dead_letter=False) is remedy
    assert choose_remedy(result, is_tolerant=False, is_dead_letter=False) is Remedy.NONE


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (ErrorCode.message_too_large, Remedy.CORRECT),
        (ErrorCode.invalid_timestamp, Remedy.CORRECT),
        (ErrorCode.invalid_record, Remedy.NONE),
    ],
)
def test_dead_letters_are_corrected_by_size_and_timestamp(code: ErrorCode, remedy: Remedy) -> None:
    result = rejected(PartitionResponse(code=code))
    assert choose_remedy(result, is_tolerant=True, is_dead_letter=True) is remedy


def test_possibly_persisted_records_are_no_dead_letters() -> None:
    result = rejected(NAMED)
    result.batch.delivery.is_possibly_persisted = True
    assert choose_remedy(result, is_tolerant=True, is_dead_letter=False) is Remedy.NONE
