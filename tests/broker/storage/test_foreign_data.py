"""Data that the broker did not write is never changed, and errors contain its name."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from spark_kafka_sink.broker.cluster.topics import TopicSpec
from spark_kafka_sink.broker.storage.data_dir import CLEAN_MARK, DataDir
from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tests.broker.storage.folder_contents import contents, start
from tests.broker.support.inspection import create_code, log_in, topic_in
from tools.support.kafka_cluster import KafkaCluster
from tools.support.raw_client import TIMEOUT, RawClient, batch, create, delete_topic, produce

SEGMENT = "00000000000000000000.log"


class ProcessKilled(BaseException):
    """Simulates the end of the process."""


def delete_records(client: RawClient, offset: int) -> int:
    """Delete the records before `offset` and return the log start offset."""
    topic = {"name": "t", "partitions": [{"partition_index": 0, "offset": offset}]}
    response = client.call(ApiKey.DELETE_RECORDS, 2, topics=[topic], timeout=TIMEOUT).topics[0]
    low: int = response.partitions[0].low_watermark
    return low


def test_data_directory_of_kafka_is_rejected(
    real_kafka: KafkaCluster, folder: Path, unique_topic: str
) -> None:
    with RawClient(real_kafka.bootstrap_servers) as client:
        create(client, unique_topic)
        produce(client, unique_topic, batch(7))
    # Kafka can remove directories of deleted partitions at any time.
    ignored = shutil.ignore_patterns("*-delete")
    shutil.copytree(real_kafka.partition_dir(unique_topic, 0).parent, folder, ignore=ignored)
    (folder / CLEAN_MARK).touch()
    before = contents(folder)
    assert before[f"{unique_topic}-0/{SEGMENT}"]
    for options in ({}, {"topics": {unique_topic: 1}}):
        with pytest.raises(ConfigError, match="no journal") as caught:
            start(folder, **options).start()
        assert str(folder) in str(caught.value)
        assert contents(folder) == before


@pytest.mark.parametrize("name", ["notes.txt", "t-0/x", CLEAN_MARK, ".git/config", "cluster.new"])
def test_directory_without_journal_is_rejected(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    before = contents(folder)
    with pytest.raises(ConfigError, match=f"{name.split('/', 1)[0]}.*cluster.journal"):
        start(folder, topics={"t": 1}).start()
    assert contents(folder) == before


@pytest.mark.parametrize(
    "foreign", [b"\x00\x01", b"hello\n", b'{"a":1}\n["topic",["t"],null]\n', b'["a","b","c"]\n']
)
@pytest.mark.parametrize("name", ["cluster.journal", "cluster.new"])
def test_foreign_journal_file_is_not_overwritten(folder: Path, name: str, foreign: bytes) -> None:
    with start(folder):
        pass
    (folder / name).write_bytes(foreign)
    before = contents(folder)
    with pytest.raises(ConfigError, match=name):
        start(folder, topics={"t": 1}).start()
    assert contents(folder) == before


@pytest.mark.parametrize("kind", ["directory", "file", "link", "dangling link"])
def test_topic_is_not_created_if_its_directory_exists(folder: Path, kind: str) -> None:
    with start(folder, topics={"a": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        location = folder / "t-1"
        if kind == "directory":
            location.mkdir()
            (location / SEGMENT).write_bytes(b"mine")
        elif kind == "file":
            location.write_bytes(b"mine")
        else:
            other = folder.parent / "other"
            if kind == "link":
                other.mkdir()
                (other / SEGMENT).write_bytes(b"mine")
            location.symlink_to(other)
        before = contents(folder.parent)
        code, message = create_code(client, "t", 2)
        assert code is ErrorCode.kafka_storage_error
        assert str(location) in message
        assert {n: v for n, v in contents(folder.parent).items() if "journal" not in n} == {
            n: v for n, v in before.items() if "journal" not in n
        }
        assert create_code(client, "t", 1)[0] is ErrorCode.none
        response = client.call(
            ApiKey.CREATE_PARTITIONS,
            2,
            topics=[{"name": "t", "count": 3, "assignments": None}],
            timeout=TIMEOUT,
            validate_only=False,
        )
        assert response.results[0].error_code is ErrorCode.kafka_storage_error
        assert not (folder / "t-2").exists()
    with start(folder) as kafka:
        assert kafka.end_offsets("t") == [0]
    (folder / "t-1-0").mkdir()
    with pytest.raises(ConfigError, match=r"t-1-0 exists"):
        start(folder, topics={"t-1": 1}).start()


def test_deleting_a_topic_leaves_foreign_files(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with start(folder, topics={"t": 2}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        produce(client, "t", batch(3))
        (folder / "t-0" / "notes.txt").write_text("mine")
        (folder / "t-0" / "12.log").write_text("mine")
        assert delete_topic(client, "t") is ErrorCode.none
        assert set(contents(folder)) - {".lock", "cluster.journal"} == {
            "t-0",
            "t-0/notes.txt",
            "t-0/12.log",
        }
        assert "notes.txt" in caplog.text
        code, message = create_code(client, "t", 2)
        assert code is ErrorCode.kafka_storage_error
        assert str(folder / "t-0") in message
    with start(folder) as kafka, RawClient(kafka.bootstrap_servers) as client:
        assert (folder / "t-0" / "notes.txt").read_text() == "mine"
        shutil.rmtree(folder / "t-0")
        assert create_code(client, "t", 2)[0] is ErrorCode.none


def test_foreign_files_in_a_partition_are_ignored(folder: Path) -> None:
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        produce(client, "t", batch(3))
        (folder / "t-0" / "7.log").write_text("mine")
        (folder / "t-0" / "notes.log").write_text("mine")
        (folder / "t-0" / f"{5:020d}.log").symlink_to(folder.parent / "absent")
        complete = kafka.batches("t", 0)
    with start(folder) as kafka:
        assert kafka.batches("t", 0) == complete
    assert (folder / "t-0" / "7.log").read_text() == "mine"
    assert not (folder.parent / "absent").exists()


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_link_targets_are_not_written(folder: Path, suffix: str) -> None:
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        produce(client, "t", batch(3))
    link = (folder / "t-0" / SEGMENT).with_suffix(suffix)
    other = folder.parent / "other"
    other.write_text("mine" * 100)
    link.unlink()
    link.symlink_to(other)
    problem = "the offsets 0 to 2 are missing" if suffix == ".log" else link.name
    for _ in range(2):
        with pytest.raises(ConfigError, match=problem):
            start(folder).start()
    assert other.read_text() == "mine" * 100


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], bool]:
    """Simulate a crash before the n-th change of the data directory; return a check for it."""
    left = [number]

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise ProcessKilled

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            count()
            return original(*args, **named)

        return call

    monkeypatch.setattr(Journal, "put", counted(Journal.put))
    monkeypatch.setattr("os.mkdir", counted(os.mkdir))
    monkeypatch.setattr("os.rmdir", counted(os.rmdir))
    monkeypatch.setattr("os.unlink", counted(os.unlink))
    monkeypatch.setattr("os.open", counted(os.open))
    return lambda: left[0] < 0


@pytest.mark.parametrize("action", ["create", "delete", "add"])
def test_recovery_after_crash_at_each_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """After a crash, the topic is either complete or can be created again."""
    for number in range(100):
        location = folder / str(number)
        with start(location, topics={"a": 1} | ({} if action == "create" else {"t": 2})):
            pass
        ended = crash(location, action, number, monkeypatch)
        with start(location) as kafka, RawClient(kafka.bootstrap_servers) as client:
            code, message = create_code(client, "t", 3)
            assert code in {ErrorCode.none, ErrorCode.topic_already_exists}, message
            parts = len(kafka.end_offsets("t"))
            kept = sorted(path.name for path in location.glob("t-*"))
            assert kept == [f"t-{index}" for index in range(parts)]
            assert parts in ({3} if action == "create" else {2, 3})
        if not ended:
            break
    assert 5 <= number < 99


def crash(location: Path, action: str, number: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Execute the action on the broker's state and crash at change `number`."""
    broker = start(location)
    broker.start()

    def act(cluster: Any) -> None:
        if action == "create":
            cluster.topics.create(TopicSpec(name="t", partitions=3))
        elif action == "delete":
            cluster.topics.delete(topic_in(cluster, "t"))
        else:
            cluster.topics.add_partitions(topic_in(cluster, "t"), 3, {})

    runtime = broker._runtime
    assert runtime is not None
    runtime._event_loop.stop()
    runtime._thread.join()
    with monkeypatch.context() as patch:
        ended = kill_at(patch, number)
        with contextlib.suppress(ProcessKilled):
            act(runtime.cluster)
        killed = ended()
    release_lock(runtime)
    return killed


def release_lock(runtime: Any) -> None:
    """Release the locks, as the system does when a process ends."""
    backend = runtime.cluster.topics.store._backend
    assert isinstance(backend, DataDir)
    backend._recovery.was_clean = False
    backend.abandon()


def test_segment_with_an_unexpected_name_is_not_overwritten(folder: Path) -> None:
    configs = {"internal.segment.bytes": "300"}
    with (
        start(folder, topics={"t": 1}, topic_configs={"t": configs}) as kafka,
        RawClient(kafka.bootstrap_servers) as client,
    ):
        produce(client, "t", batch(2, value=bytes(100)))
        for suffix in (".log", ".timeindex"):
            foreign = folder / "t-0" / f"{2:020d}{suffix}"
            foreign.write_text("mine")
            response = produce(client, "t", batch(2, value=bytes(100)))
            assert response.error_code is ErrorCode.kafka_storage_error
            assert foreign.read_text() == "mine"
            foreign.unlink()
        assert produce(client, "t", batch(2, value=bytes(100))).base_offset == 2
    assert len(list((folder / "t-0").glob("*.log"))) == 2


def test_damage_after_a_clean_stop_is_not_truncated(folder: Path) -> None:
    """After a clean stop all batches are complete, so this damage has another cause."""
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        for _ in range(3):
            produce(client, "t", batch(2, value=bytes(100)))
        complete = kafka.batches("t", 0)
    log = folder / "t-0" / SEGMENT
    log.write_bytes(log.read_bytes()[:-1])
    before = contents(folder / "t-0")
    for _ in range(2):
        with pytest.raises(ConfigError, match=rf"{SEGMENT} is damaged"):
            start(folder).start()
        assert contents(folder / "t-0") == before
    (folder / CLEAN_MARK).unlink()
    other = folder / "t-0" / f"{3:020d}.log"
    other.write_text("mine")
    with pytest.raises(ConfigError, match=rf"{SEGMENT} is damaged"):
        start(folder).start()
    other.unlink()
    with start(folder) as kafka:
        assert kafka.batches("t", 0) == complete[:2]


def test_topic_is_recreated_after_its_directory_was_removed(folder: Path) -> None:
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        produce(client, "t", batch(2))
        shutil.rmtree(folder / "t-0")
        assert delete_topic(client, "t") is ErrorCode.none
        create(client, "t")
        produce(client, "t", batch(3))
    with start(folder) as kafka:
        assert kafka.end_offsets("t") == [3]


def test_partition_directory_is_a_file_or_missing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with start(folder, topics={"t": 1}):
        pass
    shutil.rmtree(folder / "t-0")
    (folder / "t-0").write_text("mine")
    with pytest.raises(ConfigError, match="t-0 cannot be read"):
        start(folder).start()
    (folder / "t-0").unlink()
    with start(folder) as kafka:
        assert kafka.end_offsets("t") == [0]
    assert "t-0 is missing" in caplog.text


@pytest.mark.parametrize("exists", [False, True])
def test_partition_directory_that_is_a_link_is_rejected(folder: Path, exists: bool) -> None:
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        produce(client, "t", batch(3))
        whole = kafka.batches("t", 0)
    other = folder.parent / "other"
    (folder / "t-0").rename(other if exists else folder.parent / "kept")
    (folder / "t-0").symlink_to(other)
    before = contents(folder.parent)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"t-0 is a symbolic link.*Replace the link"):
            start(folder).start()
        assert contents(folder.parent) == before
    (folder / "t-0").unlink()
    (other if exists else folder.parent / "kept").rename(folder / "t-0")
    with start(folder) as kafka:
        assert kafka.batches("t", 0) == whole


@pytest.mark.parametrize("damage", ["folder", "file", "bit"])
def test_log_that_ends_before_its_start_continues_at_the_start(folder: Path, damage: str) -> None:
    """DeleteRecords has moved the log start; records before it would be unreadable."""
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        for _ in range(3):
            produce(client, "t", batch(10))
        assert delete_records(client, 25) == 25
    (folder / CLEAN_MARK).unlink()
    log = folder / "t-0" / SEGMENT
    if damage == "folder":
        shutil.rmtree(log.parent)
    else:
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(data if damage == "bit" else data[: len(data) // 2])
    with start(folder) as kafka, RawClient(kafka.bootstrap_servers) as client:
        response = produce(client, "t", batch(2))
        assert (response.base_offset, response.log_start_offset) == (25, 25)
        complete = kafka.batches("t", 0)
        assert [BatchHeader.parse(data).base_offset for data in complete] == [25]
    with start(folder) as kafka:
        assert kafka.batches("t", 0) == complete


@pytest.mark.parametrize("failing", [Journal, SegmentedStorage])
def test_deleted_records_do_not_reappear(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: type
) -> None:
    """The first request fails and the client retries it."""
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        for _ in range(3):
            produce(client, "t", batch(10))
        with monkeypatch.context() as patch:
            full = Mock(side_effect=OSError("No space left on device"))
            patch.setattr(failing, "put" if failing is Journal else "delete_before", full)
            assert delete_records(client, 25) == -1
        assert delete_records(client, 25) == 25
    with start(folder) as kafka:
        assert kafka.run(lambda cluster: log_in(cluster).start_offset) == 25


@pytest.mark.parametrize("at", [0, 3, 6, 7])
def test_wrong_offset_truncates_the_log(folder: Path, at: int) -> None:
    """The checksum does not cover the offset, but offsets have no gaps."""
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        for _ in range(3):
            produce(client, "t", batch(2))
        complete = kafka.batches("t", 0)
    (folder / CLEAN_MARK).unlink()
    log = folder / "t-0" / SEGMENT
    data = bytearray(log.read_bytes())
    data[len(complete[0]) + at] ^= 0x40
    log.write_bytes(data)
    with start(folder) as kafka, RawClient(kafka.bootstrap_servers) as client:
        assert kafka.batches("t", 0) == complete[:1]
        assert produce(client, "t", batch(2)).base_offset == 2


def test_start_on_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start(folder, topics={"t": 1}) as kafka, RawClient(kafka.bootstrap_servers) as client:
        produce(client, "t", batch(2))
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "put", Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(ConfigError, match="No space left"):
            start(folder).start()
    with start(folder) as kafka:
        assert kafka.end_offsets("t") == [2]


def test_failed_start_releases_the_lock(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        start(folder, topics={"bad name": 1}).start()
    with start(folder):
        assert "bad name" in str(caught.value)
