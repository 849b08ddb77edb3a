"""Transactions in the messages of tasks."""

import pickle
from dataclasses import replace

import pytest

from spark_kafka_sink.config.enums import ReportTasks
from spark_kafka_sink.exactly_once.task_transaction import (
    PartitionRange,
    TaskOutcome,
    TaskResult,
    TaskTransaction,
)
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.spark.exactly_once import transaction_commit_messages
from spark_kafka_sink.spark.exactly_once.transaction_commit_messages import (
    TransactionCommitMessage,
    results_of,
    transactions_of,
)

PARTITIONS = 1_000
OPEN = TransactionalProducer(
    transactional_id="orders/stream/q/17/3fa9c01be2d4a7f0/0/10",
    producer_id=4_000,
    epoch=0,
    version=TransactionVersion.V2,
)
WRITTEN = TaskResult(
    outcome=TaskOutcome.WRITTEN,
    query_id="q",
    batch="17",
    transaction=TaskTransaction(transaction=OPEN, started_ms=1_000, timeout_ms=60_000),
)
EMPTY = TaskResult(outcome=TaskOutcome.EMPTY, query_id="q", batch="17")
REPORT = DeliveryReport(
    tasks=1,
    partitions=tuple(
        PartitionReport(
            topic="events",
            partition=partition,
            persisted=partition % 3,
            first_offset=partition * 999_983,
            last_offset=partition * 999_983 + 2,
        )
        for partition in range(PARTITIONS)
    ),
)
RANGES = tuple(
    PartitionRange(
        topic="events",
        partition=part.partition,
        records=part.persisted,
        first_offset=part.first_offset,
        last_offset=part.last_offset,
    )
    for part in REPORT.partitions
    if part.persisted
)


@pytest.mark.parametrize("pickled", [False, True])
def test_transactions_partitions_match_the_report(pickled: bool) -> None:
    message = TransactionCommitMessage(REPORT, WRITTEN, "nonce")
    if pickled:
        data = pickle.dumps(message)
        assert len(data) < 10_000
        message = pickle.loads(data)
    empty = TransactionCommitMessage(DeliveryReport(), EMPTY, "nonce")
    result, nothing = results_of([message, empty])
    assert result.transaction is not None
    assert result.transaction.partitions == RANGES
    assert result.transaction.unlisted_partitions == 0
    assert nothing is EMPTY


@pytest.mark.deep
def test_some_partitions_are_named_for_many_tasks() -> None:
    results = results_of([TransactionCommitMessage(REPORT, WRITTEN, "nonce")] * 1_000)
    transaction = results[0].transaction
    assert transaction is not None
    assert transaction.partitions == RANGES[:100]
    assert transaction.unlisted_partitions == len(RANGES) - 100
    assert transaction.records == sum(partition.records for partition in RANGES)


@pytest.mark.deep
def test_all_partitions_of_a_shared_transaction_are_named() -> None:
    shared = TransactionCommitMessage(REPORT, replace(WRITTEN, shared=OPEN), "nonce")
    results = results_of([shared] * 200)
    assert results[0].transaction is not None
    assert results[0].transaction.partitions == RANGES


def test_tasks_without_rows_use_no_space_in_the_decision() -> None:
    nothing = TransactionCommitMessage(DeliveryReport(), EMPTY, "nonce")
    written, *_ = results_of([TransactionCommitMessage(REPORT, WRITTEN, "nonce"), *[nothing] * 999])
    assert written.transaction is not None
    assert written.transaction.partitions == RANGES


def test_partitions_with_findable_markers_are_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_commit_messages, "max_listed_partitions", lambda _: 1)
    unknown, known = (
        PartitionReport(topic="t", partition=n, persisted=1, first_offset=at, last_offset=at)
        for n, at in ((0, None), (1, 7))
    )
    report = DeliveryReport(partitions=(unknown, known))
    (result,) = results_of([TransactionCommitMessage(report, WRITTEN, "nonce")])
    assert result.transaction is not None
    assert [partition.last_offset for partition in result.transaction.partitions] == [7]
    assert result.transaction.unlisted_partitions == result.transaction.unlisted_records == 1


def test_report_has_transactions_for_as_many_tasks_as_lines() -> None:
    tasks = []
    for number in range(20, 0, -1):
        transaction = replace(OPEN, transactional_id=f"orders/{number:02}", epoch=number)
        tasks.append(in_transaction(transaction))
    everything = transactions_of([*tasks, EMPTY], ReportTasks.ALL)
    assert [(transaction.transactional_id, transaction.epoch) for transaction in everything] == [
        (f"orders/{number:02}", number) for number in range(1, 21)
    ]
    assert {transaction.producer_id for transaction in everything} == {4_000}
    assert transactions_of(tasks, ReportTasks.SLOWEST) == everything[:10]
    assert transactions_of(tasks, ReportTasks.NONE) == ()


def test_tasks_with_a_shared_transaction_count_it_once() -> None:
    tasks = [replace(in_transaction(OPEN), shared=OPEN)] * 3
    assert len(transactions_of(tasks, ReportTasks.ALL)) == 1


def in_transaction(transaction: TransactionalProducer) -> TaskResult:
    assert WRITTEN.transaction is not None
    return replace(WRITTEN, transaction=replace(WRITTEN.transaction, transaction=transaction))
