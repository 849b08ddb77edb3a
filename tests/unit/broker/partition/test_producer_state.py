"""Sequences and epochs of the next batch of a producer, after six batches of two records."""

import pytest

from spark_kafka_sink.broker.partition.producer_state import BatchMetadata, ProducerStateManager
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker
from spark_kafka_sink.kafka.records.record_batch import MAX_SEQUENCE, BatchHeader

PRODUCER_ID, EPOCH = 7, 3


def batch(sequence: int, *, epoch: int = EPOCH, records: int = 2) -> BatchHeader:
    return BatchHeader(
        producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_offset_delta=records - 1,
    )


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (batch(12), ErrorCode.none),
        (batch(13), ErrorCode.out_of_order_sequence_number),
        (batch(11), ErrorCode.out_of_order_sequence_number),
        (batch(0), ErrorCode.out_of_order_sequence_number),
        (batch(2, records=4), ErrorCode.out_of_order_sequence_number),
        (batch(12, epoch=EPOCH - 1), ErrorCode.invalid_producer_epoch),
        (batch(0, epoch=EPOCH + 1), ErrorCode.none),
        (batch(12, epoch=EPOCH + 1), ErrorCode.out_of_order_sequence_number),
        (batch(9)._replace(producer_id=8), ErrorCode.none),
    ],
)
def test_next_batch(header: BatchHeader, code: ErrorCode) -> None:
    producers = ProducerStateManager()
    for sequence in range(0, 12, 2):
        producers.remember(batch(sequence), sequence, -1)
    assert producers.check_sequence(header) is code


def test_duplicates_of_the_last_five_batches_are_detected() -> None:
    producers = ProducerStateManager()
    for sequence in range(0, 12, 2):
        producers.remember(batch(sequence), sequence + 100, -1)
    verdicts = [producers.check_sequence(batch(sequence)) for sequence in range(2, 12, 2)]
    offsets = [verdict.base_offset for verdict in verdicts if isinstance(verdict, BatchMetadata)]
    assert offsets == [102, 104, 106, 108, 110]


def test_sequences_wrap() -> None:
    producers = ProducerStateManager()
    producers.remember(batch(MAX_SEQUENCE), 0, -1)
    assert producers.check_sequence(batch(1)) is ErrorCode.none


@pytest.mark.parametrize("lacks_batches", [False, True])
def test_producer_that_is_known_only_from_a_marker(*, lacks_batches: bool) -> None:
    """Its deleted batches may have had any sequence."""
    producers = ProducerStateManager()
    marker = EndTransactionMarker(producer_id=PRODUCER_ID, epoch=EPOCH, is_commit=True)
    producers.end_transaction(marker, 0, 0, lacks_batches=lacks_batches)
    gap = ErrorCode.none if lacks_batches else ErrorCode.out_of_order_sequence_number
    assert producers.check_sequence(batch(12)) is gap
    assert producers.check_sequence(batch(0)) is ErrorCode.none
