"""The messages of tasks, and the function that `write` runs in them."""

import pickle
import sys
import traceback
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from spark_kafka_sink import ConfigError
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.recreated_topics import WrittenTopic
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.packed_report import PackedReport, merge_reports
from spark_kafka_sink.report.report_builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.spark.writers import commit_messages
from spark_kafka_sink.spark.writers.commit_messages import (
    CommitMessage,
    complete_report,
    finished_report,
)
from spark_kafka_sink.spark.writers.map_task import run_task
from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from tests.support.column_roles import column_roles
from tests.unit.spark.writers.write_completions import write_completion

FIRST, SECOND = UUID(int=1), UUID(int=2)
KNOWN = CommitMessage(DeliveryReport(tasks=1))
UNKNOWN = (None, WriterCommitMessage(), "text", DeliveryReport())
MIXES = [(what,) for what in UNKNOWN] + [(KNOWN, what, KNOWN) for what in UNKNOWN]


def new_task() -> TaskWriter:
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
    return TaskWriter(SinkConfig.parse(options), column_roles())


@pytest.mark.parametrize("messages", MIXES, ids=range(len(MIXES)))
def test_commit_without_delivery_reports_fails(messages: Any) -> None:
    with pytest.raises(DeliveryError, match=f"1 of {len(messages)} p"):
        write_completion(new_task()).commit(messages)
    with pytest.raises(DeliveryError, match="processingTime"):
        write_completion(new_task()).commit(messages, 3)


@pytest.mark.parametrize("messages", [(), (KNOWN,), *MIXES], ids=range(2 + len(MIXES)))
def test_abort_accepts_any_messages(messages: Any) -> None:
    write_completion(new_task()).abort(messages)
    write_completion(new_task()).abort(messages, 3)


def test_commit_of_reports() -> None:
    reports = [write_completion(new_task()).commit((KNOWN, KNOWN), batch) for batch in (None, 3)]
    assert [report.tasks for report in reports] == [2, 2]


def test_messages_of_tasks_are_small_and_summed() -> None:
    """Spark's driver holds 10,000 of them within spark.driver.maxResultSize, 1 GiB."""
    builder = ReportBuilder()
    for partition in range(1_000):
        offset = partition * 999_983
        done = FinishedBatch(
            topic="t", partition=partition, records=7, bytes_uncompressed=900, bytes_sent=800
        )
        builder.count_acknowledged(done, offset)
    report = builder.build(TaskAttempt(), 10)
    data = pickle.dumps(CommitMessage(report))
    assert len(data) < 20_000
    assert complete_report([pickle.loads(data)] * 3) == DeliveryReport.merge_all([report] * 3)
    assert pickle.dumps(pickle.loads(data)) == data


def test_slowest_task_start_counts() -> None:
    messages = [replace(KNOWN, startup_ms=ms) for ms in (0, 900, 700)]
    assert complete_report(messages).startup_ms == 900
    assert finished_report((None,)).startup_ms == 0


def test_reports_merged_one_by_one_contain_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed merge of all: the report is complete and mentions no loss."""

    def fails_first(*arguments: Any) -> DeliveryReport:
        monkeypatch.setattr(commit_messages, "merge_reports", merge_reports)
        raise MemoryError

    for count in (0, 2):
        monkeypatch.setattr(commit_messages, "merge_reports", fails_first)
        assert finished_report([KNOWN] * count) == DeliveryReport(tasks=count)


def test_reports_that_cannot_be_merged_are_counted() -> None:
    broken = CommitMessage(PackedReport(b"?", b"?"))
    report = complete_report([KNOWN, broken, KNOWN])
    assert report.tasks == 2
    assert report.error.startswith("1 of 3 tasks' reports cannot be merged: error ")


def wrote(topic: str, topic_id: UUID, records: int, last_ms: int) -> CommitMessage:
    """Create a message as it arrives from a task."""
    message = CommitMessage(
        DeliveryReport(tasks=1), written=(WrittenTopic(topic, topic_id, records, last_ms),)
    )
    return pickle.loads(pickle.dumps(message))  # type: ignore[no-any-return]


def test_topic_recreated_between_tasks_fails_the_write() -> None:
    messages = [
        wrote("t", FIRST, 70, 1_000),
        wrote("t", SECOND, 20, 3_000),
        wrote("u", FIRST, 9, 3_000),
        wrote("t", FIRST, 6, 2_000),
        KNOWN,
    ]
    lost = "acknowledged 76 records"
    with pytest.raises(DeliveryError, match=lost) as caught:
        write_completion(new_task()).commit(messages)
    assert caught.value.topic == "t"
    with pytest.raises(DeliveryError):
        write_completion(new_task()).commit(messages, 3)


def test_topics_with_one_id_each_are_accepted() -> None:
    messages = [wrote("t", FIRST, 70, 1_000), wrote("u", SECOND, 6, 2_000)] * 2
    assert complete_report(messages).tasks == 4


@pytest.mark.parametrize(
    ("module", "error", "hides"),
    [
        ("pyspark.daemon", ConfigError("wrong"), True),
        ("pyspark.daemon", ValueError("a fault"), False),
        ("users.job", ConfigError("wrong"), False),
    ],
)
def test_package_errors_in_workers_have_only_frames_of_spark(
    module: str, error: Exception, hides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error from KeyError()

    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(module, None))
    task: Any = SimpleNamespace(run=fail)
    with pytest.raises(type(error)) as caught:
        next(run_task(task, "id", None, iter(())))
    shown = "".join(traceback.format_exception(caught.value))
    assert ("in fail" not in shown) == ("KeyError" not in shown) == hides
