"""Segments in memory and on disk: rolling, retention, truncation and flushing."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.cluster.jumping_clock import JumpingClock
from spark_kafka_sink.broker.cluster.log_manager import LogManager
from spark_kafka_sink.broker.config.topic_config import DEFAULT_LOG_CONFIG, LogConfig, TopicConfig
from spark_kafka_sink.broker.partition.log_validator import AppendOptions
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.storage.data_dir import DataDir
from spark_kafka_sink.broker.storage.disk_segment import DiskSegment
from spark_kafka_sink.broker.storage.file_handles import FileHandles
from spark_kafka_sink.broker.storage.log_segment import LogSegment
from spark_kafka_sink.broker.storage.memory_backend import MemoryBackend
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tools.support.raw_client import batch

NewSegment = Callable[[int], LogSegment]


QUICK = settings(max_examples=30, deadline=None, database=None)


@pytest.fixture(params=["memory", "disk"])
def new_segment(request: pytest.FixtureRequest, tmp_path: Path) -> NewSegment:
    if request.param == "memory":
        return LogSegment
    return partial(DiskSegment, tmp_path, interval=100, handles=FileHandles())


def log_of(new_segment: NewSegment, **config: Any) -> UnifiedLog:
    return UnifiedLog(SegmentedStorage(replace(DEFAULT_LOG_CONFIG, **config), new_segment))


def append(log: UnifiedLog, count: int = 1, timestamp: int = 0, value: bytes = b"") -> int:
    data = bytes(batch(count, timestamp=timestamp, value=value))
    return log.append(data, BatchHeader.parse(data), leader_epoch=0)


def segments_of(log: UnifiedLog) -> Sequence[LogSegment]:
    assert isinstance(log.storage, SegmentedStorage)
    return log.storage.segments


def bases(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in segments_of(log)]


def test_segments_roll_by_size(new_segment: NewSegment) -> None:
    log = log_of(new_segment, segment_bytes=300)
    for _ in range(5):
        append(log, 2, value=bytes(30))
    assert bases(log) == [0, 4, 8]
    append(log, 1, value=bytes(400))
    append(log)
    assert bases(log) == [0, 4, 8, 10, 11]


def test_segments_roll_by_the_time_of_their_first_batch(new_segment: NewSegment) -> None:
    log = log_of(new_segment, segment_ms=100)
    for timestamp in (1000, 1100, 1101, 1050, 1202):
        append(log, timestamp=timestamp)
    assert bases(log) == [0, 2, 4]


def test_records_without_timestamp_age_from_their_append(new_segment: NewSegment) -> None:
    log = log_of(new_segment, segment_bytes=1, retention_ms=60_000)
    now = time.time_ns() // 1_000_000
    for timestamp in (-1, -(2**62), now):
        append(log, timestamp=timestamp)
    log.storage.expire(now + 50_000)
    assert bases(log) == [0, 1, 2]
    log.storage.expire(now + 70_000)
    assert bases(log) == [3]


def test_retention_by_time_deletes_whole_segments(new_segment: NewSegment) -> None:
    log = log_of(new_segment, segment_ms=100, retention_ms=1000)
    for timestamp in (1000, 1150, 1300, 1350):
        append(log, timestamp=timestamp)
    log.storage.expire(2000)
    assert bases(log) == [0, 1, 2]
    log.storage.expire(2160)
    assert (bases(log), log.start_offset) == ([2], 2)
    log.storage.expire(2400)
    assert (bases(log), log.start_offset, log.end_offset, log.size) == ([4], 4, 4, 0)
    assert append(log, timestamp=2400) == 4


def test_retention_by_size_keeps_at_least_the_limit(new_segment: NewSegment) -> None:
    log = log_of(new_segment, segment_bytes=100, retention_bytes=250, retention_ms=-1)
    for _ in range(10):
        append(log)
    size = log.size // 10
    log.storage.expire(10**15)
    assert log.size - size < 250 <= log.size
    assert log.start_offset == 10 - log.size // size


@pytest.mark.parametrize(
    "config", [{"retention_ms": 1}, {"retention_ms": -1, "retention_bytes": 0}]
)
@pytest.mark.parametrize(("limit", "left"), [(0, [0, 1, 2]), (1, [1, 2]), (3, [3])])
def test_retention_ends_at_the_high_watermark(
    new_segment: NewSegment, config: dict[str, int], limit: int, left: list[int]
) -> None:
    log = log_of(new_segment, segment_ms=1, **config)
    for timestamp in (1000, 1002, 1004):
        append(log, timestamp=timestamp)
    log.storage.expire(10**15, high_watermark=limit)
    assert bases(log) == left


def test_negative_retention_bytes_is_no_limit(new_segment: NewSegment) -> None:
    """Kafka accepts any negative number."""
    overrides = {"retention.bytes": "-2", "retention.ms": "-1"}
    log = UnifiedLog(
        SegmentedStorage(LogConfig.of(TopicConfig(overrides=overrides, broker=())), new_segment)
    )
    append(log)
    log.expire(10**15, 1)
    assert log.start_offset == 0


def test_segment_below_the_start_offset_expires_after_a_roll(new_segment: NewSegment) -> None:
    log = log_of(new_segment, segment_bytes=100, retention_ms=-1)
    append(log)
    log.delete_records(1)
    append(log)
    assert bases(log) == [0, 1]
    log.expire(0, 2)
    assert bases(log) == [1]


def test_compacted_log_does_not_expire(new_segment: NewSegment) -> None:
    log = log_of(new_segment, retention_ms=1, retention_bytes=1, deletes_records=False)
    append(log)
    log.storage.expire(10**15)
    assert log.start_offset == 0


def test_deleted_records_release_whole_segments(new_segment: NewSegment) -> None:
    log = log_of(new_segment, segment_bytes=100)
    for _ in range(4):
        append(log, 3)
    log.delete_records(7)
    assert (bases(log), log.start_offset) == ([6, 9], 7)
    assert [stored.header.base_offset for stored in log] == [6, 9]
    log.delete_records(2)
    assert log.start_offset == 7


@pytest.mark.parametrize("offset", range(13))
def test_truncation_drops_batches_from_an_offset(new_segment: NewSegment, offset: int) -> None:
    log = log_of(new_segment, segment_bytes=200)
    for number in range(4):
        append(log, 3, timestamp=100 - number)
    log.truncate(offset)
    assert log.end_offset == offset // 3 * 3
    assert [stored.header.base_offset for stored in log] == list(range(0, log.end_offset, 3))
    assert append(log, 3) == log.end_offset - 3
    assert sum(len(stored.data) for stored in log) == log.size


@QUICK
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 60), st.integers(0, 9)), max_size=25
    ),
    data=st.data(),
)
def test_disk_and_memory_return_the_same(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    folder = DataDir(tmp_path_factory.mktemp("data"))
    config = replace(DEFAULT_LOG_CONFIG, segment_bytes=400, index_interval_bytes=100, segment_ms=6)
    disk = UnifiedLog(folder.create("t", 0, config))
    memory = UnifiedLog(SegmentedStorage(config, LogSegment))
    for count, size, timestamp in sizes:
        for log in (disk, memory):
            append(log, count, timestamp, bytes(size))
    disk.storage.close()
    again = UnifiedLog(folder.load("t", 0, config, lambda *_: None))
    for log in (disk, again):
        same_reads(log, memory, data)
    folder.close()


def same_reads(log: UnifiedLog, memory: UnifiedLog, data: st.DataObject) -> None:
    assert (log.start_offset, log.end_offset, log.size) == (0, memory.end_offset, memory.size)
    assert bases(log) == bases(memory)
    assert list(log) == list(memory)
    start = data.draw(st.integers(0, memory.end_offset))
    end = data.draw(st.integers(0, memory.end_offset))
    limit = data.draw(st.integers(0, 600))
    for forced in (False, True):
        reads = [
            b"".join(storage.read(start, limit, at_least_one=forced, end=end))
            for storage in (log, memory)
        ]
        assert reads[0] == reads[1]
    assert log.bytes_from(start, end) == memory.bytes_from(start, end)
    for timestamp in range(10):
        assert log.first_at_timestamp(timestamp) == memory.first_at_timestamp(timestamp)
    assert log.first_at_max_timestamp() == memory.first_at_max_timestamp()


def test_flushing_by_count_and_by_time(
    new_segment: NewSegment, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(new_segment, flush_messages=5, flush_ms=1000)
    flushed = []

    def note(segment: object) -> None:
        flushed.append(segment)

    monkeypatch.setattr(type(segments_of(log)[0]), "flush", note)
    append(log, 4)
    assert flushed == []
    append(log, 2)
    assert len(flushed) == 1
    log.storage.flush_if_due(5000)
    assert len(flushed) == 1
    append(log)
    log.storage.flush_if_due(5999)
    assert len(flushed) == 1
    log.storage.flush_if_due(6000)
    assert len(flushed) == 2


def test_recovery_point_never_exceeds_flushed_records(new_segment: NewSegment) -> None:
    """A truncation lowers it durably first: records written afterwards are not flushed."""
    steps: list[str | int] = []
    is_full = [False]

    def store(offset: int) -> None:
        if is_full[0]:
            raise OSError("No space left")
        steps.append(offset)

    log = UnifiedLog(
        SegmentedStorage(
            replace(DEFAULT_LOG_CONFIG, segment_bytes=1),
            new_segment,
            sync_journal=lambda: steps.append(f"synced at {log.end_offset}"),
            store_recovery_point=store,
        )
    )
    for _ in range(5):
        append(log)
    log.storage.flush()
    assert steps == ["synced at 5", 4]
    is_full[0] = True
    with pytest.raises(OSError, match="No space"):
        log.truncate(3)
    assert log.end_offset == 5
    is_full[0] = False
    log.truncate(3)
    assert steps[2:] == [2, "synced at 5"]
    assert log.end_offset == 3
    append(log)
    log.truncate(3)
    is_full[0] = True
    log.storage.flush()  # A lower recovery point than necessary is not a problem.
    is_full[0] = False
    log.storage.close()
    assert steps[4:] == ["synced at 3", "synced at 3", 3]


def test_log_is_read_only_after_a_failed_flush(
    new_segment: NewSegment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second fsync would succeed without writing what the first one could not write."""
    log = log_of(new_segment, flush_ms=1000)
    append(log, 2)
    flushed = []

    def flush(segment: object) -> None:
        flushed.append(segment)
        if len(flushed) == 1:
            raise OSError("Input/output error")

    monkeypatch.setattr(type(segments_of(log)[0]), "flush", flush)
    with pytest.raises(OSError, match="Input"):
        log.storage.flush_if_due(5000)
    log.storage.flush_if_due(6000)
    assert len(flushed) == 1
    for write in (log.storage.flush, lambda: append(log)):
        with pytest.raises(OSError, match="read-only until a restart"):
            write()
    assert (log.end_offset, len(log.read(0, 1000, at_least_one=True))) == (2, 1)


@pytest.mark.parametrize("failing", ["fsync", "ftruncate"])
def test_failed_close_closes_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    handles = FileHandles()
    log = log_of(partial(DiskSegment, tmp_path, interval=100, handles=handles), segment_bytes=1)
    for _ in range(3):
        append(log)
    monkeypatch.setattr(f"os.{failing}", Mock(side_effect=OSError("Input/output error")))
    with pytest.raises(OSError, match="Input/output error"):
        log.storage.close()
    links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert [link for link in links if link.startswith(str(tmp_path))] == []


def test_failure_of_one_log_does_not_stop_retention_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, other = log_of(LogSegment, retention_ms=1), log_of(LogSegment, retention_ms=1)
    append(old)
    append(other)

    def fail(now_ms: int) -> None:
        raise OSError("Input/output error")

    failing = UnifiedLog(SegmentedStorage())
    partitions = [SimpleNamespace(log=log, high_watermark=1) for log in (failing, old, other)]
    monkeypatch.setattr(SegmentedStorage, "flush_if_due", lambda _, now_ms: fail(now_ms))
    clock = JumpingClock()
    manager = LogManager(lambda: partitions, clock, 0)  # type: ignore[arg-type,return-value]
    clock.jump(1_000)
    manager.tick()
    assert [log.storage.start_offset for log in (old, other)] == [1, 1]


def log_in(cluster: Cluster) -> UnifiedLog:
    topic = cluster.topics.named("t")
    partition = None if topic is None else topic.partition(0)
    assert partition is not None
    return partition.log


def partition_in_memory(replicas: int) -> Partition:
    nodes = list(range(1, replicas + 1))
    config = replace(DEFAULT_LOG_CONFIG, retention_bytes=8 << 20, retention_ms=-1)
    log = UnifiedLog(MemoryBackend().create("t", 0, config))
    return Partition(topic="t", index=0, leader=1, replicas=nodes, in_sync=nodes, log=log)


def write(partition: Partition, batches: int) -> int:
    """Append batches of 900 kB, and return the largest size of the log."""
    options = AppendOptions(DEFAULT_LOG_CONFIG, produce_version=9, now_ms=0)
    data, most = bytes(batch(timestamp=0, value=bytes(900_000))), 0
    for _ in range(batches):
        partition.append(data, options)
        most = max(most, partition.log.size)
    return most


def test_memory_storage_of_a_fast_writer_is_limited() -> None:
    """Retention does not wait for its next interval, which is minutes away."""
    partition = partition_in_memory(replicas=1)
    most = write(partition, 64)
    assert 8 << 20 <= partition.log.size <= most < 12 << 20
    assert partition.log.start_offset > 40


def test_limit_of_memory_storage_keeps_unreplicated_records() -> None:
    partition = partition_in_memory(replicas=2)
    partition.replica_states.high_watermark = 5
    write(partition, 32)
    assert 0 < partition.log.start_offset <= 5
    partition.replica_states.high_watermark = partition.log.end_offset
    write(partition, 4)
    assert partition.log.start_offset > 20


def test_old_records_in_memory_stay_as_long_as_in_kafka() -> None:
    """A year of events rolls segments by timestamps; time retention has its own interval."""
    with EmbeddedBroker(topics={"t": 1}) as kafka:

        def write(cluster: Cluster) -> tuple[int, int]:
            log = log_in(cluster)
            for month in range(12):
                append(log, timestamp=1_357_000_000_000 + month * 30 * 86_400_000)
            return len(bases(log)), log.start_offset

        segments, start = kafka.run(write)
    assert segments > 1
    assert start == 0
