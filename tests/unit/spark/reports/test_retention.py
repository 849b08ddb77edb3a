"""The files of a stream are limited; those of failed micro-batches and of other queries stay."""

import json
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector, _MockFileSystem

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.file_storage import FileLocation, write_report
from spark_kafka_sink.spark.reports import retention
from spark_kafka_sink.spark.reports.publication import Publication
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin

REPORT = DeliveryReport(query_id="0123456789")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "KEPT", 5)
    monkeypatch.setattr(retention, "FAILED_KEPT", 20)


def publish(batch: int, path: Path | str, *, failed: bool = False, **options: str) -> None:
    settings = {"kafka.bootstrap.servers": "h:1", "topic": "t", "reportPath": str(path), **options}
    origin = WriteOrigin(query_name="orders")
    publication = Publication.of(SinkConfig.parse(settings), origin, batch)
    (publication.fail if failed else publication.succeed)(REPORT)


@pytest.mark.parametrize("template", ["", "{batchId}/report.json", "part-{batchId}.json"])
def test_reports_of_the_last_micro_batches_are_kept(tmp_path: Path, template: str) -> None:
    def written() -> set[int]:
        files = (file for file in tmp_path.rglob("*.json") if file.name != "mine.json")
        return {json.loads(file.read_text())["batch_id"] for file in files}

    write_report(str(tmp_path / "mine.json"), "{}")
    for batch in range(30):
        publish(batch, tmp_path / template, failed=batch in (3, 4, 17))
        oldest_failed = {3, 4, 17} & set(range(max(0, batch - 19), batch + 1))
        assert written() == oldest_failed | set(range(max(0, batch - 4), batch + 1))
    assert (tmp_path / "mine.json").exists()


def test_empty_folders_of_old_micro_batches_are_deleted(tmp_path: Path) -> None:
    template = tmp_path / "reports" / "of-{batchId}" / "day" / "report.json"
    for batch in range(10):
        publish(batch, template)
        if batch == 1:
            (tmp_path / "reports" / "of-1" / "mine.json").touch()
    kept = {folder.name: sorted(file.name for file in folder.iterdir())
            for folder in (tmp_path / "reports").iterdir()}  # fmt: skip
    assert kept == {"of-1": ["mine.json"]} | {f"of-{batch}": ["day"] for batch in range(5, 10)}


def test_reports_of_an_earlier_release_are_deleted_but_not_those_of_other_queries(
    tmp_path: Path,
) -> None:
    for batch in range(20):
        text = DeliveryReport(query_id="0123456789" if batch > 9 else "other", batch_id=batch)
        write_report(str(tmp_path / f"batch-{batch}.json"), text.to_json())
    publish(20, tmp_path)
    assert len(list(tmp_path.iterdir())) == 10 + 5


def test_statistics_of_the_last_micro_batches_are_kept(tmp_path: Path) -> None:
    names = [f"query-{query}-batch-{batch}-task-0-1-ab-0.jsonl"
             for query in ("01234567", "76543210") for batch in (1, 95, 96, 100)]  # fmt: skip
    for name in (*names, "task-0-1-ab-0.jsonl"):
        (tmp_path / name).touch()
    for batch in (99, 100):
        publish(batch, tmp_path / "reports", statisticsPath=str(tmp_path))
    kept = {file.name for file in tmp_path.iterdir() if file.name != "reports"}
    assert kept == {*names[2:], "task-0-1-ab-0.jsonl"}


def test_files_of_a_remote_folder_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = _MockFileSystem()
    place = lambda location: (remote, location.path.partition("//")[2])  # noqa: E731
    monkeypatch.setattr(FileLocation, "connect", place)
    for batch in range(7):
        publish(batch, "mock://nested/{batchId}/report.json")
        if batch == 0:
            write_report("mock://nested/0/mine.json", "{}")
    folders = remote.get_file_info(FileSelector("nested"))
    assert sorted(folder.base_name for folder in folders) == list("023456")
    write_report("mock://statistics/query-01234567-batch-1-task-0-1-ab-0.jsonl", "{}")
    for batch in range(95, 106):
        publish(batch, "mock://reports", statisticsPath="mock://statistics")
    assert len(remote.get_file_info(FileSelector("reports"))) == 5
    assert remote.get_file_info(FileSelector("statistics")) == []
