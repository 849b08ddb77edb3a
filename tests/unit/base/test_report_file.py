from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.base.errors import ReportError
from spark_kafka_sink.base.report_file import read_report, write_report

if TYPE_CHECKING:
    from pathlib import Path


def test_a_local_path_gets_its_folder(tmp_path: Path):
    path = tmp_path / "a b" / "ü" / "report.json"
    write_report(str(path), "grüße")
    assert path.read_text(encoding="utf-8") == "grüße"
    assert read_report(str(path)) == "grüße"


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_report("report.json", "x")
    assert (tmp_path / "report.json").read_text() == "x"


def test_a_home_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_report("~/reports/report.json", "x")
    assert (tmp_path / "reports" / "report.json").read_text() == "x"


def test_a_file_uri(tmp_path: Path):
    uri = f"file://{tmp_path}/deep/report.json"
    write_report(uri, "x")
    assert (tmp_path / "deep" / "report.json").read_text() == "x"
    assert read_report(uri) == "x"


def test_another_pyarrow_file_system():
    write_report("mock:///deep/report.json", "x")


def test_an_old_report_is_replaced(tmp_path: Path):
    path = str(tmp_path / "report.json")
    write_report(path, "a long old report")
    write_report(path, "new")
    assert read_report(path) == "new"


def test_a_path_that_is_a_folder_is_named(tmp_path: Path):
    with pytest.raises(ReportError, match=f"can't be written to {tmp_path}"):
        write_report(str(tmp_path), "x")


def test_a_parent_that_is_a_file_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReportError, match="can't be written to"):
        write_report(str(tmp_path / "file" / "report.json"), "x")


def test_an_unknown_scheme_is_named():
    with pytest.raises(ReportError, match=r"can.t be written to nope://host/report\.json"):
        write_report("nope://host/report.json", "x")


def test_credentials_are_not_repeated():
    with pytest.raises(ReportError) as caught:
        write_report("nope://user:hunter2@host/report.json", "x")
    assert "hunter2" not in str(caught.value)


def test_a_missing_report_is_named(tmp_path: Path):
    with pytest.raises(ReportError, match="can't be read from"):
        read_report(str(tmp_path / "none.json"))


def test_a_file_that_is_no_text_is_named(tmp_path: Path):
    (tmp_path / "report.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ReportError, match="can't be read from"):
        read_report(str(tmp_path / "report.json"))
