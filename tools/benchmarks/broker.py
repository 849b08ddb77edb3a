"""Benchmark the embedded broker: throughput per core, and requests of one record each.

`python -m tools.benchmarks.broker` starts the broker as a process with its log on disk (a temporary
folder), verifies CRCs, and sends with acks=all and idempotence. Rates per core are records divided
by the CPU seconds of the broker's process, user and system; the wall rate includes the CPU of the
producers on the same machine. The cheapest producer sends pre-built requests, five at a time on one
connection, in batches of 9,000 records.

`--small` opens sixteen connections, each with one request in flight to its own partition, as many
producers without batching would. The embedded broker and a real Kafka receive the same bytes.
"""

from __future__ import annotations

import argparse
import json
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from spark_kafka_sink.protocol.messages import build, request_frame
from spark_kafka_sink.protocol.versions import ApiKey, request_type
from spark_kafka_sink.records.record_batch import BatchHeader
from spark_kafka_sink.records.varint import varint
from tools.benchmarks.core.contestants import CONTESTANTS, LIBRDKAFKA, OURS, RANDOM, Contestant
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import lines_file
from tools.benchmarks.processes import peak_mib, python
from tools.support.admin import Admin
from tools.support.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
    """Return a Produce request with acks=all, including its size prefix."""
    data = {"name": topic, "partition_data": [{"index": partition, "records": records}]}
    values = {"acks": -1, "timeout": TIMEOUT, "topic_data": [data]}
    return request_frame(build(request_type(ApiKey.PRODUCE, _VERSION), values), 7, "raw")


class Connection:
    """A socket that keeps some requests in flight."""

    def __init__(self, address: str) -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 60)
        self._waiting = 0

    def call(self, request: bytes, in_flight: int = 1) -> None:
        """Send a frame, then read responses until fewer than `in_flight` requests are open."""
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
    """Create the topic, warm up, send, and measure until the last response."""
    values = job.payload.read_bytes().split(b"\n")[:BATCH]
    request = frame(job.topic, batch(values))
    connection = Connection(job.bootstrap_servers)
    asked = {"topics": [{"name": job.topic}], "allow_auto_topic_creation": True}
    connection.call(request_frame(build(request_type(ApiKey.METADATA, 8), asked), 1, "raw"))
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
RAW = "raw requests"
READY = "kafkaprod broker ready on"
PARTITIONS = 4
MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Throughput and CPU use of the broker for one producer."""

    producer: str
    records: int
    wall_rate: float
    broker_cpu_s: float

    @property
    def per_core(self) -> float:
        """Records per CPU second of the broker."""
        return self.records / self.broker_cpu_s

    def cells(self) -> tuple[str, ...]:
        """Return a row of the table."""
        return (
            self.producer,
            f"{self.wall_rate / 1e6:.2f}",
            f"{self.wall_rate * VALUE_BYTES / MB:.0f}",
            f"{self.per_core / 1e6:.2f}",
            f"{self.per_core * VALUE_BYTES / MB:.0f}",
        )


@contextmanager
def broker(folder: str | None) -> Iterator[tuple[psutil.Process, str]]:
    """Start a broker on `folder`, or in memory, and yield its process and address."""
    options = ["--port", "0"] + (["--data-dir", folder] if folder else [])
    command = python("spark_kafka_sink.cli.main", "broker", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(READY):
                raise RuntimeError(f"the broker said {line!r}")
            yield psutil.Process(process.pid), line.split()[-1]
        finally:
            process.kill()


def contestants() -> list[Contestant]:
    """Return the producers to compare: pre-built requests, ours, and librdkafka (1 MiB batches)."""
    chosen = [one for one in CONTESTANTS if one.name in {OURS, LIBRDKAFKA}]
    raw = Contestant(
        name=RAW, command=lambda job: python("tools.benchmarks.broker", "--raw", job.to_json())
    )
    return [raw, *(replace(one) for one in chosen)]


def measure(contestant: Contestant, records: int, *, in_memory: bool) -> Taken:
    """Measure one producer against a fresh broker."""
    folder = None if in_memory else tempfile.mkdtemp(prefix="kafkaprod-bench-")
    try:
        with broker(folder) as (process, address):
            job = Job(
                bootstrap_servers=address,
                topic="bench",
                payload=lines_file(RANDOM),
                warmup=records // 10,
                records=records,
                options=contestant.options,
            )
            before = sum(process.cpu_times()[:2])
            sample = contestant.run(job)
            used = sum(process.cpu_times()[:2]) - before
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return Taken(
        producer=contestant.name,
        records=job.warmup + job.records,
        wall_rate=sample.rate,
        broker_cpu_s=used,
    )


PRODUCERS = 16
TOPIC = "small"
_VALUE = b"x" * 100


def frames() -> list[bytes]:
    """Return one request for each partition."""
    records = batch([_VALUE])
    return [frame(TOPIC, records, number) for number in range(PRODUCERS)]


class Producers:
    """Sixteen sockets that repeatedly send the same requests."""

    def __init__(self, address: str, requests: Sequence[bytes]) -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._sockets = [socket.create_connection((host, int(port)), 60) for _ in requests]
        for number, client in enumerate(self._sockets):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(client, selectors.EVENT_READ, number)

    def send(self, count: int) -> float:
        """Send `count` requests over all connections and return the elapsed seconds."""
        started, sent, answered = time.perf_counter(), len(self._sockets), 0
        for number in range(sent):
            self._sockets[number].sendall(self._requests[number])
        while answered < sent:
            for key, _ in self._selector.select():
                client = self._sockets[key.data]
                if not client.recv(4096):
                    raise ConnectionError("the broker closed a connection")
                answered += 1
                if sent < count:
                    client.sendall(self._requests[key.data])
                    sent += 1
        return time.perf_counter() - started

    def close(self) -> None:
        """Close the sockets."""
        self._selector.close()
        for client in self._sockets:
            client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Requests per second that a broker answered, and its CPU microseconds per request."""

    broker: str
    rate: float
    cpu_us: float


def measure_small(name: str, address: str, process_id: int, count: int) -> Rate:
    """Create the topic, warm up, and measure requests of one record each."""
    Admin(address).create_topic(TOPIC, partitions=PRODUCERS)
    process = psutil.Process(process_id)
    producers = Producers(address, frames())
    try:
        producers.send(count // 2)
        before = sum(process.cpu_times()[:2])
        seconds = producers.send(count)
    finally:
        producers.close()
    used = sum(process.cpu_times()[:2]) - before
    return Rate(broker=name, rate=count / seconds, cpu_us=used / count * 1e6)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.broker", description=__doc__)
    parser.add_argument("--memory", action="store_true", help="the log in memory, not on disk")
    parser.add_argument("--small", action="store_true", help="requests of one record each")
    parser.add_argument("--records", type=int, help="3,000,000, or 60,000 with --small")
    parser.add_argument("--raw", type=Job.from_json, metavar="JOB", help=argparse.SUPPRESS)
    return parser.parse_args()


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def _show_producers(records: int, *, in_memory: bool) -> None:
    where = "memory" if in_memory else "disk"
    table = _table(
        f"Embedded broker, {VALUE_BYTES}-byte values, log in {where}",
        *("producer", "M rec/s", "MB/s", "per core: M rec/s", "MB/s"),
    )
    for contestant in contestants():
        table.add_row(*measure(contestant, records, in_memory=in_memory).cells())
    Console(file=sys.stdout, width=100).print(table)


def _show_small(count: int) -> None:
    with broker(None) as (process, address):
        rates = [measure_small("embedded, in memory", address, process.pid, count)]
    with KafkaCluster(heap_mib=512, java_options=()) as kafka:
        java = kafka.nodes[0].process
        assert java is not None
        rates.append(measure_small("Apache Kafka 4.3.1", kafka.bootstrap_servers, java.pid, count))
    title = f"Produce requests of one record, {PRODUCERS} producers"
    table = _table(title, "broker", "requests/s", "broker CPU us a request")
    for rate in rates:
        table.add_row(rate.broker, f"{rate.rate:,.0f}", f"{rate.cpu_us:.0f}")
    Console(file=sys.stdout, width=100).print(table)


def main() -> None:
    """Measure every producer, or only small requests, and print the table."""
    arguments = _arguments()
    if arguments.raw:
        sys.stdout.write(json.dumps(run(arguments.raw)) + "\n")
    elif arguments.small:
        _show_small(arguments.records or 60_000)
    else:
        _show_producers(arguments.records or 3_000_000, in_memory=arguments.memory)


if __name__ == "__main__":
    main()
