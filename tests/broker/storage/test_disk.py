"""Log files on disk have Kafka's format, and Kafka's tool reads them."""

import errno
import multiprocessing
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from spark_kafka_sink import EmbeddedBroker, UnknownTopicError
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.storage import file_handles, journal
from spark_kafka_sink.broker.storage.data_dir import CLEAN_MARK, LOCK
from spark_kafka_sink.broker.storage.disk_segment import DiskSegment
from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.support.inspection import log_in, topic_in
from tests.broker.transactions.confluent import SECONDS, transactional, values
from tests.support.readers import dump, dumped_batches, dumped_records
from tests.support.waiting import wait_until
from tools.support.java import run_tool
from tools.support.kafka_cluster import AnyKafka, KafkaCluster
from tools.support.raw_client import (
    TIMEOUT,
    RawClient,
    batch,
    create,
    delete_topic,
    fetch,
    new_producer_id,
    produce,
)

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONFIGS: dict[str, Any] = {"internal_segment_bytes": "20000", "index_interval_bytes": "700"}
FILES = ("*.log", "*.index", "*.timeindex")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def client_of(kafka: AnyKafka) -> RawClient:
    return RawClient(kafka.bootstrap_servers)


def write_many(client: RawClient, topic: str) -> int:
    """Produce batches of many sizes with unordered timestamps, some from an idempotent producer."""
    now = int(time.time() * 1000)
    for number in range(120):
        stamp = now + (number * 37) % 50
        data = batch(1 + number % 7, timestamp=stamp, value=bytes(17 * (number % 11)), codec=0)
        assert produce(client, topic, data).error_code is ErrorCode.none
    return now


def files_in(folder: Path, pattern: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern))}


def test_segment_files_equal_those_of_kafka(
    real_kafka: KafkaCluster, folder: str, unique_topic: str
) -> None:
    """The files of all complete segments are identical for the same batches."""
    broker = EmbeddedBroker(data_dir=folder)
    with broker, client_of(broker) as ours, client_of(real_kafka) as theirs:
        create(ours, unique_topic, **CONFIGS)
        create(theirs, unique_topic, **CONFIGS)
        now = int(time.time() * 1000)
        for number in range(150):
            size, stamp = 17 * (number % 31), now + (number * 37) % 50 + number // 3
            data = batch(1 + number % 7, timestamp=stamp, value=bytes(size))
            assert produce(ours, unique_topic, data).error_code is ErrorCode.none
            assert produce(theirs, unique_topic, data).error_code is ErrorCode.none
        real = real_kafka.partition_dir(unique_topic, 0)
        mine = broker_folder(folder, unique_topic)
        assert files_in(mine, "*.log") == files_in(real, "*.log")
        assert len(files_in(mine, "*.log")) > 3
        for pattern in FILES[1:]:
            *sealed, active = files_in(real, pattern).items()
            *same, own_active = files_in(mine, pattern).items()
            assert same == sealed
            assert own_active[0] == active[0]
            assert active[1].startswith(own_active[1])


def broker_folder(folder: str, topic: str, partition: int = 0) -> Path:
    return Path(folder) / f"{topic}-{partition}"


def test_dump_log_segments_reads_the_files(folder: str) -> None:
    configs = {"internal.segment.bytes": "3000", "index.interval.bytes": "300"}
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}, topic_configs={"t": configs}) as kafka:
        with client_of(kafka) as client:
            now = write_many(client, "t")
        ends = kafka.end_offsets("t")
        sizes = [len(data) for data in kafka.batches("t", 0)]
    location = broker_folder(folder, "t")
    printed = dump(location)
    assert [dumped.size for dumped in dumped_batches(printed)] == sizes
    assert all(dumped.is_valid for dumped in dumped_batches(printed))
    records = dumped_records(printed, "t", 0)
    assert [record.offset for record in records] == list(range(ends[0]))
    assert records[3].timestamp == now + (2 * 37) % 50
    check_indexes(location)


def check_indexes(location: Path) -> None:
    indexes = [str(path) for pattern in FILES[1:] for path in sorted(location.glob(pattern))]
    assert len(indexes) > 8
    files = ",".join(indexes)
    sane = run_tool(DUMP, "--index-sanity-check", "--files", files).decode()
    assert sane.count("passed sanity check") == len(indexes)
    plain = run_tool(DUMP, "--files", files).decode()
    assert "mismatch" not in plain.lower()
    assert "out of order" not in plain.lower()
    entries = re.findall(r"^offset: (\d+) position: (\d+)$", plain, re.MULTILINE)
    times = re.findall(r"^timestamp: (\d+) offset: (\d+)$", plain, re.MULTILINE)
    assert len(entries) > 20
    assert len(times) >= len(indexes) // 2


@pytest.mark.parametrize("failing", ["pwritev", "fsync"])
def test_failed_append_that_cannot_be_undone(
    folder: str, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(descriptor: int, parts: object = None, at: int = 0) -> None:
        if isinstance(parts, list):
            os.pwrite(descriptor, b"".join(bytes(part) for part in parts)[:100], at)
        raise OSError(errno.EIO, "Input/output error")

    kafka = EmbeddedBroker(data_dir=folder, topics={"t": 1})
    kafka.start()
    with client_of(kafka) as client:
        create(client, "u", flush_messages="1")
        producer = new_producer_id(client)
        produce(client, "u", batch(1, producer=(producer, 0, 0)))
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{failing}", fail)
            patch.setattr("os.ftruncate", fail)
            rejected = produce(client, "u", batch(1, producer=(producer, 0, 1)))
            assert rejected.error_code is ErrorCode.kafka_storage_error
        again = produce(client, "u", batch(1, producer=(producer, 0, 1)))
        if failing == "pwritev":
            assert again.base_offset == 1
            kafka.stop()
        else:
            assert again.error_code is ErrorCode.kafka_storage_error
            assert produce(client, "t", batch(1)).base_offset == 0
            with pytest.raises(KafkaProdError, match="not all data"):
                kafka.stop()
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        end = kafka.end_offsets("u")[0]
        assert end == (2 if failing == "pwritev" else 1)
        assert produce(client, "u", batch(1, producer=(producer, 0, end))).base_offset == end


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
    folder = tmp_path / "before"
    with EmbeddedBroker(data_dir=str(folder), topics={"t": 1}) as kafka:
        kafka.run(lambda cluster: log_in(cluster).storage.restart_at(100))
        kafka.run(lambda cluster: log_in(cluster).storage.flush())
        disk.restore(folder.stat().st_ino, tmp_path / "after")
    with EmbeddedBroker(data_dir=str(tmp_path / "after")) as kafka:
        assert kafka.end_offsets("t") == [100]


@pytest.mark.parametrize("is_retried", [False, True])
def test_compacted_journal_survives_a_power_failure(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, *, is_retried: bool
) -> None:
    """If the folder of the new file cannot be synced, the next `sync` retries it."""
    monkeypatch.setattr(journal, "_COMPACT_FROM", 1)
    (folder := tmp_path / "before").mkdir()
    own = Journal(folder / "journal")
    own.put("kind", ("key",), 0)
    own.sync()
    file_handles.sync_folder(folder)
    with monkeypatch.context() as patch:
        if is_retried:
            patch.setattr(journal, "sync_folder", Mock(side_effect=OSError(errno.EIO, "failed")))
        for number in range(1, 6):
            own.put("kind", ("key",), number)
    own.sync()
    disk.restore(folder.stat().st_ino, tmp_path / "after")
    assert Journal(tmp_path / "after" / "journal").get("kind", ("key",)) == 5


def test_mark_of_a_clean_shutdown_does_not_return(tmp_path: Path, disk: Disk) -> None:
    """With it, the next start would not verify what was written since."""
    folder = tmp_path / "before"
    with EmbeddedBroker(data_dir=str(folder), topics={"t": 1}):
        pass
    for path in (folder, folder / CLEAN_MARK):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    disk.restore(folder.stat().st_ino, tmp_path / "stopped")
    assert (tmp_path / "stopped" / CLEAN_MARK).exists()
    with EmbeddedBroker(data_dir=str(folder)):
        disk.restore(folder.stat().st_ino, tmp_path / "started")
    assert not (tmp_path / "started" / CLEAN_MARK).exists()


@pytest.mark.parametrize("commit", [True, False])
def test_lost_transaction_marker_is_written_again(folder: str, commit: bool) -> None:
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}) as kafka:
        producer = transactional(kafka)
        producer.begin_transaction()
        producer.produce("t", "first")
        producer.flush(SECONDS)
        log = broker_folder(folder, "t") / f"{0:020}.log"
        size = log.stat().st_size
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    os.truncate(log, size)
    (Path(folder) / CLEAN_MARK).unlink()
    with EmbeddedBroker(data_dir=folder) as kafka:
        assert values(kafka, "t") == ["first"] * commit


@pytest.mark.parametrize(
    ("outcomes", "kept"), [("abort commit", []), ("commit abort", []), ("commit commit", ["first"])]
)
def test_lost_marker_of_an_older_transaction_of_the_same_epoch(
    folder: str, outcomes: str, kept: list[str]
) -> None:
    """With transactions V1, the epoch does not tell which transaction's marker is lost."""
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}, transaction_version=0) as kafka:
        producer, sizes = transactional(kafka), []
        for outcome, value in zip(outcomes.split(), ("first", "second"), strict=True):
            producer.begin_transaction()
            producer.produce("t", value)
            producer.flush(SECONDS)
            sizes.append((broker_folder(folder, "t") / f"{0:020}.log").stat().st_size)
            end = producer.commit_transaction if outcome == "commit" else producer.abort_transaction
            end(SECONDS)
    os.truncate(broker_folder(folder, "t") / f"{0:020}.log", sizes[0])
    (Path(folder) / CLEAN_MARK).unlink()
    with EmbeddedBroker(data_dir=folder) as kafka:
        assert values(kafka, "t") == kept


@pytest.mark.parametrize("used", [1000, 10**9, 2**63 - 1])
def test_producer_ids_in_logs_are_not_allocated_again(folder: str, used: int) -> None:
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}) as kafka, client_of(kafka) as client:
        produce(client, "t", batch(1, producer=(used, 0, 0)))
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        assert used != new_producer_id(client) < 2**62


def test_producer_ids_are_unique_after_a_backup_is_restored(folder: str, tmp_path: Path) -> None:
    """If a producer survives the broker, its batches must not be duplicates of another's."""
    used = []
    for backup in (True, False):
        with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
            used += [new_producer_id(client) for _ in range(2)]
        if backup:
            shutil.copytree(folder, tmp_path / "backup")
    shutil.rmtree(folder)
    (tmp_path / "backup").rename(folder)
    for data_dir in (folder, None):
        with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
            used.append(new_producer_id(client))
    assert len(set(used)) == len(used)


def test_restart_restores_all_data(folder: str) -> None:
    with EmbeddedBroker(data_dir=folder, topics={"t": 2}) as kafka, client_of(kafka) as client:
        topic_id = client.call(ApiKey.METADATA, 12, topics=[{"name": "t"}]).topics[0].topic_id
        create(client, "other", 3, retention_ms="777")
        create(client, "gone")
        producer = new_producer_id(client)
        for number in range(7):
            produce(client, "t", batch(3, producer=(producer, 0, 3 * number)))
        assert commit(client, "readers", 11) is ErrorCode.none
        client.call(ApiKey.DELETE_TOPICS, 5, topic_names=["gone"], topics=[], timeout=TIMEOUT)
        delete = {"name": "t", "partitions": [{"partition_index": 0, "offset": 4}]}
        client.call(ApiKey.DELETE_RECORDS, 2, topics=[delete], timeout=TIMEOUT)
        batches = kafka.batches("t", 0)
    with EmbeddedBroker(data_dir=folder, topics={"t": 2}) as kafka, client_of(kafka) as client:
        assert kafka.end_offsets("t") == [21, 0]
        with pytest.raises(UnknownTopicError):
            kafka.end_offsets("gone")
        assert kafka.batches("t", 0) == batches
        assert kafka.records("t")[0].offset == 4
        topic = client.call(ApiKey.METADATA, 12, topics=[{"name": "t"}]).topics[0]
        assert topic.topic_id == topic_id
        assert [p.leader_epoch for p in topic.partitions] == [1, 1]
        assert committed(client, "readers") == 11
        assert new_producer_id(client) > producer
        repeated = produce(client, "t", batch(3, producer=(producer, 0, 9)))
        assert (repeated.base_offset, repeated.log_start_offset) == (9, 4)
        gap = produce(client, "t", batch(3, producer=(producer, 0, 24)))
        assert gap.error_code is ErrorCode.out_of_order_sequence_number
        assert produce(client, "t", batch(3, producer=(producer, 0, 21))).base_offset == 21
        other = kafka.run(lambda cluster: topic_in(cluster, "other"))
        assert (len(other.partitions), other.config["retention.ms"]) == (3, "777")


def commit(client: RawClient, group: str, offset: int) -> ErrorCode:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
    topic = {"name": "t", "partitions": [partition]}
    response = client.call(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[topic],
    )
    code: ErrorCode = response.topics[0].partitions[0].error_code
    return code


def committed(client: RawClient, group: str) -> int:
    requested = [{"name": "t", "partition_indexes": [0]}]
    response = client.call(ApiKey.OFFSET_FETCH, 7, group_id=group, topics=requested)
    result: int = response.topics[0].partitions[0].committed_offset
    return result


@pytest.mark.parametrize("damage", ["cut", "flip", "garbage", "zeros"])
def test_damaged_end_of_log_is_truncated(folder: str, damage: str) -> None:
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}) as kafka, client_of(kafka) as client:
        for _ in range(5):
            produce(client, "t", batch(4))
        complete = kafka.batches("t", 0)
    (broker_folder(folder, "t").parent / CLEAN_MARK).unlink()
    log = broker_folder(folder, "t") / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    if damage == "cut":
        del data[-7:]
    elif damage == "flip":
        data[-3] ^= 0x10
    else:
        data += bytes(5000) if damage == "zeros" else b"\xa5" * 5000
    log.write_bytes(data)
    kept = complete if damage in {"garbage", "zeros"} else complete[:-1]
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        assert kafka.batches("t", 0) == kept
        assert log.stat().st_size == sum(map(len, kept))
        assert produce(client, "t", batch(1)).base_offset == 4 * len(kept)


def write_segments(folder: str, count: int) -> list[bytes]:
    """Write segments with one batch of two records each, and return the batches."""
    configs = {"internal.segment.bytes": "300"}
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}, topic_configs={"t": configs}) as kafka:
        with client_of(kafka) as client:
            for _ in range(count):
                produce(client, "t", batch(2, value=bytes(100)))
        return kafka.batches("t", 0)


def write_until_crash(folder: str, crashed: Path, flush_messages: str = "100") -> list[bytes]:
    """Write 6 segments with one batch each. Copy the data folder while the broker runs."""
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        create(client, "t", internal_segment_bytes="300", flush_messages=flush_messages)
        for _ in range(6):
            produce(client, "t", batch(2, value=bytes(100)))
        shutil.copytree(folder, crashed)
        return kafka.batches("t", 0)


def test_segments_after_a_damaged_one_are_deleted(folder: str, tmp_path: Path) -> None:
    complete = write_until_crash(folder, tmp_path / "crashed")
    location = tmp_path / "crashed" / "t-0"
    paths = sorted(location.glob("*.log"))
    assert len(paths) == 6
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    with EmbeddedBroker(data_dir=str(tmp_path / "crashed")) as kafka:
        assert kafka.batches("t", 0) == complete[:2]
    assert sorted(location.glob("*.log")) == paths[:3]


@pytest.mark.parametrize("state", ["flushed", "stopped earlier"])
def test_damage_in_flushed_segments_deletes_nothing(
    folder: str, tmp_path: Path, state: str
) -> None:
    """A crash cannot have damaged data that was flushed before."""
    crashed = tmp_path / "crashed"
    complete = write_until_crash(folder, crashed, flush_messages="1")
    if state == "stopped earlier":
        shutil.rmtree(crashed)
        with EmbeddedBroker(data_dir=folder):
            shutil.copytree(folder, crashed)
    log = sorted((crashed / "t-0").glob("*.log"))[2]
    intact = log.read_bytes()
    log.write_bytes(intact[:-9] + b"\xff" + intact[-8:])
    with EmbeddedBroker(data_dir=str(crashed)) as kafka:
        assert [*kafka.batches("t", 0)[:2], *kafka.batches("t", 0)[3:]] == [
            *complete[:2],
            *complete[3:],
        ]
        shutil.rmtree(folder)
        shutil.copytree(crashed, folder)
    damaged = Path(folder) / log.relative_to(crashed)
    damaged.write_bytes(intact[:-1])
    before = {path: path.read_bytes() for path in damaged.parent.iterdir()}
    with pytest.raises(ConfigError, match="no valid batch at byte 0") as caught:
        EmbeddedBroker(data_dir=folder).start()
    assert f"{damaged} is damaged" in str(caught.value)
    assert {path: path.read_bytes() for path in damaged.parent.iterdir()} == before
    damaged.unlink()
    with EmbeddedBroker(data_dir=folder) as kafka:
        assert kafka.batches("t", 0) == [*complete[:2], *complete[3:]]


def test_records_of_a_killed_broker_are_flushed_by_the_next(
    folder: str, tmp_path: Path, disk: Disk
) -> None:
    crashed = tmp_path / "crashed"
    complete = write_until_crash(folder, crashed)
    with EmbeddedBroker(data_dir=str(crashed)):
        disk.files.clear()
    logs = [disk.files[path.stat().st_ino] for path in sorted((crashed / "t-0").glob("*.log"))]
    assert b"".join(logs) == b"".join(complete)


@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 0)])
def test_segment_damaged_while_the_broker_runs(
    folder: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    write_segments(folder, 3)
    log = broker_folder(folder, "t") / f"{0:020}.log"
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        damage(log)
        assert fetch(client, "t", 0).error_code is ErrorCode.kafka_storage_error
        assert fetch(client, "t", 2).error_code is ErrorCode.none
    assert str(log) in caplog.text
    assert not log.exists() or not log.stat().st_size


@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 0)])
def test_missing_segments_are_an_error_after_a_clean_stop(
    folder: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """After a clean stop they are an error. After a crash, the other segments can be read."""
    complete = write_segments(folder, 5)
    location = broker_folder(folder, "t")
    for path in sorted(location.glob("*.log"))[1:3]:
        damage(path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"the offsets 2 to \d are missing"):
            EmbeddedBroker(data_dir=folder).start()
    (Path(folder) / CLEAN_MARK).unlink()
    for end in (10, 12):
        with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
            assert kafka.batches("t", 0)[:3] == [complete[0], *complete[3:]]
            assert produce(client, "t", batch(2)).base_offset == end
    assert "are missing" in caplog.text
    sorted(location.glob("*.log"))[-2].unlink()
    with pytest.raises(ConfigError, match="are missing"):
        EmbeddedBroker(data_dir=folder).start()


@pytest.mark.parametrize("kept", [0, 3])
def test_missing_last_segments(folder: str, kept: int, caplog: pytest.LogCaptureFixture) -> None:
    complete = write_segments(folder, 5)
    for path in sorted(broker_folder(folder, "t").glob("*.log"))[kept:]:
        for suffix in (".log", ".index", ".timeindex"):
            path.with_suffix(suffix).unlink()
    problem = f"the offsets {2 * kept} to 9 are missing"
    with pytest.raises(ConfigError, match=problem):
        EmbeddedBroker(data_dir=folder).start()
    (Path(folder) / CLEAN_MARK).unlink()
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        assert problem in caplog.text
        assert kafka.batches("t", 0) == complete[:kept]
        assert produce(client, "t", batch(1)).base_offset == 2 * kept
    with EmbeddedBroker(data_dir=folder) as kafka:
        assert kafka.end_offsets("t") == [2 * kept + 1]


def test_missing_segments_below_the_log_start(folder: str) -> None:
    """Their deletion might have been interrupted."""
    complete = write_segments(folder, 5)
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        delete = {"name": "t", "partitions": [{"partition_index": 0, "offset": 6}]}
        client.call(ApiKey.DELETE_RECORDS, 2, topics=[delete], timeout=TIMEOUT)
    (broker_folder(folder, "t") / f"{0:020}.log").write_bytes(complete[0])
    with EmbeddedBroker(data_dir=folder) as kafka:
        assert kafka.batches("t", 0) == complete[3:]


def test_two_brokers_cannot_share_a_folder(folder: str) -> None:
    with EmbeddedBroker(data_dir=folder):
        for _ in range(2):
            with pytest.raises(ConfigError, match="another broker uses"):
                EmbeddedBroker(data_dir=folder).start()
            (Path(folder) / LOCK).unlink()
    with EmbeddedBroker(data_dir=folder):
        pass


def test_forked_process_does_not_keep_the_lock(folder: str) -> None:
    with EmbeddedBroker(data_dir=folder):
        child = multiprocessing.get_context("fork").Process(target=signal.pause)
        child.start()
    try:
        with EmbeddedBroker(data_dir=folder):
            pass
    finally:
        child.kill()
        child.join()


def test_forked_process_does_not_stop_the_broker(folder: str) -> None:
    with EmbeddedBroker(data_dir=folder) as kafka:
        child = multiprocessing.get_context("fork").Process(target=kafka.stop)
        child.start()
        child.join()
        assert not (Path(folder) / CLEAN_MARK).exists()
        with pytest.raises(ConfigError, match="another broker uses"):
            EmbeddedBroker(data_dir=folder).start()


def test_relative_folder_survives_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with EmbeddedBroker(data_dir="data", topics={"t": 1}) as kafka, client_of(kafka) as client:
        monkeypatch.chdir(tmp_path / "other")
        assert delete_topic(client, "t") is ErrorCode.none
        assert not (tmp_path / "data" / "t-0").exists()


def test_file_in_place_of_the_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        EmbeddedBroker(data_dir=str(tmp_path / "file")).start()


def test_retention_by_size(folder: str) -> None:
    configs = {"internal.segment.bytes": "300", "retention.bytes": "600"}
    options: dict[str, Any] = {
        "topics": {"t": 1},
        "topic_configs": {"t": configs},
        "retention_check_ms": 20,
    }
    with EmbeddedBroker(data_dir=folder, **options) as kafka, client_of(kafka) as client:
        for _ in range(6):
            response = produce(client, "t", batch(2, value=bytes(100)))
        assert response.base_offset == 10
        wait_until(lambda: len(kafka.batches("t", 0)) <= 3)
        assert len(list(broker_folder(folder, "t").glob("*.log"))) == 3
        assert produce(client, "t", batch(1)).log_start_offset == 6


def test_disk_write_error(folder: str) -> None:
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}) as kafka, client_of(kafka) as client:
        produce(client, "t", batch(2))
        swap_file(kafka, os.O_RDONLY)
        assert produce(client, "t", batch(2)).error_code is ErrorCode.kafka_storage_error
        assert kafka.end_offsets("t") == [2]
        swap_file(kafka, os.O_RDWR)
        assert produce(client, "t", batch(2)).base_offset == 2


def test_offsets_without_disk_space(
    folder: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients search the coordinator and retry."""
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}) as kafka, client_of(kafka) as client:
        assert commit(client, "readers", 3) is ErrorCode.none
        with monkeypatch.context() as patch:
            full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
            patch.setattr(Journal, "put", full)
            assert commit(client, "readers", 7) is ErrorCode.not_coordinator
        assert committed(client, "readers") == 3
        assert commit(client, "readers", 7) is ErrorCode.none
    assert "No space left" in caplog.text


def test_stop_closes_everything_if_a_log_cannot_be_flushed(folder: str) -> None:
    kafka = EmbeddedBroker(data_dir=folder, topics={"a": 1, "b": 1})
    kafka.start()
    with client_of(kafka) as client:
        for topic in ("a", "b"):
            produce(client, topic, batch(2))
    (blocked := Path(folder, "a-0", f"{0:020d}.timeindex")).mkdir()
    with pytest.raises(KafkaProdError, match="not all data") as caught:
        kafka.stop()
    assert isinstance(caught.value.__cause__, IsADirectoryError)
    assert Path(folder, "b-0", blocked.name).stat().st_size
    assert not Path(folder, CLEAN_MARK).exists()
    blocked.rmdir()
    with EmbeddedBroker(data_dir=folder) as kafka:
        assert kafka.end_offsets("a") == kafka.end_offsets("b") == [2]
    assert Path(folder, CLEAN_MARK).exists()


def test_clean_mark_cannot_be_written(folder: str) -> None:
    kafka = EmbeddedBroker(data_dir=folder, topics={"t": 1})
    kafka.start()
    (blocked := Path(folder, CLEAN_MARK)).mkdir()
    with pytest.raises(KafkaProdError, match="not all data"):
        kafka.stop()
    blocked.rmdir()
    with EmbeddedBroker(data_dir=folder) as kafka:
        assert kafka.end_offsets("t") == [0]


@pytest.mark.parametrize(("error", "hint"), [("ENOSPC", "Free space"), ("EACCES", "Restore")])
def test_partition_that_cannot_be_opened(
    folder: str, monkeypatch: pytest.MonkeyPatch, error: str, hint: str
) -> None:
    write_segments(folder, 2)
    failure = OSError(getattr(errno, error), os.strerror(getattr(errno, error)))
    monkeypatch.setattr(DiskSegment, "trim_indexes", Mock(side_effect=failure))
    with pytest.raises(ConfigError, match="t-0 cannot be read") as caught:
        EmbeddedBroker(data_dir=folder).start()
    assert (caught.value.hint or "").startswith(hint)


def newest_segment(cluster: Cluster) -> DiskSegment:
    storage = log_in(cluster).storage
    assert isinstance(storage, SegmentedStorage)
    segment = storage.segments[-1]
    assert isinstance(segment, DiskSegment)
    return segment


def swap_file(kafka: EmbeddedBroker, flags: int) -> None:
    """Replace the file descriptor of the active segment, for example by a read-only one."""

    def swap(cluster: Cluster) -> None:
        segment = newest_segment(cluster)
        other = os.open(segment.path, flags)
        os.dup2(other, segment._handles.get(segment.path))
        os.close(other)

    kafka.run(swap)
