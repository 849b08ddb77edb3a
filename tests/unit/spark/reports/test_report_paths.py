"""The paths of the reports of streams, and a checkpoint's query id."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_kafka_sink.spark.reports.report_paths import (
    StreamIdentity,
    micro_batch_path,
    own_report_path,
    query_id,
    stream_reports_folder,
    warn_of_own_path,
)

FIRST = StreamIdentity("first", "/checkpoints/1")


def test_query_id_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"17"}\n')
    assert query_id(str(folder)) == query_id(folder.as_uri()) == "17"


@pytest.mark.parametrize("metadata", ["", "[]", "{}", "7", "\udcff"])
def test_invalid_metadata_file(metadata: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(metadata, errors="surrogateescape")
    assert query_id(str(tmp_path)) == ""


@pytest.mark.parametrize("place", ["", "/nowhere", "hdfs://a/b", "s3a://b/c", "file://[/x"])
def test_checkpoint_on_another_file_system(place: str) -> None:
    assert query_id(place) == ""


@pytest.mark.parametrize(
    ("stream", "path", "own"),
    [
        (StreamIdentity("second", "/checkpoints/2"), "reports/", "reports/second"),
        (StreamIdentity("second", ""), "r/{batchId}.json", "r/second/{batchId}.json"),
        (StreamIdentity("second", ""), "{batchId}.json", "second/{batchId}.json"),
        (StreamIdentity("second", ""), "r/b-{batchId}/r", "r/second/b-{batchId}/r"),
        (StreamIdentity("a b/..", ""), "s3://b/r", "s3://b/r/query-9e4a049f6aed"),
        (StreamIdentity("second", ""), "s3://b/r/?region=x", "s3://b/r/second?region=x"),
        (
            StreamIdentity("second", ""),
            "s3://b/r/{batchId}.json?endpoint_override=h:1/x",
            "s3://b/r/second/{batchId}.json?endpoint_override=h:1/x",
        ),
        (StreamIdentity("", "/checkpoints/2"), "reports", "reports/query-7544a240e150"),
        (StreamIdentity("first", "/checkpoints/2"), "reports", "reports/first"),
        (StreamIdentity("first", ""), "reports", "reports"),
        (StreamIdentity("renamed", "/checkpoints/1"), "reports", "reports"),
        (StreamIdentity("", ""), "reports", "reports"),
    ],
)
@pytest.mark.parametrize("has_links", [True, False])
def test_second_stream_uses_a_subfolder(
    stream: StreamIdentity,
    path: str,
    own: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_links: bool,
) -> None:
    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    owners = tmp_path / "none yet"
    for _ in range(2):
        assert own_report_path(path, FIRST, owners) == path
        assert own_report_path(path, stream, owners) == own
    assert own_report_path(f"{path}-other", stream, owners) == f"{path}-other"
    assert len(list(owners.iterdir())) == 2 + (own != path)


@pytest.mark.parametrize(
    ("path", "file", "folder"),
    [
        ("r/a?b=c", "r/a?b=c/batch-7.json", "r/a?b=c"),
        ("s3://b/r?region=x", "s3://b/r/batch-7.json?region=x", "s3://b/r?region=x"),
        ("s3://b/r/?e=h:1/", "s3://b/r/batch-7.json?e=h:1/", "s3://b/r/?e=h:1/"),
        ("s3://b/r/{batchId}.json?e=h:1/x", "s3://b/r/7.json?e=h:1/x", "s3://b/r?e=h:1/x"),
        ("s3://b/r/{batchId}/x?e=h", "s3://b/r/7/x?e=h", "s3://b/r?e=h"),
        ("file:///r?x", "file:///r/batch-7.json?x", "file:///r?x"),
    ],
)
def test_query_of_a_uri_is_kept(path: str, file: str, folder: str) -> None:
    assert micro_batch_path(path, 7) == file
    assert stream_reports_folder(path) == folder


def test_slash_before_the_query_makes_no_other_path(tmp_path: Path) -> None:
    assert own_report_path("s3://b/r?region=x", FIRST, tmp_path) == "s3://b/r?region=x"
    second = StreamIdentity("second", "/checkpoints/2")
    own = own_report_path("s3://b/r/?region=x", second, tmp_path)
    assert own == "s3://b/r/second?region=x"


def test_each_checkpoint_has_its_own_reports(tmp_path: Path) -> None:
    """The queries have the same name, one after the other; the first one is restarted."""
    streams = [StreamIdentity("same", f"/checkpoints/{number}") for number in (1, 2, 3, 1, 2, 3)]
    paths = [own_report_path("reports", stream, tmp_path) for stream in streams]
    assert paths[:2] == ["reports", "reports/same"]
    assert paths[:3] == paths[3:]
    assert len(set(paths)) == 3


def test_subfolder_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        warn_of_own_path("told-reports", "told-reports/second", tmp_path)
    (message,) = (record.getMessage() for record in caplog.records)
    assert "the reports of this stream are written to told-reports/second." in message


def test_other_processes_of_the_application_log_nothing(tmp_path: Path) -> None:
    """Spark plans the micro-batches of one stream in several processes."""
    code = (
        "from pathlib import Path; from spark_kafka_sink.spark.reports import report_paths; "
        f"report_paths.warn_of_own_path('r', 'r/second', Path({str(tmp_path)!r}))"
    )
    processes = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [
        "the reports of this stream are written to r/second" in " ".join(process.stderr.split())
        for process in processes
    ] == [
        True,
        False,
    ]


def test_invalid_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert own_report_path("reports", FIRST, tmp_path / "file") == "reports"
