"""A batch whose tasks share one transaction (atomicBatch=true)."""

from dataclasses import replace

import pytest

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.shared_transaction import (
    are_all_skipped,
    check_producers,
    shared_of,
    written_ranges,
)
from spark_kafka_sink.exactly_once.task_transaction import (
    PartitionRange,
    TaskOutcome,
    TaskResult,
    TaskTransaction,
)
from spark_kafka_sink.kafka.admin.transaction_description import ActiveProducer
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion

SHARED = TransactionalProducer(
    transactional_id="orders/stream", producer_id=7, epoch=3, version=TransactionVersion.V2
)
PLACE = TopicPartition("events", 1)
WRITTEN = PartitionRange(topic="events", partition=1, records=20, first_offset=100)
KNOWN = ActiveProducer(producer_id=7, epoch=3, last_sequence=19, transaction_start=100)
STRANGER = replace(KNOWN, producer_id=8, last_sequence=5)


def result(
    *partitions: PartitionRange, shared: TransactionalProducer | None = SHARED
) -> TaskResult:
    transaction = TaskTransaction(
        transaction=SHARED, started_ms=0, timeout_ms=1, partitions=partitions
    )
    return TaskResult(
        outcome=TaskOutcome.WRITTEN if partitions else TaskOutcome.EMPTY,
        query_id="q",
        batch="5",
        transaction=transaction if partitions else None,
        shared=shared,
    )


SKIPPED = replace(result(), outcome=TaskOutcome.SKIPPED)


def test_each_partition_has_one_owner() -> None:
    other = replace(WRITTEN, topic="others")
    assert written_ranges([result(WRITTEN), result(), result(other)]) == {
        PLACE: WRITTEN,
        TopicPartition("others", 1): other,
    }
    with pytest.raises(TransactionError, match="tasks 0 and 2") as caught:
        written_ranges([result(WRITTEN), result(), result(other, WRITTEN)])
    assert (caught.value.topic, caught.value.partition) == PLACE
    assert "repartition_by_kafka_partition" in str(caught.value.hint)


def test_all_tasks_have_the_same_plan() -> None:
    assert shared_of([result(WRITTEN), result()]) == SHARED
    assert shared_of([result(WRITTEN, shared=None)]) is None
    for other in (None, replace(SHARED, epoch=4)):
        with pytest.raises(TransactionError, match="2 times"):
            shared_of([result(WRITTEN), result(shared=other)])


def test_batch_is_skipped_by_all_tasks_or_none() -> None:
    assert are_all_skipped([SKIPPED, SKIPPED])
    assert not are_all_skipped([result(WRITTEN), result()])
    with pytest.raises(TransactionError, match="1 of 2 tasks skipped"):
        are_all_skipped([SKIPPED, result()])


def test_leaders_confirm_the_tasks_reports() -> None:
    check_producers(SHARED, {PLACE: WRITTEN}, {PLACE: (STRANGER, KNOWN)})
    check_producers(SHARED, {}, {})
    # Sequences wrap to 0 after 2^31 - 1.
    many = replace(WRITTEN, records=2**31 + 3)
    check_producers(SHARED, {PLACE: many}, {PLACE: (replace(KNOWN, last_sequence=2),)})


def test_unknown_offset_fails_the_batch() -> None:
    unknown = {PLACE: replace(WRITTEN, first_offset=None)}
    with pytest.raises(TransactionError, match="100 instead of None"):
        check_producers(SHARED, unknown, {PLACE: (KNOWN,)})


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (STRANGER, "events-1 contains none of 20 records"),
        (replace(KNOWN, epoch=4), "has epoch 4 of the producer instead of 3"),
        (replace(KNOWN, transaction_start=None), "has no open transaction"),
        (replace(KNOWN, last_sequence=24), "has 24 as its last sequence instead of 19"),
        (replace(KNOWN, last_sequence=-1), "has -1 as its last sequence instead of 19"),
        (replace(KNOWN, transaction_start=90), "starts at offset 90 instead of 100"),
    ],
)
def test_records_missing_on_a_leader_fail_the_batch(known: ActiveProducer, said: str) -> None:
    owners = {PLACE: WRITTEN, TopicPartition("events", 2): replace(WRITTEN, partition=2)}
    producers = {PLACE: (known,), TopicPartition("events", 2): (KNOWN,)}
    with pytest.raises(TransactionError, match="1 of 2 partitions") as caught:
        check_producers(SHARED, owners, producers)
    assert said in str(caught.value)
