"""The rules that keep a partition's records in order and its sequences gapless."""

from itertools import count

import pytest

from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER, TopicPartition
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.producer_id import ProducerIdentity, ProducerIdState
from spark_kafka_sink.producer.send.partition_state import PartitionState

LEADER, NEW_LEADER = 1, 2
RECORDS = 3
NOW = 100.0


class Partition:
    """A partition's state, and the batches that a test sends to it."""

    def __init__(self, transactional_id: str | None = None) -> None:
        self.state = PartitionState(TopicPartition("t", 0))
        self.identity = ProducerIdentity(
            state=ProducerIdState.REQUESTED, transactional_id=transactional_id
        )
        self.identity.set_producer_id(7, 0)
        self.offsets = count(step=RECORDS)

    def send(self, leader: int = LEADER, now: float = NOW) -> ProducerBatch:
        """Send a new batch, whether or not the rules allow it."""
        batch = ProducerBatch(TopicPartition("t", 0), 0.0, 0, 0)
        batch.add(b"", RECORDS, 0)
        return self.send_again(batch, leader, now)

    def send_again(
        self, batch: ProducerBatch, leader: int = LEADER, now: float = NOW
    ) -> ProducerBatch:
        self.state.mark_sent(batch, leader)
        self.state.assign_sequence(batch, self.identity)
        batch.delivery.record_attempt(now, now, None)
        return batch

    def acknowledge(self, batch: ProducerBatch, now: float = NOW) -> None:
        assert self.state.acknowledge(batch, next(self.offsets), now) is None

    def retry(self, *batches: ProducerBatch) -> None:
        for batch in batches:
            self.state.retry(batch, 0.0)

    def may_send(self, leader: int = LEADER, now: float = NOW) -> bool:
        return self.state.may_send_new(leader, now)


@pytest.fixture
def partition() -> Partition:
    """Return a partition whose leader has acknowledged a batch."""
    partition = Partition()
    partition.acknowledge(partition.send())
    return partition


def test_first_batch_of_a_session_is_sent_alone() -> None:
    partition = Partition()
    assert partition.may_send()
    first = partition.send()
    assert not partition.may_send()
    partition.acknowledge(first)
    partition.send()
    assert partition.may_send()


def test_first_batch_after_a_second_without_acknowledgement_is_sent_alone(
    partition: Partition,
) -> None:
    partition.send(now=NOW + 1.5)
    assert not partition.may_send(now=NOW + 1.5)


def test_first_batch_to_a_new_leader_is_sent_alone_after_the_old_leader_has_responded(
    partition: Partition,
) -> None:
    sent = partition.send()
    assert not partition.may_send(NEW_LEADER)
    partition.acknowledge(sent)
    assert partition.may_send(NEW_LEADER)
    first = partition.send(NEW_LEADER)
    assert not partition.may_send(NEW_LEADER)
    partition.acknowledge(first)
    partition.send(NEW_LEADER)
    assert partition.may_send(NEW_LEADER)


def test_nothing_is_sent_without_a_leader_or_before_the_retry_is_due(partition: Partition) -> None:
    assert not partition.may_send(NO_LEADER)
    partition.state.retry(partition.send(), NOW + 5)
    assert partition.state.next_retry(LEADER, NOW + 4) is None
    assert partition.state.next_retry(LEADER, NOW + 5) is not None


def test_retries_precede_new_batches_and_are_sent_alone_lowest_sequence_first(
    partition: Partition,
) -> None:
    first, second = partition.send(), partition.send()
    partition.retry(second, first)
    assert not partition.may_send()
    assert partition.state.next_retry(LEADER, NOW) is first
    partition.send_again(first)
    assert partition.state.next_retry(LEADER, NOW) is None
    partition.acknowledge(first)
    assert partition.state.next_retry(LEADER, NOW) is second
    partition.send_again(second)
    assert not partition.may_send()
    partition.acknowledge(second)
    assert partition.may_send()


def test_batch_is_head_if_no_earlier_batch_is_incomplete(partition: Partition) -> None:
    first, second = partition.send(), partition.send()
    assert partition.state.is_head(first)
    assert not partition.state.is_head(second)
    partition.retry(first)
    assert not partition.state.is_head(second)


@pytest.mark.parametrize("is_possibly_persisted", [False, True])
def test_later_batch_that_overtakes_a_rejected_batch_fails_the_session(
    partition: Partition, is_possibly_persisted: bool
) -> None:
    """A possibly persisted batch may be in the log already, before the later batch."""
    first, second = partition.send(), partition.send()
    if is_possibly_persisted:
        first.delivery.is_possibly_persisted = True
    partition.retry(first)
    error = partition.state.acknowledge(second, next(partition.offsets), NOW)
    assert (error is None) == is_possibly_persisted


def test_first_batch_of_a_new_epoch_is_sent_alone(partition: Partition) -> None:
    rejected = partition.send()
    rejected.delivery.is_possibly_persisted = True
    partition.state.retry(rejected, 0.0, in_new_epoch=True)
    partition.state.renumber(partition.identity)
    assert (partition.send().epoch, partition.may_send()) == (1, False)


def test_possibly_persisted_batch_is_unsafe_to_renumber(partition: Partition) -> None:
    first, second = partition.send(), partition.send()
    second.delivery.is_possibly_persisted = True
    partition.retry(second)
    partition.state.retry(first, 0.0, in_new_epoch=True)
    assert partition.state.renumber(partition.identity).unsafe_batches == [second]
    assert partition.state.retries == (first,)


def in_transaction() -> tuple[Partition, list[ProducerBatch]]:
    """Return a partition of a transaction, and three batches in flight."""
    partition = Partition("id")
    partition.acknowledge(partition.send())
    return partition, [partition.send() for _ in range(3)]


def leave_gap(partition: Partition, batch: ProducerBatch) -> None:
    """Remove all records of a rejected batch."""
    partition.state.leave_gap(batch)
    partition.state.remove(batch)


def test_partition_in_a_transaction_continues_at_the_sequence_of_the_gap() -> None:
    partition, (first, second, third) = in_transaction()
    leave_gap(partition, first)
    partition.retry(second, third)
    renumbering = partition.state.renumber(partition.identity)
    assert (renumbering.sequence, renumbering.is_past_gap) == (first.sequence, False)
    for batch, sequence in ((second, RECORDS), (third, 2 * RECORDS)):
        partition.send_again(batch)
        assert (batch.epoch, batch.sequence) == (0, sequence)
        partition.acknowledge(batch)


def test_earliest_of_several_gaps_is_closed() -> None:
    partition, (first, second, third) = in_transaction()
    leave_gap(partition, second)
    leave_gap(partition, first)
    partition.retry(third)
    assert partition.state.renumber(partition.identity).sequence == first.sequence
    assert partition.send_again(third).sequence == first.sequence


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_gap_cannot_be_closed_if_the_log_may_contain_a_later_batch(is_acknowledged: bool) -> None:
    partition, (first, second, third) = in_transaction()
    leave_gap(partition, first)
    partition.retry(second)
    if is_acknowledged:
        partition.state.acknowledge(third, next(partition.offsets), NOW)
    else:
        third.delivery.is_possibly_persisted = True
        partition.retry(third)
    renumbering = partition.state.renumber(partition.identity)
    assert renumbering.is_past_gap
    assert renumbering.unsafe_batches == ([] if is_acknowledged else [third])


def test_accepted_piece_proves_that_the_whole_batch_was_not_appended(partition: Partition) -> None:
    whole = partition.send()
    pieces = [ProducerBatch(TopicPartition("t", 0), 0.0, 0, 0) for _ in range(2)]
    for number, piece in enumerate(pieces):
        piece.inherit_position(whole, number)
        piece.delivery.is_possibly_persisted = True
        piece.set_sequence(whole.producer_id, whole.epoch, whole.sequence + number)
    partition.state.replace(whole, pieces)
    assert partition.state.retries == tuple(pieces)
    partition.acknowledge(partition.send_again(pieces[0]))
    assert not pieces[1].delivery.is_possibly_persisted


def test_batch_abandoned_in_flight_is_possibly_persisted(partition: Partition) -> None:
    sent = partition.send()
    assert partition.state.abandon_in_flight(lambda batch: batch is sent) == [sent]
    assert sent.delivery.is_possibly_persisted
    assert not partition.state.is_in_flight(sent)
