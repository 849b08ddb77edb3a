"""The journal on disk: damage, full disks and compaction."""

import errno
import os
from pathlib import Path

import pytest

from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.broker.storage.folder_contents import contents, start
from tests.broker.support.inspection import create_code
from tools.support.raw_client import RawClient, batch, delete_topic, produce


def test_damaged_journal_is_rejected_but_truncated_one_is_read(folder: Path) -> None:
    with start(folder, topics={"a": 1, "b": 1}):
        pass
    journal = folder / "cluster.journal"
    complete = journal.read_bytes()
    lines = complete.splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:-1], b"\x00" * 30 + b"\n", lines[-1]]))
    before = contents(folder)
    with pytest.raises(ConfigError, match=rf"cluster\.journal.*line {len(lines)}"):
        start(folder).start()
    assert contents(folder) == before
    journal.write_bytes(complete + b'["topic",["c')
    with start(folder) as kafka:
        assert kafka.end_offsets("b") == [0]


@pytest.mark.parametrize("written", [0, 9])
def test_journal_on_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    """The request fails, and a partial line does not damage other lines."""
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if os.fstat(descriptor).st_ino != inode:
            return real(descriptor, data)
        if written and data.startswith(b'["'):
            return real(descriptor, data[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        inode = (folder / "cluster.journal").stat().st_ino
        with monkeypatch.context() as patch:
            patch.setattr("os.write", full)
            assert create_code(client, "u")[0] is ErrorCode.kafka_storage_error
            assert delete_topic(client, "t") is ErrorCode.kafka_storage_error
            assert not (folder / "u-0").exists()
            assert produce(client, "t", batch(1)).base_offset == 0
        assert create_code(client, "u")[0] is ErrorCode.none
    with start(folder) as kafka:
        assert (kafka.end_offsets("t"), kafka.end_offsets("u")) == ([1], [0])


def test_partial_journal_line_that_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next value is not appended to the partial line."""
    path = tmp_path / "j.journal"
    journal, real, writes = Journal(path), os.write, iter([True, False])

    def write(descriptor: int, data: bytes) -> int:
        if next(writes):
            return real(descriptor, data[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal.put("k", ("a",), 1)
    with monkeypatch.context() as patch:
        patch.setattr("os.ftruncate", fail)
        patch.setattr("os.write", write)
        with pytest.raises(OSError, match="No space"):
            journal.put("k", ("b",), 2)
        with pytest.raises(OSError, match="Input/output"):
            journal.put("k", ("c",), 3)
    journal.put("k", ("d",), 4)
    journal.close()
    assert Journal(path).all("k") == {("a",): 1, ("d",): 4}


def test_damaged_journal_byte_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "j.journal"
    journal = Journal(path)
    journal.put("topic", ("a",), {"partitions": 12, "id": "x y"})
    journal.put("topic", ("b",), 3)
    journal.close()
    complete = path.read_bytes()
    for at in range(complete.index(b"\n")):
        path.write_bytes(complete[:at] + bytes([complete[at] ^ 0x01]) + complete[at + 1 :])
        with pytest.raises(ConfigError, match="line 1"):
            Journal(path)


def test_journal_with_long_lines_is_compacted(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    journal = Journal(path)
    sizes = []
    for number in range(60):
        journal.put("k", (number % 2,), f"{number}" + "x" * 1_000_000)
        sizes.append(path.stat().st_size)
    assert max(sizes) < 20_000_000
    journal.close()
    assert [value[:2] for value in Journal(path).all("k").values()] == ["58", "59"]


def test_failed_compaction_loses_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kafka_sink.broker.storage.journal._COMPACT_FROM", 20)
    journal = Journal(tmp_path / "j.journal")
    (tmp_path / "j.new").write_text("mine")
    for number in range(100):
        journal.put("k", (number % 3,), number)
    journal.close()
    assert (tmp_path / "j.new").read_text() == "mine"
    (tmp_path / "j.new").unlink()
    assert Journal(tmp_path / "j.journal").all("k") == {(0,): 99, (1,): 97, (2,): 98}
