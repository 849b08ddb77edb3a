"""`kafkaprod report`: files, folders and comparisons."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_kafka_sink.cli.main import app
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.report_builder import ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.report.task_report import TaskReport

REPORT = DeliveryReport(
    tasks=1,
    partitions=(PartitionReport(topic="events", partition=0, persisted=1500),),
    duration_ms=3000,
)


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["report", *words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Return the paths of two reports, the second of which took a third of the time."""
    first, second = tmp_path / "batch-0.json", tmp_path / "batch-1.json"
    first.write_text(REPORT.to_json())
    second.write_text(replace(REPORT, duration_ms=1000).to_json())
    return str(first), str(second)


def test_folder_is_added_up(files: tuple[str, str], tmp_path: Path) -> None:
    assert "1,500" in run(files[0])
    assert "3,000" in run(str(tmp_path))
    assert json.loads(run(str(tmp_path), "--json"))["persisted"] == 3000


def test_two_files_are_compared(files: tuple[str, str]) -> None:
    text = run(*files)
    assert "500 records/s" in text
    assert "+200 %" in text
    changes = json.loads(run(*files, "--json"))["figures"]
    whole_write = next(change for change in changes if change["name"] == "whole write")
    del whole_write["percent"]
    assert whole_write == {"name": "whole write", "unit": "s", "before": 3.0, "after": 1.0}


def test_change_below_one_percent_is_not_shown(files: tuple[str, str], tmp_path: Path) -> None:
    nearly_equal = tmp_path / "nearly-equal.json"
    nearly_equal.write_text(replace(REPORT, duration_ms=3001).to_json())
    assert "0 %" not in run(files[0], str(nearly_equal))


def test_folder_lists_its_micro_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    for number, seconds in enumerate((3, 9, 1)):
        task = TaskReport(duration_ms=seconds * 1000, task=TaskAttempt(partition_id=number + 70))
        report = replace(REPORT, batch_id=number, query_name="ticks", slowest=(task,))
        (tmp_path / f"batch-{number}.json").write_text(report.to_json())
    text = run(str(tmp_path))
    assert "Kafka delivery report: sum of 3 reports" in text
    assert "time, added up" in text
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    listed = [row[0] for row in cells if len(row) == 9 and row[0].endswith("ticks")]
    assert listed == ["0 ticks", "1 ticks", "2 ticks"]
    slowest = [row[:2] for row in cells if len(row) == 8 and row[0].endswith("ticks")]
    assert slowest == [["1 ticks", "71"], ["0 ticks", "70"], ["2 ticks", "72"]]
    batch_text = run(str(tmp_path / "batch-1.json"))
    assert "sum of" not in batch_text
    assert "Micro-batches" not in batch_text


def test_partitions_of_a_successful_write_fit_into_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = PartitionReport(
        topic="web-events",
        partition=11,
        persisted=12_345_678,
        batches=1234,
        bytes_sent=123_456_789,
        first_offset=12_345_678,
        last_offset=24_691_355,
    )
    (tmp_path / "report.json").write_text(replace(REPORT, partitions=(part,)).to_json())
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(str(tmp_path / "report.json")).splitlines()
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if "web-events-11" in line)
    assert "12,345,678..24,691,355" in row
    assert not [line for line in lines if "possibly" in line]


def test_errors_and_advice_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    builder = ReportBuilder()
    builder.recorder.settings = (("batch.size", "16384"),)
    builder.add_throttle_time(900)
    builder.count_failed("events", 4, 7, DeliveryStatus.NOT_PERSISTED, "MESSAGE_TOO_LARGE")
    path = tmp_path / "report.json"
    path.write_text(builder.build(TaskAttempt(), 1000).to_json())
    text = run(str(path))
    assert "events-4" in text
    assert "MESSAGE_TOO_LARGE" in text
    assert "Advice" not in text
    assert "throttled 900 ms, 90% of the time" in run("--advise", str(path))
    path.write_text(REPORT.to_json())
    assert "No advice" in run("--advise", str(path))


def test_path_without_a_report(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 1
    assert "no delivery report in the folder" in result.output
