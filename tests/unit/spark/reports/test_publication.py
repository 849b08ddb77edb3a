"""Only delivery errors fail a commit: each later step fails once in these tests."""

import errno
import logging
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.report.bad_row_count import BadRowCount
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display import summary
from spark_kafka_sink.report.display.summary import summarize
from spark_kafka_sink.report.file_storage import read_report, write_report
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.report.write_status import WriteStatus
from spark_kafka_sink.spark.reports import publication, stored_reports
from spark_kafka_sink.spark.reports.error_file import ErrorFile
from spark_kafka_sink.spark.reports.planning_file import PlanningData, PlanningFile
from spark_kafka_sink.spark.reports.publication import Publication
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.report_paths import micro_batch_path
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.writers import task_writer
from spark_kafka_sink.spark.writers.commit_messages import CommitMessage
from spark_kafka_sink.spark.writers.data_source_writers import (
    KafkaProdStreamWriter,
    KafkaProdWriter,
)
from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from tests.support.column_roles import column_roles
from tests.unit.spark.writers.write_completions import write_completion

REPORT = DeliveryReport(tasks=1, retries=2)
DONE = CommitMessage(REPORT)


def new_task(**options: str) -> TaskWriter:
    named = {name.replace("__", "."): value for name, value in options.items()}
    config = SinkConfig.parse({"kafka.bootstrap.servers": "localhost:1", "topic": "t", **named})
    return TaskWriter(config, column_roles())


def commit_and_abort(task: TaskWriter, *messages: CommitMessage) -> None:
    write_completion(task).commit(messages or (DONE,))
    write_completion(task).abort(messages or (DONE, None))
    write_completion(task).commit(messages or (DONE,), 7)
    write_completion(task).abort(messages or (DONE, None), 7)


def read(path: Path) -> DeliveryReport:
    return DeliveryReport.from_json(read_report(str(path)))


@pytest.mark.parametrize("path", ["/dev/full", "dbfs:/x", "s3a://b/x", "/dev/null/x", "{folder}"])
def test_invalid_report_path(path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    commit_and_abort(new_task(reportPath=path.format(folder=tmp_path)))
    assert "no report of the write was written; data in Kafka is unaffected" in caplog.text


def test_unnamed_streams_share_a_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the query ids, which tasks report, distinguish them."""
    here = ReportFolder.of(tmp_path / "files")
    monkeypatch.setattr(ReportFolder, "here", classmethod(lambda _: here))
    path = tmp_path / "reports"
    for tasks, query in ((1, "first"), (2, "second"), (3, "first"), (4, "second")):
        report = replace(REPORT, tasks=tasks, query_id=query)
        write_completion(new_task(reportPath=str(path))).commit((CommitMessage(report),), 7)
    files = sorted(path.rglob("batch-7.json"))
    assert [read(file).tasks for file in files] == [3, 4]
    assert files[0].parent == path
    assert caplog.text.count("is used by another stream") == 1


def test_failure_of_an_unknown_stream_replaces_no_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If no task has finished, the query is unknown."""
    here = ReportFolder.of(tmp_path / "files")
    monkeypatch.setattr(ReportFolder, "here", classmethod(lambda _: here))
    path = tmp_path / "reports"
    writer = write_completion(new_task(reportPath=str(path)))
    writer.abort((None,), 7)
    assert not read(path / "batch-7.json").query_id
    done = replace(REPORT, tasks=1, query_id="first")
    writer.commit((CommitMessage(done),), 7)
    for _ in range(2):
        writer.abort((None,), 7)
    assert read(path / "batch-7.json").tasks == 1
    [other] = (file for file in path.rglob("batch-7.json") if file.parent != path)
    assert read(other).error


def test_hanging_store_fails_neither_commit_nor_abort(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def hangs(path: str, *_: str, **__: str | None) -> None:
        raise ReportError(f"no answer for {path}")

    monkeypatch.setattr(publication, "write_report", hangs)
    monkeypatch.setattr(stored_reports, "read_report", hangs)
    commit_and_abort(new_task(reportPath="gs://b/x"))
    assert "no answer for gs://b/x/batch-7.json" in caplog.text


@pytest.mark.parametrize("name", ["", "{batchId}.json", "{batchId}/report.json"])
@pytest.mark.parametrize("query", ["q", ""])
def test_hanging_folder_leaves_one_thread(
    name: str,
    query: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Pipes that nobody opens stand for files on a disk that does not respond."""
    here = ReportFolder.of(tmp_path / "files")
    monkeypatch.setattr(ReportFolder, "here", classmethod(lambda _: here))
    for module, call in ((publication, write_report), (stored_reports, read_report)):
        monkeypatch.setattr(module, call.__name__, partial(call, timeout_s=0.1))
    task, batches = new_task(reportPath=str(tmp_path / "reports" / name)), range(4)
    pipes = [Path(micro_batch_path(str(task.config.report_path), batch)) for batch in batches]
    for pipe in pipes:
        pipe.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(pipe)
    before = set(threading.enumerate())
    for batch in batches:
        Publication.of(task.config, WriteOrigin(query_name=query), batch).fail(REPORT)
    (thread,) = set(threading.enumerate()) - before
    assert caplog.text.count("an earlier attempt has not returned yet") == (3 if query else 4)
    # Without a query's name, the first micro-batch hangs in reading the file.
    os.close(os.open(pipes[0], os.O_RDWR | os.O_NONBLOCK))
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "options",
    [
        {"metrics__prometheus__textfile": "/dev/null/no/such.prom"},
        {"metrics__prometheus__pushgateway": "localhost:1"},
        {"metrics__opentelemetry": "true"},
    ],
)
def test_exporters_without_destination(options: dict[str, str]) -> None:
    commit_and_abort(new_task(**options))


class Failing:
    """Raises an error on any attribute access."""

    def __getattr__(self, name: str) -> object:
        raise RecursionError(name)


@pytest.mark.parametrize(
    "part", ["request_latency", "metrics", "partitions", "poison", "errors", "slowest", "tasks"]
)
def test_reports_of_another_version(part: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    broken: dict[str, Any] = {part: Failing()}
    strange = CommitMessage(replace(REPORT, **broken))
    commit_and_abort(new_task(), strange)
    write_completion(new_task(reportPath=str(path))).commit([DONE, strange, DONE])
    report = read(path)
    assert (report.status, report.tasks, report.retries) == (WriteStatus.SUCCEEDED, 2, 4)
    assert "1 of 3 tasks' reports cannot be merged" in report.error


def test_report_without_a_field() -> None:
    """As pickled by an executor with an older version of this package."""
    names = [field.name for field in fields(DeliveryReport)]
    state = [getattr(REPORT, name) for name in names][:-1]
    older = object.__new__(DeliveryReport)
    for name, value in zip(names, state, strict=False):
        object.__setattr__(older, name, value)
    commit_and_abort(new_task(), CommitMessage(older))


@pytest.mark.parametrize(("module", "name"), [(publication, "summarize"), (summary, "advise")])
def test_failing_summary_fails_neither_commit_nor_abort(
    module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError(name)

    monkeypatch.setattr(module, name, fails)
    path = tmp_path / "reports"
    commit_and_abort(new_task(reportPath=str(path / "batch-7.json")))
    assert (path / "batch-7.json").is_file() or (path / "batch-7.json").is_dir()


def test_closed_stderr_fails_neither_commit_nor_abort(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "closed").open("w") as stream:
        handler = logging.StreamHandler(stream)
    logger = logging.getLogger("spark_kafka_sink")
    monkeypatch.setattr(sys, "stderr", stream)
    logger.addHandler(handler)
    try:
        commit_and_abort(new_task(reportPath="/dev/full"))
    finally:
        logger.removeHandler(handler)


def test_report_of_each_outcome(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    task = new_task(reportPath=str(path))
    Publication.of(task.config, task.origin).announce()
    running = read(path)
    assert (running.status, running.tasks) == (WriteStatus.RUNNING, 0)
    write_completion(task).abort([DONE, None])
    failed = read(path)
    assert (failed.status, failed.tasks) == (WriteStatus.FAILED, 1)
    assert "see the exception that Spark raised" in failed.error
    assert "status" in summarize(failed)
    task.origin = WriteOrigin(error_file=ErrorFile(str(tmp_path / "w.error")))
    task.origin.error_file.store(ReportError("that is why"))
    write_completion(task).abort([DONE, None])
    assert read(path).error == "ReportError: that is why"
    write_completion(task).commit([DONE])
    done = read(path)
    assert (done.status, done.error, done.tasks) == (WriteStatus.SUCCEEDED, "", 1)
    assert running.written_at <= failed.written_at <= done.written_at


def test_report_of_a_failure_elsewhere_has_no_error_of_a_retried_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partition 0 fails and is retried; meanwhile, partition 1 succeeds."""

    def fail(_: int) -> pa.RecordBatch:
        raise ReportError("of the first attempt")

    def run(partition: int, rows: Iterator[pa.RecordBatch]) -> None:
        monkeypatch.setattr(
            task_writer, "current_task_attempt", lambda: TaskAttempt(partition_id=partition)
        )
        task.run(rows)

    path = tmp_path / "report.json"
    task = new_task(reportPath=str(path))
    task.origin = WriteOrigin(error_file=ErrorFile(str(tmp_path / "w.error")))
    with pytest.raises(ReportError):
        run(0, map(fail, [0]))
    run(1, iter(()))
    assert task.origin.error_file.take() == "ReportError: of the first attempt"
    with pytest.raises(ReportError):
        run(0, map(fail, [0]))
    run(0, iter(()))
    write_completion(task).abort([DONE, None])
    assert "see the exception that Spark raised" in read(path).error


def test_stale_report_is_deleted_if_the_final_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a full disk: otherwise, it would state for ever that the write is running."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "report.json"
    task = new_task(reportPath=path.as_uri())
    Publication.of(task.config, task.origin).announce()
    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", fails)
        write_completion(task).commit([DONE])
    assert "no report of the write was written" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_interrupted_micro_batch_mentions_that_a_stop_is_no_error(tmp_path: Path) -> None:
    task = new_task(reportPath=str(tmp_path))
    planned = "2026-01-02T03:04:05.000+00:00"
    file = PlanningFile(str(tmp_path / "session" / "q.planned"))
    file.store(PlanningData(at=planned))
    task.origin = WriteOrigin(planning_file=file)
    write_completion(task).abort([None], 3)
    report = read(tmp_path / "batch-3.json")
    assert report.started_at == planned
    assert report.duration_ms > 0
    error = report.error
    assert "or the query was stopped" in error
    assert "writes the micro-batch again" in error


@pytest.mark.parametrize(
    ("stored", "outcome", "is_kept"),
    [
        ("committed", "already written", True),
        ("rolled forward, but 1 transaction may be open", "already written", True),
        ("already written", "rolled forward", True),
        ("committed", "aborted", True),
        ("committed", "2 transactions may be open", True),
        ("committed", "committed", False),
        ("committed", "", False),
        ("aborted", "already written", False),
        ("aborted, but 1 transaction may be open", "rolled forward", False),
        ("2 transactions may be open", "already written", False),
        ("", "already written", False),
    ],
)
def test_repeated_micro_batch_keeps_the_counts_of_visible_rows(
    tmp_path: Path, stored: str, outcome: str, *, is_kept: bool
) -> None:
    written = DeliveryReport(
        transaction_outcome=stored, query_id="q", batch_id=7, retries=50, status=WriteStatus.FAILED
    )
    repeated = DeliveryReport(transaction_outcome=outcome, query_id="q")
    path = tmp_path / "batch-7.json"
    published = Publication.of(new_task(reportPath=str(tmp_path)).config, WriteOrigin(), 7)
    for other in ({"query_id": "another"}, {"batch_id": 6}, {}):
        write_report(str(path), replace(written, **other).to_json())
        published.succeed(repeated)
        report = read(path)
        assert report.status is WriteStatus.SUCCEEDED
        assert report.retries == (50 if is_kept and not other else 0)
    assert report.transaction_outcome == (stored.partition(",")[0] if is_kept else outcome)


def test_unwritable_path_fails_the_announcement(tmp_path: Path) -> None:
    for path in ("/dev/full", str(tmp_path), "dbfs:/x", "s3a://b/x"):
        with pytest.raises(ReportError):
            Publication.of(new_task(reportPath=path).config, WriteOrigin()).announce()


def test_writers_can_be_pickled() -> None:
    task = new_task(reportPath="/x")
    for kind in (KafkaProdWriter, KafkaProdStreamWriter):
        copy = pickle.loads(pickle.dumps(kind(task, write_completion(task))))
        assert copy.task.config.report_path == "/x"


@pytest.mark.parametrize(
    ("option", "file"),
    [
        ("reports", "reports/batch-7.json"),
        ("reports/", "reports/batch-7.json"),
        ("reports/{batchId}.json", "reports/7.json"),
        ("reports/{batchId}/report.json", "reports/7/report.json"),
        ("{batchId}.json", "7.json"),
    ],
)
def test_path_of_a_micro_batch_report(
    option: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = new_task(reportPath=option)
    publication.check_report_folder(task.config, None)
    write_completion(task).commit([DONE], 7)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files == [tmp_path / file]


def test_report_folder_is_checked_once_per_application(tmp_path: Path) -> None:
    reports, file = tmp_path / "reports", tmp_path / "file"
    folder = ReportFolder(tmp_path / "session", tmp_path / "application")
    check = publication.check_report_folder
    check(new_task(reportPath=str(reports)).config, folder)
    reports.rmdir()
    for path in (reports, file):
        path.write_text("in the way")
    check(new_task(reportPath=str(reports)).config, folder)
    for _ in range(2):
        with pytest.raises(ReportError):
            check(new_task(reportPath=str(file)).config, folder)
    other = replace(folder, application=tmp_path / "another application")
    with pytest.raises(ReportError):
        check(new_task(reportPath=str(reports)).config, other)


@pytest.mark.parametrize(
    ("option", "of_write", "of_micro_batch", "of_failure"),
    [
        (
            {},
            "the write is done:\nKafka delivery report",
            "micro-batch 7 of q is done: 0 persisted",
            "full",
        ),
        (
            {"summary": "line"},
            "the write is done: 0 persisted",
            "micro-batch 7 of q is done: 0",
            "line",
        ),
        ({"summary": "full"}, "is done:\nKafka", "of q is done:\nKafka delivery report", "full"),
        ({"summary": "off"}, "", "", ""),
    ],
)
def test_summary_option_selects_what_is_logged(
    option: dict[str, str],
    of_write: str,
    of_micro_batch: str,
    of_failure: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    task = new_task(**option)
    failures = {
        "full": "stay in Kafka:\nKafka delivery report",
        "line": "stay in Kafka: 0",
        "": "",
    }
    stream = Publication.of(task.config, WriteOrigin(query_name="q"), 7)
    for publish, said in (
        (Publication.of(task.config, task.origin).succeed, of_write),
        (stream.succeed, of_micro_batch),
        (stream.fail, failures[of_failure]),
    ):
        caplog.clear()
        publish(REPORT)
        logged = "\n".join(caplog.messages)
        assert said in logged
        assert bool(said) == bool(logged)


@pytest.mark.parametrize(
    ("report", "level", "said"),
    [
        (REPORT, "INFO", "the write is done:"),
        (replace(REPORT, batch_id=3), "INFO", "the write of micro-batch 3 is done: "),
        (
            replace(REPORT, batch_id=3, query_name="q"),
            "INFO",
            "the write of micro-batch 3 of q is done: ",
        ),
        (
            replace(REPORT, poison=(BadRowCount(reason="NULL_VALUE", dropped=1),)),
            "WARNING",
            "the write is done:",
        ),
    ],
    ids=["success", "foreachBatch", "foreachBatch of a named query", "dropped rows"],
)
def test_only_problems_are_warnings(
    report: DeliveryReport, level: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    task = new_task()
    Publication.of(task.config, task.origin).succeed(report)
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage().startswith(said)
    Publication.of(task.config, task.origin).fail(report)
    assert caplog.messages[1].startswith(said.partition(" is done")[0] + " failed; ")
