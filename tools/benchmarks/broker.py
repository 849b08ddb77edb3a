"""Benchmark the embedded broker: throughput per core.

`python -m tools.benchmarks.broker` starts the broker as a process whose log is in a temporary
folder on disk. The broker verifies CRCs, and the producers send with acks=all and idempotence.
Rates per core are records divided by the CPU seconds of the broker's process (user and system). The
wall rate is also affected by the CPU use of the producers, which run on the same machine. The
cheapest producer sends pre-built requests, with five in flight on one connection, in batches of
9,000 records.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psutil
from rich.console import Console

from spark_kafka_sink.protocol.messages import build, request_frame
from spark_kafka_sink.protocol.versions import ApiKey, request_type
from spark_kafka_sink.records.record_batch import BatchHeader
from spark_kafka_sink.records.varint import varint
from tools.benchmarks.core.contestants import CONTESTANTS, LIBRDKAFKA, OURS, RANDOM, Contestant
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import lines_file
from tools.benchmarks.processes import peak_mib, python
from tools.benchmarks.results import Table
from tools.support.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


BATCH = 9_000
IN_FLIGHT = 5
_VERSION = 9
TIMEOUT = timedelta(seconds=30)


def batch(values: list[bytes]) -> bytes:
    """Return a batch of records without keys, timestamped with the current time."""
    records = b"".join(_record(delta, value) for delta, value in enumerate(values))
    now = int(time.time() * 1000)
    header = BatchHeader(
        last_offset_delta=len(values) - 1,
        base_timestamp=now,
        max_timestamp=now,
        record_count=len(values),
    )
    return header.pack([records]) + records


def _record(delta: int, value: bytes) -> bytes:
    body = b"\0\0" + varint(delta) + varint(-1) + varint(len(value)) + value + b"\0"
    return varint(len(body)) + body


def frame(topic: str, records: bytes, partition: int = 0) -> bytes:
    """Return a Produce request with acks=all, including its size field."""
    data = {"name": topic, "partition_data": [{"index": partition, "records": records}]}
    values = {"acks": -1, "timeout": TIMEOUT, "topic_data": [data]}
    return request_frame(build(request_type(ApiKey.PRODUCE, _VERSION), values), 7, "raw")


class Connection:
    """A socket that keeps several requests in flight."""

    def __init__(self, address: str) -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 60)
        self._waiting = 0

    def call(self, request: bytes, in_flight: int = 1) -> None:
        """Send a frame, and read responses until fewer than `in_flight` requests are open."""
        self._socket.sendall(request)
        self._waiting += 1
        while self._waiting >= in_flight:
            self._answer()

    def drain(self) -> None:
        """Wait for all outstanding responses."""
        while self._waiting:
            self._answer()

    def _answer(self) -> None:
        self._exactly(int.from_bytes(self._exactly(4), "big"))
        self._waiting -= 1

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data


def run(job: Job) -> Mapping[str, float]:
    """Create the topic, warm up, send, and measure until the last response arrives."""
    values = job.payload.read_bytes().split(b"\n")[:BATCH]
    request = frame(job.topic, batch(values))
    connection = Connection(job.bootstrap_servers)
    for _ in range(job.warmup // BATCH):
        connection.call(request, IN_FLIGHT)
    connection.drain()
    started, used, rounds = time.perf_counter(), time.process_time(), job.records // BATCH
    for _ in range(rounds):
        connection.call(request, IN_FLIGHT)
    connection.drain()
    return {
        "records": rounds * BATCH,
        "seconds": time.perf_counter() - started,
        "cpu_s": time.process_time() - used,
        "peak_mib": peak_mib(),
    }


VALUE_BYTES = 100
PARTITIONS = 4
RAW = "raw requests"
READY = "kafkaprod broker ready on"


@contextmanager
def broker(folder: str) -> Iterator[tuple[psutil.Process, str]]:
    """Start a broker whose log is in `folder`, and yield its process and address."""
    command = python("spark_kafka_sink.cli.main", "broker", "--port", "0", "--data-dir", folder)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(READY):
                raise RuntimeError(f"the broker printed {line!r}")
            yield psutil.Process(process.pid), line.split()[-1]
        finally:
            process.kill()


def contestants() -> list[Contestant]:
    """Return the producers to compare: pre-built requests, this sink's, and librdkafka (1 MiB
    batches).
    """
    chosen = [one for one in CONTESTANTS if one.name in {OURS, LIBRDKAFKA}]
    raw = Contestant(
        name=RAW, command=lambda job: python("tools.benchmarks.broker", "--raw", job.to_json())
    )
    return [raw, *chosen]


def measure(contestant: Contestant, records: int) -> tuple[str, ...]:
    """Measure one producer against a fresh broker, and return a row of the table."""
    with tempfile.TemporaryDirectory() as folder, broker(folder) as (process, address):
        job = Job(
            bootstrap_servers=address,
            topic="bench",
            payload=lines_file(RANDOM),
            warmup=records // 10,
            records=records,
            options=contestant.options,
        )
        Admin(address).create_topic(job.topic, PARTITIONS)
        before = sum(process.cpu_times()[:2])
        rate = contestant.run(job).rate
        per_core = (job.warmup + records) / (sum(process.cpu_times()[:2]) - before)
    rates = ((each / 1e6, each * VALUE_BYTES / 1e6) for each in (rate, per_core))
    return contestant.name, *(
        cell for million, mb in rates for cell in (f"{million:.2f}", f"{mb:.0f}")
    )


def main() -> None:
    """Measure every producer and print the table. With `--raw`, send the pre-built requests."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.broker", description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--raw", type=Job.from_json, metavar="JOB", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.raw:
        sys.stdout.write(json.dumps(run(arguments.raw)) + "\n")
        return
    title = f"Embedded broker, {VALUE_BYTES}-byte values, log on disk"
    columns = ("producer", "M rec/s", "MB/s", "per core: M rec/s", "MB/s")
    table = Table(title, columns, [measure(each, arguments.records) for each in contestants()])
    Console(file=sys.stdout, width=100).print(table.rich())


if __name__ == "__main__":
    main()
