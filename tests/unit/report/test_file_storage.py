"""Reports in local folders and on other file systems."""

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.file_storage import (
    FileLocation,
    check_folder,
    delete_local_report,
    read_report,
    read_reports,
    write_report,
)


def test_folder_of_a_local_path_is_created(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "ü" / "report.json"
    write_report(str(path), "grüße")
    assert path.read_text(encoding="utf-8") == "grüße"
    assert read_report(str(path)) == "grüße"


@pytest.mark.parametrize("name", ["report.json", "run:1.json", "~/report.json", "file:report.json"])
def test_relative_paths_and_home_are_resolved(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    write_report(name, "x")
    assert (tmp_path / name.removeprefix("~/").removeprefix("file:")).read_text() == "x"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{folder}", "written to {folder}"),
        ("{folder}/file/report.json", "File exists"),
        ("nope://host/report.json", r"nope://host/report\.json"),
        ("/dev/full", "No space"),
    ],
)
def test_failed_write_is_explained(path: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReportError, match=words.format(folder=tmp_path)):
        write_report(path.format(folder=tmp_path), "x")


def test_file_uri_is_a_path(tmp_path: Path) -> None:
    uri = (tmp_path / "de ep" / "report.json").as_uri()
    write_report(uri, "x")
    assert (tmp_path / "de ep" / "report.json").read_text() == "x"
    assert read_report(uri) == "x"


@pytest.mark.parametrize("start", ["file://localhost", "FILE:", "file://LOCALHOST"])
def test_file_uri_of_this_machine_is_a_path(start: str, tmp_path: Path) -> None:
    write_report(f"{start}{tmp_path}/report.json", "x")
    assert (tmp_path / "report.json").read_text() == "x"


@pytest.mark.parametrize("host", ["otherhost", "localhost.example"])
def test_file_uri_of_another_host_is_an_error(host: str, tmp_path: Path) -> None:
    for access in (read_report, lambda path: write_report(path, "x")):
        with pytest.raises(ReportError, match=r"followed by a host\. .* file:///path"):
            access(f"file://{host}{tmp_path}/report.json")
    assert list(tmp_path.iterdir()) == []


def test_another_pyarrow_file_system() -> None:
    write_report("mock:///deep/report.json", "x")


def test_deletion_follows_links(tmp_path: Path) -> None:
    path, link = tmp_path / "report.json", tmp_path / "link.json"
    write_report(str(path), "x")
    link.symlink_to(path)
    delete_local_report(str(link))
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.parametrize("path", ["{folder}", "{folder}/none", "/dev/full", "dbfs:/x", "mock:///x"])
def test_only_local_files_are_deleted(path: str, tmp_path: Path) -> None:
    delete_local_report(path.format(folder=tmp_path))
    assert tmp_path.is_dir()


def test_credentials_are_not_repeated() -> None:
    with pytest.raises(ReportError) as caught:
        write_report("nope://user:hunter2@host/report.json", "x")
    assert "hunter2" not in str(caught.value)


def test_urls_in_the_file_systems_errors_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure's client shows the URL of the request, which contains the URI's query."""

    def fails(_: FileLocation) -> None:
        raise OSError("GET 'https://account/container?sig=hunter2&sv=1' failed: 403 Forbidden")

    monkeypatch.setattr(FileLocation, "connect", fails)
    path = "abfs://container@account/report.json?sv=1&sig=hunter2"
    for access in (read_report, read_reports, check_folder, lambda path: write_report(path, "x")):
        with pytest.raises(ReportError, match="GET 'https://account/container' failed") as caught:
            access(path)
        shown = "".join(traceback.format_exception(caught.value))
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("dbfs:/reports/report.json", "/dbfs/"),
        ("dbfs:///reports/report.json", "/Volumes/"),
        ("s3a://bucket/report.json", "s3://"),
        ("s3n://bucket/report.json", "s3://"),
        ("wasbs://c@a.blob.core.windows.net/report.json", "abfss://"),
        ("https://host/report.json", "local path"),
        ("nope://host/report.json", "local path"),
    ],
)
def test_unsupported_file_system_has_an_alternative(
    path: str, instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attempts: list[Callable[[], object]] = [
        lambda: write_report(path, "x"),
        lambda: check_folder(path),
    ]
    for attempt in attempts:
        with pytest.raises(ReportError, match=instead):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_device_is_written_to_and_not_replaced() -> None:
    write_report(os.devnull, "x")
    assert not os.path.isfile(os.devnull)  # noqa: PTH113


def test_symbolic_link_is_kept(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "report.json")
    write_report(str(tmp_path / "link.json"), "x")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "report.json").read_text() == "x"


def test_reader_never_sees_a_partial_report(tmp_path: Path) -> None:
    path, size = tmp_path / "report.json", 3_000_000
    write_report(str(path), "a" * size)
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            text = path.read_text()
            seen.add(f"{text[:1]}{len(text)}{text[-1:]}")

    reader = threading.Thread(target=read)
    reader.start()
    for letter in "bcde":
        write_report(str(path), letter * size)
    done.set()
    reader.join()
    assert seen <= {f"{letter}{size}{letter}" for letter in "abcde"}
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def test_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ReportError):
        write_report(str(tmp_path / "folder"), "x")
    assert list(tmp_path.rglob("*")) == [tmp_path / "folder"]


@pytest.fixture
def unresponsive_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 server that accepts connections and never responds."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        yield f"s3://bucket/report.json?region=x&scheme=http&endpoint_override={address}"


def test_unresponsive_store_times_out_and_is_not_retried(unresponsive_store: str) -> None:
    start = time.monotonic()
    with pytest.raises(ReportError, match=r"0\.5 s"):
        write_report(unresponsive_store, "x", timeout_s=0.5)
    with pytest.raises(ReportError, match="earlier attempt"):
        write_report(unresponsive_store, "x", timeout_s=60)
    assert time.monotonic() - start < 20


def test_unresponsive_store_is_not_called_for_other_files(unresponsive_store: str) -> None:
    with pytest.raises(ReportError, match=r"0\.5 s"):
        check_folder(unresponsive_store, 0.5)
    other = unresponsive_store.replace("report.json", "other/report.json")
    with pytest.raises(ReportError, match="earlier attempt"):
        write_report(other, "x", timeout_s=60)
    with pytest.raises(ReportError, match="earlier attempt"):
        read_reports(other, 60)


def test_hanging_folder_is_not_accessed_for_other_files(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    for number in range(3):
        (hanging / str(number)).mkdir(parents=True)
        os.mkfifo(hanging / f"{number}.json")
        os.mkfifo(hanging / str(number) / "report.json")
    before = set(threading.enumerate())
    for number in range(3):
        with pytest.raises(ReportError, match=r"0\.2 s" if number == 0 else "earlier attempt"):
            write_report(str(hanging / f"{number}.json"), "x", timeout_s=60 if number else 0.2)
        file = str(hanging / str(number) / "report.json")
        for access in (partial(write_report, text="x"), read_report):
            with pytest.raises(ReportError, match="earlier attempt"):
                access(file, folder=str(hanging))
    (thread,) = set(threading.enumerate()) - before
    write_report(str(tmp_path / "other.json"), "x")
    assert (hanging / "0.json").read_text() == "x"
    thread.join(20)
    write_report(str(hanging / "next.json"), "x")


def test_check_of_a_folder_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    check_folder(str(folder))
    assert list(folder.iterdir()) == []


def test_folder_that_is_a_file_fails_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for _ in range(2):
        with pytest.raises(ReportError):
            check_folder(str(tmp_path / "file"))
