"""Files after a power failure, which loses what was not flushed."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.storage import file_handles, journal
from spark_kafka_sink.broker.storage.data_dir import CLEAN_MARK
from spark_kafka_sink.broker.storage.journal import Journal
from tests.broker.storage.disk_folder import client_of, write_until_crash
from tests.broker.support.inspection import log_in
from tools.support.raw_client import batch, create, new_producer_id, produce


class Disk:
    """What remains after a power failure: files and folders as of their last fsync."""

    def __init__(self) -> None:
        self.files: dict[int, bytes] = {}
        self._folders: dict[int, dict[str, int]] = {}

    def sync(self, descriptor: int) -> None:
        """Store the current content of a file, or the names and inodes in a folder."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        inode = os.fstat(descriptor).st_ino
        if path.is_dir():
            self._folders[inode] = {entry.name: entry.stat().st_ino for entry in path.iterdir()}
        else:
            self.files[inode] = path.read_bytes()

    def restore(self, inode: int, target: Path) -> None:
        """Write a folder with all that remains of it. Files that were not synced are empty."""
        target.mkdir()
        for name, entry in self._folders.get(inode, {}).items():
            if entry in self._folders:
                self.restore(entry, target / name)
            else:
                (target / name).write_bytes(self.files.get(entry, b""))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk, fsync = Disk(), os.fsync

    def sync(descriptor: int) -> None:
        fsync(descriptor)
        disk.sync(descriptor)

    monkeypatch.setattr("os.fsync", sync)
    return disk


def test_flushed_records_survive_a_power_failure(tmp_path: Path, disk: Disk) -> None:
    before = tmp_path / "machine" / "before"
    with EmbeddedBroker(data_dir=str(before)) as kafka, client_of(kafka) as client:
        create(client, "t", flush_messages="1", internal_segment_bytes="150")
        producer = new_producer_id(client)
        for first in (0, 3, 6):
            records = batch(3, producer=(producer, 0, first))
            assert produce(client, "t", records).base_offset == first
        disk.restore(tmp_path.stat().st_ino, tmp_path / "after")
    after = tmp_path / "after" / "machine" / "before"
    with EmbeddedBroker(data_dir=str(after)) as kafka, client_of(kafka) as client:
        assert kafka.end_offsets("t") == [9]
        assert new_producer_id(client) > producer


def test_end_offset_of_a_flushed_log_without_records_survives_a_power_failure(
    tmp_path: Path, disk: Disk
) -> None:
    """Offsets whose records have expired are not assigned again."""
    data_dir = tmp_path / "before"
    with EmbeddedBroker(data_dir=str(data_dir), topics={"t": 1}) as kafka:
        kafka.run(lambda cluster: log_in(cluster).storage.restart_at(100))
        kafka.run(lambda cluster: log_in(cluster).storage.flush())
        disk.restore(data_dir.stat().st_ino, tmp_path / "after")
    with EmbeddedBroker(data_dir=str(tmp_path / "after")) as kafka:
        assert kafka.end_offsets("t") == [100]


@pytest.mark.parametrize("is_retried", [False, True])
def test_compacted_journal_survives_a_power_failure(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, *, is_retried: bool
) -> None:
    """If the folder of the new file cannot be synced, the next `sync` retries it."""
    monkeypatch.setattr(journal, "_COMPACT_FROM", 1)
    (data_dir := tmp_path / "before").mkdir()
    own = Journal(data_dir / "journal")
    own.put("kind", ("key",), 0)
    own.sync()
    file_handles.sync_folder(data_dir)
    with monkeypatch.context() as patch:
        if is_retried:
            patch.setattr(journal, "sync_folder", Mock(side_effect=OSError(errno.EIO, "failed")))
        for number in range(1, 6):
            own.put("kind", ("key",), number)
    own.sync()
    disk.restore(data_dir.stat().st_ino, tmp_path / "after")
    assert Journal(tmp_path / "after" / "journal").get("kind", ("key",)) == 5


def test_mark_of_a_clean_shutdown_does_not_return(tmp_path: Path, disk: Disk) -> None:
    """With it, the next start would not verify what was written since."""
    data_dir = tmp_path / "before"
    with EmbeddedBroker(data_dir=str(data_dir), topics={"t": 1}):
        pass
    for path in (data_dir, data_dir / CLEAN_MARK):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    disk.restore(data_dir.stat().st_ino, tmp_path / "stopped")
    assert (tmp_path / "stopped" / CLEAN_MARK).exists()
    with EmbeddedBroker(data_dir=str(data_dir)):
        disk.restore(data_dir.stat().st_ino, tmp_path / "started")
    assert not (tmp_path / "started" / CLEAN_MARK).exists()


def test_records_of_a_killed_broker_are_flushed_by_the_next(
    data_dir: str, tmp_path: Path, disk: Disk
) -> None:
    crashed = tmp_path / "crashed"
    complete = write_until_crash(data_dir, crashed)
    with EmbeddedBroker(data_dir=str(crashed)):
        disk.files.clear()
    logs = [disk.files[path.stat().st_ino] for path in sorted((crashed / "t-0").glob("*.log"))]
    assert b"".join(logs) == b"".join(complete)
