"""Merging and formats of delivery reports."""

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.bad_row_count import BadRowCount
from spark_kafka_sink.report.delivery_counters import (
    SLOWEST_KEPT,
    TASKS_KEPT,
    VERSION,
    ReportedTransaction,
)
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.report_builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.report.task_report import TaskReport
from tests.unit.report.strategies import reports


@given(reports(), reports(), reports())
@settings(max_examples=60)
def test_merging_is_associative_and_commutative(
    a: DeliveryReport, b: DeliveryReport, c: DeliveryReport
) -> None:
    assert a + b == b + a
    assert a + b + c == a + (b + c) == DeliveryReport.merge_all((c, a, b))


@given(reports())
def test_empty_report_changes_nothing(report: DeliveryReport) -> None:
    assert report + DeliveryReport() == report == DeliveryReport() + report


@given(reports())
def test_json_round_trip(report: DeliveryReport) -> None:
    text = report.to_json()
    assert DeliveryReport.from_json(text) == report
    assert DeliveryReport.from_json(text.encode()).to_json() == text


@given(reports())
def test_pickle_round_trip(report: DeliveryReport) -> None:
    assert pickle.loads(pickle.dumps(report)) == report


def test_offsets_of_a_merge_span_both_and_skip_unknown_ones() -> None:
    parts = [
        PartitionReport(topic="t", partition=0, first_offset=first, last_offset=last, persisted=1)
        for first, last in ((10, 19), (None, None), (0, 4))
    ]
    merged = DeliveryReport.merge_all(DeliveryReport(partitions=(part,)) for part in parts)
    (part,) = merged.partitions
    assert (part.first_offset, part.last_offset, part.persisted) == (0, 19, 3)


def test_json_is_readable_and_has_a_version() -> None:
    data = json.loads(one_task(partitions=1).to_json())
    assert data["version"] == VERSION
    assert next(iter(data)) == "version"
    assert data["partitions"][0] == {
        "records": 100,
        "topic": "flights",
        "partition": 0,
        "batches": 1,
        "bytes_uncompressed": 1000,
        "bytes_sent": 500,
        "first_offset": 0,
        "last_offset": 99,
        "persisted": 100,
        "possibly_persisted": 0,
        "not_persisted": 0,
        "sent": 0,
        "would_be_written": 0,
        "leader": None,
        "next_ack_seq": None,
        "next_err_seq": None,
        "first_append_time": None,
        "last_append_time": None,
    }
    task = {"duration_ms": 1000, "partition_id": 1, "attempt": 0, "task_attempt_id": 7}
    counts = {"records": 100, "bytes_sent": 500, "retries": 0, "poison": 0}
    assert data["slowest"] == [task | counts]


def test_sum_contains_all_transaction_outcomes() -> None:
    """The records of an aborted batch count as persisted, so its outcome must remain."""
    outcomes = ("committed", "aborted", "", "rolled forward", "committed")
    reports = [DeliveryReport(transaction_outcome=outcome) for outcome in outcomes]
    first = DeliveryReport.merge_all(reports[:3])
    for merged in (
        DeliveryReport.merge_all(reports),
        DeliveryReport.merge_all([first, *reports[3:]]),
    ):
        assert merged.transaction_outcome == "aborted + committed + rolled forward"


def test_newer_version_is_rejected_with_a_hint() -> None:
    data = json.loads(DeliveryReport().to_json()) | {"version": VERSION + 1}
    with pytest.raises(ReportError, match=f"version {VERSION + 1}"):
        DeliveryReport.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"version": "1"}',
        '{"version": true}',
        '{"version": 0}',
        '{"version": 1}',
        b"\xff\xfe\x00",
    ],
)
def test_other_text_is_rejected(text: str | bytes) -> None:
    with pytest.raises(ReportError, match="not a delivery report"):
        DeliveryReport.from_json(text)


@pytest.mark.parametrize("field", ["errors", "partitions", "request_latency", "slowest", "tasks"])
def test_damaged_report_is_rejected(field: str) -> None:
    data = json.loads(one_task(partitions=2).to_json())
    for damage in (None, [{"x": 1}], "x"):
        with pytest.raises(ReportError, match="damaged"):
            DeliveryReport.from_json(json.dumps(data | {field: damage}))


def test_unknown_fields_are_ignored() -> None:
    report = one_task(partitions=1)
    data = json.loads(report.to_json()) | {"added_later": 1}
    assert DeliveryReport.from_json(json.dumps(data)) == report


@pytest.mark.deep
def test_ten_thousand_tasks_merge_to_a_small_report() -> None:
    parts = [one_task(partitions=10, number=number) for number in range(10_000)]
    merged = DeliveryReport.merge_all(parts)
    assert merged.tasks == 10_000
    assert merged.persisted == 10_000 * 10 * 100
    assert len(merged.partitions) == 10
    assert [task_report.task.task_attempt_id for task_report in merged.slowest] == [
        7
    ] * SLOWEST_KEPT
    assert len(pickle.dumps(merged)) < 4_000


def test_number_of_transactions_is_limited() -> None:
    infos = [
        ReportedTransaction(transactional_id=f"{number:05}", producer_id=number, epoch=0)
        for number in range(TASKS_KEPT + 1)
    ]
    some = DeliveryReport(transactions=tuple(infos[1:]))
    merged = some + DeliveryReport(transactions=tuple(infos[:1]))
    assert merged.transactions == tuple(infos[:-1])


def test_report_of_a_thousand_partitions_pickles_small() -> None:
    assert len(pickle.dumps(one_task(partitions=1000))) < 100_000


def one_task(*, partitions: int, number: int = 1) -> DeliveryReport:
    """Create a task that wrote a batch of 100 records to each partition."""
    builder = ReportBuilder()
    for partition in range(partitions):
        batch = FinishedBatch(
            topic="flights",
            partition=partition,
            records=100,
            bytes_uncompressed=1000,
            bytes_sent=500,
        )
        builder.count_acknowledged(batch, 100 * partition)
        builder.add_request_latency(0.001 * partition)
    return builder.build(TaskAttempt(partition_id=number, attempt=0, task_attempt_id=7), 1000)


def many(tasks: int) -> DeliveryReport:
    lines = [
        TaskReport(
            duration_ms=n, task=TaskAttempt(partition_id=n, task_attempt_id=n), records=n % 7
        )
        for n in range(tasks)
    ]
    return DeliveryReport.merge_all(
        DeliveryReport(tasks=1, task_reports=(line,), slowest=(line,)) for line in lines
    )


def test_each_task_is_one_line_of_the_file() -> None:
    report = many(TASKS_KEPT + 500)
    text = report.to_json()
    assert DeliveryReport.from_json(text) == report
    assert report.tasks == TASKS_KEPT + 500
    assert [task_report.duration_ms for task_report in report.task_reports] == list(
        range(TASKS_KEPT + 499, 499, -1)
    )
    bare = replace(report, task_reports=()).to_json()
    assert text.count("\n") - bare.count("\n") == TASKS_KEPT + 1
    assert len(text) - len(bare) < 80 * TASKS_KEPT


def test_task_lines_of_several_reports_are_combined() -> None:
    whole = many(30)
    parts = [
        DeliveryReport(tasks=1, task_reports=(line,), slowest=(line,))
        for line in whole.task_reports
    ]
    first, two = DeliveryReport.merge_all(parts[::2]), DeliveryReport.merge_all(parts[1::2])
    assert first + two == two + first == whole


def test_task_line_contains_its_reports_values() -> None:
    report = one_task(partitions=3)
    bad_rows = (BadRowCount(reason="null topic", dead_lettered=2, dropped=3),)
    task = TaskAttempt(partition_id=7, attempt=1, task_attempt_id=70)
    (line,) = replace(report, poison=bad_rows).with_task(task).slowest
    assert (line.task, line.duration_ms) == (task, report.duration_max_ms)
    assert (line.records, line.bytes_sent) == (report.records, report.bytes_sent)
    assert (line.retries, line.poison) == (report.retries, 5)
