"""Segment files and their indexes, compared with those of Kafka, and read by its tool."""

import re
import time
from pathlib import Path
from typing import Any

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.broker.storage.disk_folder import broker_folder, client_of
from tests.support.readers import dump, dumped_batches, dumped_records
from tools.support.java import run_tool
from tools.support.kafka_cluster import KafkaCluster
from tools.support.raw_client import RawClient, batch, create, produce

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONFIGS: dict[str, Any] = {"internal_segment_bytes": "20000", "index_interval_bytes": "700"}
FILES = ("*.log", "*.index", "*.timeindex")


def write_many(client: RawClient, topic: str) -> int:
    """Produce batches of many sizes with unordered timestamps, some from an idempotent producer."""
    now = int(time.time() * 1000)
    for number in range(120):
        stamp = now + (number * 37) % 50
        data = batch(1 + number % 7, timestamp=stamp, value=bytes(17 * (number % 11)), codec=0)
        assert produce(client, topic, data).error_code is ErrorCode.none
    return now


def files_in(data_dir: Path, pattern: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(data_dir.glob(pattern))}


def test_segment_files_equal_those_of_kafka(
    real_kafka: KafkaCluster, data_dir: str, unique_topic: str
) -> None:
    """The files of all complete segments are identical for the same batches."""
    broker = EmbeddedBroker(data_dir=data_dir)
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
        mine = broker_folder(data_dir, unique_topic)
        assert files_in(mine, "*.log") == files_in(real, "*.log")
        assert len(files_in(mine, "*.log")) > 3
        for pattern in FILES[1:]:
            *sealed, active = files_in(real, pattern).items()
            *same, own_active = files_in(mine, pattern).items()
            assert same == sealed
            assert own_active[0] == active[0]
            assert active[1].startswith(own_active[1])


def test_dump_log_segments_reads_the_files(data_dir: str) -> None:
    configs = {"internal.segment.bytes": "3000", "index.interval.bytes": "300"}
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 1}, topic_configs={"t": configs}) as kafka:
        with client_of(kafka) as client:
            now = write_many(client, "t")
        ends = kafka.end_offsets("t")
        sizes = [len(data) for data in kafka.batches("t", 0)]
    location = broker_folder(data_dir, "t")
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
