"""Which partitions are added to a transaction, and for which batches."""

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.transactions.state import AddState, TransactionPartitions

FIRST, SECOND, OTHER = (
    TopicPartition("t", 0),
    TopicPartition("t", 1),
    TopicPartition("u", 0),
)


def taken(partitions: TransactionPartitions, ready: int, drawn: list[int]) -> tuple[list[int], int]:
    """Return the partitions that received a batch and the number to be added."""
    new: list[TopicPartition] = []
    batches = list(range(ready))
    got = []
    for number in partitions.for_batches("t", drawn, ready, lambda: next(iter(batches), None), new):
        got.append(number)
        batches.pop(0)
    partitions.request(new)
    return got, len(new)


def test_partition_is_added_once() -> None:
    partitions = TransactionPartitions()
    partitions.request([FIRST, FIRST, OTHER])
    assert partitions.in_state(AddState.NEW) == [FIRST, OTHER]
    assert partitions.take_new() == [FIRST, OTHER]
    partitions.request([FIRST, SECOND])
    assert partitions.take_new() == [SECOND]
    assert not partitions.is_added(FIRST)
    partitions.mark_added(FIRST)
    assert partitions.is_added(FIRST)
    assert (partitions.pending("t"), partitions.pending("u")) == (1, 1)


def test_pending_additions_are_requested_again_after_a_loss() -> None:
    partitions = TransactionPartitions()
    partitions.request([FIRST, SECOND])
    partitions.take_new()
    partitions.mark_added(FIRST)
    partitions.retry_adding()
    assert partitions.take_new() == [SECOND]


def test_rejected_partition_can_be_requested_again() -> None:
    partitions = TransactionPartitions()
    partitions.request([FIRST])
    partitions.take_new()
    partitions.drop(FIRST)
    partitions.request([FIRST])
    assert partitions.take_new() == [FIRST]


def test_one_batch_adds_one_partition() -> None:
    partitions = TransactionPartitions()
    assert taken(partitions, 1, [7, 3, 5]) == ([], 1)
    assert taken(partitions, 1, [5, 7, 3]) == ([], 0)
    partitions.mark_added(*partitions.take_new())
    assert taken(partitions, 1, [5, 3, 7]) == ([7], 0)


def test_partitions_are_added_in_drawing_order() -> None:
    partitions = TransactionPartitions()
    assert taken(partitions, 3, list(range(10))) == ([], 3)
    for partition in partitions.take_new():
        partitions.mark_added(partition)
        partitions.mark_used([partition])
    assert taken(partitions, 3, [2, 9, 1, 8]) == ([2, 1], 1)
