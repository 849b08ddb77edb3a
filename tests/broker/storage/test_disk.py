"""Folders of the broker: restarts, locks, retention, and errors of the disk."""

import errno
import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest

from spark_kafka_sink import EmbeddedBroker, UnknownTopicError
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.storage.data_dir import CLEAN_MARK, LOCK
from spark_kafka_sink.broker.storage.disk_segment import DiskSegment
from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.storage.disk_folder import broker_folder, client_of, write_segments
from tests.broker.support.inspection import log_in, topic_in
from tests.broker.transactions.confluent import SECONDS, transactional, values
from tools.support.raw_client import (
    TIMEOUT,
    RawClient,
    batch,
    create,
    delete_topic,
    new_producer_id,
    produce,
)


@pytest.mark.parametrize("failing", ["pwritev", "fsync"])
def test_failed_append_that_cannot_be_undone(
    data_dir: str, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(descriptor: int, parts: object = None, at: int = 0) -> None:
        if isinstance(parts, list):
            os.pwrite(descriptor, b"".join(bytes(part) for part in parts)[:100], at)
        raise OSError(errno.EIO, "Input/output error")

    kafka = EmbeddedBroker(data_dir=data_dir, topics={"t": 1})
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
    with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
        end = kafka.end_offsets("u")[0]
        assert end == (2 if failing == "pwritev" else 1)
        assert produce(client, "u", batch(1, producer=(producer, 0, end))).base_offset == end


@pytest.mark.parametrize("commit", [True, False])
def test_lost_transaction_marker_is_written_again(data_dir: str, commit: bool) -> None:
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 1}) as kafka:
        producer = transactional(kafka)
        producer.begin_transaction()
        producer.produce("t", "first")
        producer.flush(SECONDS)
        log = broker_folder(data_dir, "t") / f"{0:020}.log"
        size = log.stat().st_size
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    os.truncate(log, size)
    (Path(data_dir) / CLEAN_MARK).unlink()
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        assert values(kafka, "t") == ["first"] * commit


@pytest.mark.parametrize(
    ("outcomes", "kept"), [("abort commit", []), ("commit abort", []), ("commit commit", ["first"])]
)
def test_lost_marker_of_an_older_transaction_of_the_same_epoch(
    data_dir: str, outcomes: str, kept: list[str]
) -> None:
    """With transactions V1, the epoch does not tell which transaction's marker is lost."""
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 1}, transaction_version=0) as kafka:
        producer, sizes = transactional(kafka), []
        for outcome, value in zip(outcomes.split(), ("first", "second"), strict=True):
            producer.begin_transaction()
            producer.produce("t", value)
            producer.flush(SECONDS)
            sizes.append((broker_folder(data_dir, "t") / f"{0:020}.log").stat().st_size)
            end = producer.commit_transaction if outcome == "commit" else producer.abort_transaction
            end(SECONDS)
    os.truncate(broker_folder(data_dir, "t") / f"{0:020}.log", sizes[0])
    (Path(data_dir) / CLEAN_MARK).unlink()
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        assert values(kafka, "t") == kept


@pytest.mark.parametrize("used", [1000, 10**9, 2**63 - 1])
def test_producer_ids_in_logs_are_not_allocated_again(data_dir: str, used: int) -> None:
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 1}) as kafka, client_of(kafka) as client:
        produce(client, "t", batch(1, producer=(used, 0, 0)))
    with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
        assert used != new_producer_id(client) < 2**62


def test_producer_ids_are_unique_after_a_backup_is_restored(data_dir: str, tmp_path: Path) -> None:
    """If a producer survives the broker, its batches must not be duplicates of another's."""
    used = []
    for backup in (True, False):
        with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
            used += [new_producer_id(client) for _ in range(2)]
        if backup:
            shutil.copytree(data_dir, tmp_path / "backup")
    shutil.rmtree(data_dir)
    (tmp_path / "backup").rename(data_dir)
    for used_dir in (data_dir, None):
        with EmbeddedBroker(data_dir=used_dir) as kafka, client_of(kafka) as client:
            used.append(new_producer_id(client))
    assert len(set(used)) == len(used)


def test_restart_restores_all_data(data_dir: str) -> None:
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 2}) as kafka, client_of(kafka) as client:
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
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 2}) as kafka, client_of(kafka) as client:
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


def test_two_brokers_cannot_share_a_folder(data_dir: str) -> None:
    with EmbeddedBroker(data_dir=data_dir):
        for _ in range(2):
            with pytest.raises(ConfigError, match="another broker uses"):
                EmbeddedBroker(data_dir=data_dir).start()
            (Path(data_dir) / LOCK).unlink()
    with EmbeddedBroker(data_dir=data_dir):
        pass


def test_forked_process_does_not_keep_the_lock(data_dir: str) -> None:
    with EmbeddedBroker(data_dir=data_dir):
        child = multiprocessing.get_context("fork").Process(target=signal.pause)
        child.start()
    try:
        with EmbeddedBroker(data_dir=data_dir):
            pass
    finally:
        child.kill()
        child.join()


def test_forked_process_does_not_stop_the_broker(data_dir: str) -> None:
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        child = multiprocessing.get_context("fork").Process(target=kafka.stop)
        child.start()
        child.join()
        assert not (Path(data_dir) / CLEAN_MARK).exists()
        with pytest.raises(ConfigError, match="another broker uses"):
            EmbeddedBroker(data_dir=data_dir).start()


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


def test_disk_write_error(data_dir: str) -> None:
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 1}) as kafka, client_of(kafka) as client:
        produce(client, "t", batch(2))
        swap_file(kafka, os.O_RDONLY)
        assert produce(client, "t", batch(2)).error_code is ErrorCode.kafka_storage_error
        assert kafka.end_offsets("t") == [2]
        swap_file(kafka, os.O_RDWR)
        assert produce(client, "t", batch(2)).base_offset == 2


def test_offsets_without_disk_space(
    data_dir: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients search the coordinator and retry."""
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 1}) as kafka, client_of(kafka) as client:
        assert commit(client, "readers", 3) is ErrorCode.none
        with monkeypatch.context() as patch:
            full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
            patch.setattr(Journal, "put", full)
            assert commit(client, "readers", 7) is ErrorCode.not_coordinator
        assert committed(client, "readers") == 3
        assert commit(client, "readers", 7) is ErrorCode.none
    assert "No space left" in caplog.text


def test_stop_closes_everything_if_a_log_cannot_be_flushed(data_dir: str) -> None:
    kafka = EmbeddedBroker(data_dir=data_dir, topics={"a": 1, "b": 1})
    kafka.start()
    with client_of(kafka) as client:
        for topic in ("a", "b"):
            produce(client, topic, batch(2))
    (blocked := Path(data_dir, "a-0", f"{0:020d}.timeindex")).mkdir()
    with pytest.raises(KafkaProdError, match="not all data") as caught:
        kafka.stop()
    assert isinstance(caught.value.__cause__, IsADirectoryError)
    assert Path(data_dir, "b-0", blocked.name).stat().st_size
    assert not Path(data_dir, CLEAN_MARK).exists()
    blocked.rmdir()
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        assert kafka.end_offsets("a") == kafka.end_offsets("b") == [2]
    assert Path(data_dir, CLEAN_MARK).exists()


def test_clean_mark_cannot_be_written(data_dir: str) -> None:
    kafka = EmbeddedBroker(data_dir=data_dir, topics={"t": 1})
    kafka.start()
    (blocked := Path(data_dir, CLEAN_MARK)).mkdir()
    with pytest.raises(KafkaProdError, match="not all data"):
        kafka.stop()
    blocked.rmdir()
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        assert kafka.end_offsets("t") == [0]


@pytest.mark.parametrize(("error", "hint"), [("ENOSPC", "Free space"), ("EACCES", "Restore")])
def test_partition_that_cannot_be_opened(
    data_dir: str, monkeypatch: pytest.MonkeyPatch, error: str, hint: str
) -> None:
    write_segments(data_dir, 2)
    failure = OSError(getattr(errno, error), os.strerror(getattr(errno, error)))
    monkeypatch.setattr(DiskSegment, "trim_indexes", Mock(side_effect=failure))
    with pytest.raises(ConfigError, match="t-0 cannot be read") as caught:
        EmbeddedBroker(data_dir=data_dir).start()
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
