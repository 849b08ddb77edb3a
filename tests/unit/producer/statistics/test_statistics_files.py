"""Files of statistics: their names, and lines that are dropped."""

from pathlib import Path
from threading import Event

import pytest

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.producer.statistics import statistics_files
from spark_kafka_sink.producer.statistics.statistics_files import StatisticsFiles


def test_query_of_a_uri_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(
        statistics_files, "write_report", lambda path, *_, **__: written.append(path)
    )
    files = StatisticsFiles("s3://b/t?endpoint_override=h:1")
    files.write("{}")
    files.close()
    assert written == ["s3://b/t-0.jsonl?endpoint_override=h:1"]


def test_slow_or_failing_destination_only_loses_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow, written = Event(), []

    def write(path: str, text: str, *, subject: str) -> None:
        slow.wait(60)
        written.append(path)
        raise ReportError(f"{subject} cannot be written to {path}")

    monkeypatch.setattr(statistics_files, "write_report", write)
    files = StatisticsFiles(str(tmp_path / "t"))
    monkeypatch.setattr(statistics_files, "FILE_BYTES", 1)
    for _ in range(5):
        files.write("{}")
    assert caplog.text.count("1 lines of statistics dropped") == 3
    slow.set()
    files.close()
    assert len(written) == 2
    assert "cannot write the statistics: the statistics cannot be written to" in caplog.text
