"""The broker serves other clients regardless of what a client sends."""

import contextlib
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.handlers.served_apis import HANDLERS
from spark_kafka_sink.kafka.protocol.frame import MAX_FRAME
from spark_kafka_sink.kafka.protocol.messages import build
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type
from tests.broker.support.inspection import next_line
from tests.support.entities import entities
from tests.support.waiting import wait_until, wait_until_equal
from tools.support.frames import request_frame
from tools.support.raw_client import RawClient, batch, fetch_values, produce, produce_values

FUZZ = settings(
    max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def still_serves(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    broker = request.getfixturevalue("shared")
    yield
    with RawClient(broker.bootstrap_servers) as client:
        assert produce(client, "t", batch(1)).error_code == 0
    errors = [r for r in caplog.get_records("call") if r.levelname == "ERROR"]
    assert [(r.getMessage(), r.exc_info) for r in errors] == []


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(broker.bootstrap_servers)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x02\x00\x00",
        b"\x00\x00\x00\x0a\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x0a\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x0a\x00\x03\x7f\xff\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x0d\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff\x00\xff\xff",
    ],
    ids=lambda data: data[:10].hex(),
)
def test_invalid_bytes_close_the_connection(shared: EmbeddedBroker, data: bytes) -> None:
    with connect(shared) as client:
        client.socket.sendall(data)
        assert client.closed()


def test_truncated_requests_write_nothing(shared: EmbeddedBroker) -> None:
    request = build(request_type(ApiKey.PRODUCE, 9), produce_values("t", bytes(batch(5))))
    frame = request_frame(request, 1, "half")
    for size in range(1, len(frame), 7):
        with connect(shared) as client:
            client.socket.sendall(frame[:size])
    assert produce_count(shared) == shared.end_offsets("t")[0]


def produce_count(broker: EmbeddedBroker) -> int:
    return sum(struct.unpack_from(">i", data, 57)[0] for data in broker.batches("t", 0))


def test_many_short_connections(shared: EmbeddedBroker) -> None:
    for _ in range(5):
        opened = [connect(shared) for _ in range(100)]
        for client in opened[::2]:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for client in opened:
            client.socket.close()
    wait_until(lambda: not shared.open_connections)


def test_clients_disconnect_while_waiting(shared: EmbeddedBroker) -> None:
    waiting = [connect(shared) for _ in range(20)]
    end = shared.end_offsets("t")[0]
    for client in waiting:
        client.send(ApiKey.FETCH, 11, **fetch_values("t", end, max_wait=timedelta(minutes=5)))
    await_waiting(shared, 20)
    for client in waiting:
        client.socket.close()
    with connect(shared) as client:
        produce(client, "t", batch(1))
    await_waiting(shared, 0)


def await_waiting(kafka: EmbeddedBroker, count: int) -> None:
    """Block until `count` requests are waiting."""
    wait_until_equal(lambda: kafka.run(lambda cluster: len(cluster.purgatory)), count)


@FUZZ
@given(data=st.data())
def test_requests_with_random_fields(shared: EmbeddedBroker, data: st.DataObject) -> None:
    """The broker responds to valid frames with random fields, or closes the connection."""
    handler = data.draw(st.sampled_from(sorted(HANDLERS.values(), key=lambda h: h.api)))
    version = data.draw(st.integers(handler.versions.lowest, handler.versions.highest))
    request = data.draw(entities(request_type(handler.api, version)))
    with connect(shared) as client:
        client.socket.sendall(request_frame(request, 1, "fuzz"))
        client.socket.settimeout(0.02)
        with contextlib.suppress(OSError):
            client.socket.recv(1)


def memory_of(process: subprocess.Popen[str]) -> float:
    size: float = psutil.Process(process.pid).memory_info().rss / (1 << 20)
    return size


@pytest.fixture
def broker_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a broker in a subprocess, to measure its memory; yield its address."""
    command = [sys.executable, "-m", "spark_kafka_sink", "broker", "--port", "0"]
    with subprocess.Popen([*command, "--topic", "t"], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = next_line(process).split()[-1]
            with RawClient(address) as client:
                assert produce(client, "t", batch(1)).error_code == 0
            yield process, address
            with RawClient(address) as client:
                assert produce(client, "t", batch(1)).error_code == 0
        finally:
            process.kill()


def test_huge_frame_sizes_use_no_memory(broker_process: tuple[subprocess.Popen[str], str]) -> None:
    """Many clients announce a frame of the maximum size and send nothing."""
    process, address = broker_process
    before = memory_of(process)
    opened = [RawClient(address) for _ in range(300)]
    for client in opened:
        client.socket.sendall(struct.pack(">i", MAX_FRAME) + b"\0" * 1000)
    time.sleep(0.5)  # for the broker to read all bytes: nothing shows that it has
    assert memory_of(process) - before < 60
    for client in opened:
        client.socket.close()
    for size in (MAX_FRAME + 1, 2**31 - 1, -1, -(2**31)):
        with RawClient(address) as client:
            client.socket.sendall(struct.pack(">i", size))
            assert client.closed()


def test_disconnected_readers_use_no_memory(
    broker_process: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = broker_process
    before = memory_of(process)
    for _ in range(20):
        opened = [RawClient(address) for _ in range(100)]
        for client in opened:
            client.send(ApiKey.FETCH, 11, **fetch_values("t", 1, max_wait=timedelta(hours=20)))
        for client in opened:
            client.socket.close()
    assert memory_of(process) - before < 30


def test_megabytes_of_random_bytes(broker_process: tuple[subprocess.Popen[str], str]) -> None:
    process, address = broker_process
    before = memory_of(process)
    generator = random.Random(3)
    for _ in range(60):
        with RawClient(address) as client, contextlib.suppress(OSError):
            client.socket.sendall(generator.randbytes(1 << 20))
    assert memory_of(process) - before < 60
