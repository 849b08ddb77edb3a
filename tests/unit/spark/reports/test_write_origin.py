"""When a write was planned and started."""

import time
from pathlib import Path

import pytest

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.reports import write_origin
from spark_kafka_sink.spark.reports.planning_file import PlanningData, PlanningFile
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.runtime.internals import BATCH_ID, JOB_DESCRIPTION, QUERY_ID

PLANNED = "2026-01-02T03:04:05.000+00:00"


def test_complete_write_starts_at_its_plan() -> None:
    report = WriteOrigin(started_at=PLANNED).completed(DeliveryReport(), None)
    assert report.started_at == PLANNED
    assert report.written_at > PLANNED
    assert report.duration_ms > 0


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("changes\nid = 1-2\nrunId = 3\nbatch = 4", "changes"),
        ("\nid = 1-2\nrunId = 3\nbatch = 4", ""),
        ("set by the user", ""),
        (None, ""),
    ],
)
def test_task_within_foreach_batch_knows_the_name_of_its_query(
    description: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {QUERY_ID: "1-2", BATCH_ID: "4", JOB_DESCRIPTION: description}
    monkeypatch.setattr(write_origin, "local_property", properties.get)
    report = WriteOrigin().add_to(DeliveryReport())
    assert (report.query_name, report.query_id, report.batch_id) == (name, "1-2", 4)
    assert WriteOrigin(query_name="q").add_to(DeliveryReport()).query_name == "q"


def test_values_of_tasks_have_priority_over_those_of_the_commit() -> None:
    of_task = WriteOrigin(started_at=PLANNED, query_name="q").add_to(DeliveryReport())
    report = WriteOrigin(query_name="q").completed(of_task, 3)
    assert (report.started_at, report.query_name, report.batch_id) == (PLANNED, "q", 3)


def test_micro_batch_without_finished_task_has_no_start() -> None:
    report = WriteOrigin(query_name="q").completed(DeliveryReport(), 3)
    assert (report.started_at, report.duration_ms, report.query_name) == ("", 0, "q")


@pytest.mark.parametrize("planned", [PLANNED, "9999-01-02T03:04:05.000+00:00"])
def test_duration_does_not_depend_on_steps_of_the_wall_clock(planned: str, tmp_path: Path) -> None:
    began = time.monotonic() - 5
    write = WriteOrigin(started_at=planned, started_s=began)
    stream = WriteOrigin(planning_file=PlanningFile(str(tmp_path / "q.planned")))
    stream.planning_file.store(PlanningData(at=planned, started_s=began))
    for report in (
        write.completed(DeliveryReport(), None),
        stream.completed(write.add_to(DeliveryReport()), 3),
    ):
        assert 5_000 <= report.duration_ms < 60_000


def test_clock_set_back_gives_no_negative_duration() -> None:
    late = WriteOrigin(started_at="9999-01-02T03:04:05.000+00:00")
    assert late.completed(DeliveryReport(), None).duration_ms == 0
