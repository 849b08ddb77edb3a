"""The order of the queues, and which of their batches may be drained."""

from threading import RLock

import pytest

from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues

FIRST, SECOND, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
UNASSIGNED_QUEUE = TopicPartition("t", UNASSIGNED)


@pytest.fixture
def queues() -> BatchQueues:
    return BatchQueues(RLock())


def add(queues: BatchQueues, partition: TopicPartition, created_at: float = 0.0) -> ProducerBatch:
    batch = ProducerBatch(partition, created_at, 0, 0, is_ready=True)
    queues.append(batch)
    return batch


def test_partition_that_was_served_is_last(queues: BatchQueues) -> None:
    for partition in (FIRST, SECOND, FIRST, OTHER):
        add(queues, partition)
    assert queues.waiting() == [FIRST, SECOND, OTHER]
    queues.pop(FIRST)
    queues.move_to_end(FIRST)
    assert queues.waiting() == [SECOND, OTHER, FIRST]
    queues.pop(FIRST)
    assert queues.waiting() == [SECOND, OTHER]


def test_partition_with_retries_keeps_its_turn_without_queued_batches(queues: BatchQueues) -> None:
    for partition in (FIRST, SECOND):
        add(queues, partition)
    queues.pop(FIRST)
    assert queues.waiting({FIRST}) == [FIRST, SECOND]


def test_batch_that_is_being_compressed_blocks_later_batches(queues: BatchQueues) -> None:
    first = add(queues, FIRST)
    add(queues, FIRST)
    first.is_ready = False
    assert queues.head(FIRST) is None
    assert queues.ready_count(FIRST) == 1


def test_unassigned_batches_block_only_batches_of_their_topic(queues: BatchQueues) -> None:
    unassigned, other = add(queues, UNASSIGNED_QUEUE), add(queues, OTHER)
    assigned = add(queues, FIRST)
    assert (queues.head(FIRST), queues.head(OTHER)) == (None, other)
    assert queues.head(UNASSIGNED_QUEUE) is unassigned
    queues.pop(UNASSIGNED_QUEUE)
    assert queues.head(FIRST) is assigned


def test_first_batches_are_taken_while_the_condition_holds(queues: BatchQueues) -> None:
    old, young = add(queues, FIRST, 1.0), add(queues, FIRST, 6.0)
    add(queues, FIRST, 2.0)  # older than the batch before it: a piece of another batch
    also_old = add(queues, SECOND, 3.0)
    assert queues.take_first(lambda batch: batch.created_at <= 3.0) == [old, also_old]
    assert queues.head(FIRST) is young


def test_lengths_are_those_of_one_topic(queues: BatchQueues) -> None:
    for partition in (FIRST, FIRST, SECOND, OTHER):
        add(queues, partition)
    assert queues.lengths("t") == {0: 2, 1: 1}
