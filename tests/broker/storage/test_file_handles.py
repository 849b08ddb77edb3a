"""Many logs with few open files."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from spark_kafka_sink.broker.storage.file_handles import FileHandles
from tests.broker.support.inspection import next_line
from tests.support.waiting import wait_until

PARTITIONS = 200


def test_least_recently_used_file_is_closed_first(tmp_path: Path) -> None:
    handles = FileHandles(limit=2)
    first_path, two, three = (tmp_path / name for name in "123")
    with pytest.raises(FileNotFoundError):
        handles.get(first_path)
    for path in (first_path, two, three):
        path.touch()
    first = handles.get(first_path)
    handles.get(two)
    assert handles.get(first_path) == first
    handles.get(three)
    assert len(handles) == 2
    assert handles.get(first_path) == first, "the file used last stays open"
    os.pwrite(handles.get(two), b"again", 0)
    assert two.read_bytes() == b"again"
    for path in (first_path, two, three):
        handles.close(path)
    assert len(handles) == 0


def test_file_is_closed_if_the_system_limit_is_reached(tmp_path: Path) -> None:
    code = """
import resource, sys, os
from pathlib import Path
from spark_kafka_sink.broker.storage.file_handles import FileHandles
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
handles, folder = FileHandles(limit=1000), Path(sys.argv[1])
for number in range(300):
    os.pwrite(handles.get(folder / str(number), create=True), b"x", 0)
kept = len(handles)
handles.close(folder / "299")
print(kept, len(list(folder.iterdir())))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    open_files, readable = map(int, done.stdout.split())
    assert readable == 300
    assert 30 < open_files < 64


@pytest.fixture
def few_files_broker(tmp_path: Path) -> Iterator[str]:
    """Run a broker with disk storage whose process can open 256 files."""
    command = (
        f"ulimit -n 256 && exec {sys.executable} -m spark_kafka_sink broker --port 0 "
        f"--data-dir {tmp_path / 'data'} --topic t:{PARTITIONS}"
    )
    log = (tmp_path / "log").open("w+")
    with subprocess.Popen(
        ["/bin/bash", "-c", command], stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:
        try:
            yield next_line(process).split()[-1]
        finally:
            process.kill()
            log.close()


def test_broker_with_few_files_serves_all_partitions(few_files_broker: str) -> None:
    producer = Producer({"bootstrap.servers": few_files_broker, "linger.ms": 5})
    for turn in range(3):
        for partition in range(PARTITIONS):
            producer.produce("t", f"{turn}", partition=partition)
        assert producer.flush(60) == 0
    values = read_all(few_files_broker)
    assert values == {partition: ["0", "1", "2"] for partition in range(PARTITIONS)}


def read_all(address: str) -> dict[int, list[str]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
    consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    values: dict[int, list[str]] = {}
    for message in consumer.consume(3 * PARTITIONS, timeout=60):
        assert message.error() is None
        values.setdefault(message.partition() or 0, []).append((message.value() or b"").decode())
    consumer.close()
    return values


def test_connections_wait_for_free_file_descriptors(tmp_path: Path) -> None:
    """Connections above the file limit are accepted after others are closed."""
    import socket
    import time

    command = (
        f"ulimit -n 64 && exec {sys.executable} -m spark_kafka_sink broker --port 0 --topic t:1"
    )
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            ["/bin/bash", "-c", command], stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        try:
            host, port = next_line(process).split()[-1].rsplit(":", 1)
            with ExitStack() as stack:
                for _ in range(100):
                    stack.enter_context(socket.create_connection((host, int(port)), 20))
                wait_until(lambda: "cannot accept" in log.read_text())
                time.sleep(1)  # for a second warning, which must not come
                warnings = re.findall("cannot accept", log.read_text())
                assert len(warnings) == 1, log.read_text()
            producer = Producer({"bootstrap.servers": f"{host}:{port}"})
            producer.produce("t", b"v")
            assert producer.flush(60) == 0, "the broker continues when files are available"
        finally:
            process.kill()
