"""The transaction that a task reports to the driver."""

import pickle
from dataclasses import replace

import pytest

from spark_kafka_sink.exactly_once.task_transaction import (
    PartitionRange,
    TaskOutcome,
    TaskResult,
    TaskTransaction,
    max_listed_partitions,
    rows_of,
)
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion

OPEN = TransactionalProducer(
    transactional_id="orders/run/1/2/3/4", producer_id=7, epoch=0, version=TransactionVersion.V2
)
TASK = TaskTransaction(
    transaction=OPEN,
    started_ms=1_000,
    timeout_ms=60_000,
    partitions=(
        PartitionRange(topic="events", partition=0, records=5_210, first_offset=17, last_offset=9),
        PartitionRange(topic="events", partition=1, records=2),
    ),
)


def test_transaction_counts_the_records_of_its_partitions() -> None:
    assert TASK.records == 5_212
    assert TASK.transactional_id == "orders/run/1/2/3/4"


def test_unlisted_partitions_are_counted() -> None:
    named = TASK.partitions[:1]
    assert (
        replace(TASK, partitions=named, unlisted_partitions=1, unlisted_records=2).records == 5_212
    )


def test_decision_names_all_partitions_of_few_tasks_and_some_of_many() -> None:
    assert max_listed_partitions(10) == 10_000
    assert max_listed_partitions(10_000) == 10
    assert max_listed_partitions(0) == max_listed_partitions(1) == 100_000
    assert max_listed_partitions(10**6) == max_listed_partitions(10**6 + 1) == 1


def test_text_of_a_range() -> None:
    assert [str(partition) for partition in TASK.partitions] == [
        "events-0: 5,210 records, offsets 17 to 9",
        "events-1: 2 records, offsets unknown",
    ]


@pytest.mark.parametrize("outcome", TaskOutcome)
def test_only_a_task_that_wrote_has_a_transaction(outcome: TaskOutcome) -> None:
    wrong = None if outcome is TaskOutcome.WRITTEN else TASK
    with pytest.raises(ValueError, match=outcome.value):
        TaskResult(outcome=outcome, query_id="q", batch="1", transaction=wrong)
    right = TASK if wrong is None else None
    result = TaskResult(outcome=outcome, query_id="q", batch="1", transaction=right)
    assert pickle.loads(pickle.dumps(result)) == result


def test_row_count_is_known_if_every_task_has_counted() -> None:
    first, other = (
        TaskResult(outcome=TaskOutcome.SKIPPED, query_id="q", batch="7", rows=rows)
        for rows in (3, 4)
    )
    uncounted = TaskResult(outcome=TaskOutcome.EMPTY, query_id="q", batch="7")
    assert rows_of([first, other]) == 7
    assert rows_of([first, uncounted]) is None
    assert rows_of([]) == 0
