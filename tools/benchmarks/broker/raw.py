"""Produce requests that were built before: `python -m tools.benchmarks.broker.raw JOB`.

The cheapest producer there can be, so that the broker is what is measured. One partition, batches
of 9,000 records, one connection, five requests in flight, no idempotence.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from spark_kafka_sink.protocol.messages import build, request_frame
from spark_kafka_sink.protocol.versions import ApiKey, request_type
from spark_kafka_sink.records.record_batch import BatchHeader
from spark_kafka_sink.records.varint import varint
from tools.benchmarks.core.job import Job
from tools.benchmarks.processes import peak_mib

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH = 9_000
IN_FLIGHT = 5
_VERSION = 9
TIMEOUT = timedelta(seconds=30)


def batch(values: list[bytes]) -> bytes:
    """A batch of records without keys, all with the time of now."""
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


def frame(topic: str, records: bytes) -> bytes:
    """A Produce request with acks=all."""
    data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
    values = {"acks": -1, "timeout": TIMEOUT, "topic_data": [data]}
    return request_frame(build(request_type(ApiKey.PRODUCE, _VERSION), values), 7, "raw")


class Connection:
    """A socket that keeps some requests in flight."""

    def __init__(self, address: str) -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 60)
        self._waiting = 0

    def call(self, request: bytes, in_flight: int = 1) -> None:
        """Send; wait while as many answers as `in_flight` are due."""
        self._socket.sendall(request)
        self._waiting += 1
        while self._waiting >= in_flight:
            self._answer()

    def drain(self) -> None:
        """Wait for every answer."""
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
    """Make the topic, warm up, send, and measure until the last answer."""
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


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(Job.from_json(sys.argv[1]))) + "\n")
