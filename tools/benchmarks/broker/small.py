"""Produce requests of one record each: `python -m tools.benchmarks.broker.small [--records N]`.

Sixteen connections, each with one request under way to a partition of its own, acks=all: what a
broker is asked by many producers that do not wait for company. The embedded broker and a real
Kafka answer the same bytes.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from spark_kafka_sink.protocol.messages import build, request_frame
from spark_kafka_sink.protocol.versions import ApiKey, request_type
from tools.benchmarks.broker.measuring import broker
from tools.benchmarks.broker.raw import TIMEOUT, batch
from tools.support.admin import Admin
from tools.support.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Sequence

PRODUCERS = 16
TOPIC = "small"
_VERSION = 9
_VALUE = b"x" * 100


def frames() -> list[bytes]:
    """One request for each partition."""
    records = batch([_VALUE])
    kind = request_type(ApiKey.PRODUCE, _VERSION)
    return [
        request_frame(build(kind, _values(number, records)), 7, "small")
        for number in range(PRODUCERS)
    ]


def _values(partition: int, records: bytes) -> dict[str, object]:
    data = {"name": TOPIC, "partition_data": [{"index": partition, "records": records}]}
    return {"acks": -1, "timeout": TIMEOUT, "topic_data": [data]}


class Producers:
    """Sixteen sockets that send the same requests again and again."""

    def __init__(self, address: str, requests: Sequence[bytes]) -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._sockets = [socket.create_connection((host, int(port)), 60) for _ in requests]
        for number, client in enumerate(self._sockets):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(client, selectors.EVENT_READ, number)

    def send(self, count: int) -> float:
        """Send `count` requests, each connection its next one at an answer; return the seconds."""
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
        """Let go of the sockets."""
        self._selector.close()
        for client in self._sockets:
            client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a broker answered: requests a second, and its CPU microseconds for each."""

    broker: str
    rate: float
    cpu_us: float


def measure(name: str, address: str, process_id: int, count: int) -> Rate:
    """Make the topic, warm up, and measure."""
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


def main() -> None:
    """Measure both brokers and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.broker.small")
    parser.add_argument("--records", type=int, default=60_000)
    count = parser.parse_args().records
    with broker(None) as (process, address):
        rates = [measure("embedded, in memory", address, process.pid, count)]
    with KafkaCluster(heap_mib=512, java_options=()) as kafka:
        java = kafka.nodes[0].process
        assert java is not None
        rates.append(measure("Apache Kafka 4.3.1", kafka.bootstrap_servers, java.pid, count))
    table = Table(title=f"Produce requests of one record, {PRODUCERS} producers")
    for column in ("broker", "requests/s", "broker CPU us a request"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    for one in rates:
        table.add_row(one.broker, f"{one.rate:,.0f}", f"{one.cpu_us:.0f}")
    Console(file=sys.stdout, width=100).print(table)


if __name__ == "__main__":
    main()
