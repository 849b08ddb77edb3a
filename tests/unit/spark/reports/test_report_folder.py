"""The folder of the latest reports of an application or a Spark session."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.report.task_report import TaskReport
from spark_kafka_sink.spark.reports.report_folder import ReportFolder, latest
from spark_kafka_sink.spark.reports.report_paths import StreamIdentity
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin

BATCH = DeliveryReport(written_at="2", tasks=1)
ONE = DeliveryReport(query_id="id-1", query_name="one", batch_id=7, written_at="1")
TWO = DeliveryReport(query_id="id-2", query_name="two", batch_id=3, written_at="3")
FAILED = DeliveryReport(query_name="one", batch_id=8, written_at="4")
"""Of a micro-batch without a finished task."""
UNNAMED = DeliveryReport(query_id="id-3", batch_id=0, written_at="0")


def test_last_report_of_each_kind_is_kept(tmp_path: Path) -> None:
    folder = ReportFolder.of(tmp_path / "none yet")
    assert folder.reports() == []
    later = replace(BATCH, written_at="9", slowest=(TaskReport(duration_ms=1, task=TaskAttempt()),))
    for report in (BATCH, ONE, TWO, UNNAMED, later, replace(TWO, batch_id=4)):
        folder.store(report)
    assert sorted(folder.reports(), key=lambda report: report.written_at) == [
        UNNAMED,
        ONE,
        replace(TWO, batch_id=4),
        later,
    ]


def test_connect_query_is_found_from_its_session(tmp_path: Path) -> None:
    files = tmp_path / "userFiles-8c197db4-ee2f-4ea0-951b-259cf1585b9e"
    mine = ReportFolder.of(files / "8c197db4-ee2f-4ea0-951b-259cf1585b9e")
    query = ReportFolder.of(files / "b9ce1530-6c8b-4254-938e-39d6e0f4ac53")
    mine.store(BATCH)
    query.store(ONE)
    assert mine.reports(queries=False) == [BATCH]
    assert sorted(mine.reports(), key=lambda report: report.written_at) == [ONE, BATCH]
    assert query.reports() == [ONE]
    assert mine.application == query.application == ReportFolder.of(files).path


@pytest.mark.parametrize(
    ("query_id", "query_name", "expected"),
    [
        ("", "", FAILED),
        ("id-1", "", ONE),
        ("id-1", "one", FAILED),
        ("id-2", "two", TWO),
        ("id-9", "two", None),
        ("", "one", FAILED),
        ("id-3", "", UNNAMED),
        ("", "nobody", None),
        ("nobody", "", None),
    ],
)
def test_latest_report_of_a_query(
    query_id: str, query_name: str, expected: DeliveryReport | None
) -> None:
    reports = [FAILED, BATCH, ONE, TWO, UNNAMED]
    assert latest(reports, query_id=query_id, query_name=query_name) == expected


def test_no_report_without_spark() -> None:
    assert latest([]) is None


def test_failed_micro_batch_without_finished_task_has_its_query_id(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"17"}')
    origin = WriteOrigin.of_stream(StreamIdentity("", str(tmp_path)))
    failed = origin.completed(DeliveryReport(), 0)
    assert latest([failed], query_id="17") == failed
    assert latest([failed], query_id="18") is None
