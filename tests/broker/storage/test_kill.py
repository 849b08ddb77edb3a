"""kill -9 while clients write: what was acknowledged is there, once, and producers go on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.clients.console import dump, dumped_batches
from tests.support.clients.readers import by_confluent
from tests.support.kafka.node import free_port

READY = "kafkaprod broker ready on"


class BrokerProcess:
    """`kafkaprod broker` on a data folder."""

    def __init__(self, folder, port):
        command = [sys.executable, "-m", "spark_kafka_sink.cli.main", "broker"]
        options = ["--port", str(port), "--data-dir", str(folder), "--topic", "t:2"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith(READY), line

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def started(tmp_path):
    """Starts brokers on one folder and port; kills what is left."""
    port, all_of_them = free_port(), []

    def start():
        all_of_them.append(BrokerProcess(tmp_path / "data", port))
        return all_of_them[-1]

    start.address = f"127.0.0.1:{port}"
    start.folder = tmp_path / "data"
    yield start
    for broker in all_of_them:
        broker.kill()


class Writer:
    """An idempotent librdkafka producer that writes numbers until it is told to stop."""

    def __init__(self, address):
        settings = {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 50,
            "reconnect.backoff.max.ms": 200,
        }
        self.producer = Producer(settings)
        self.acked, self.failed, self.sent = [], [], 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            for _ in range(100 if len(self.producer) < 2_000 else 0):
                value = str(self.sent).encode()
                self.producer.produce("t", value, partition=self.sent % 2, on_delivery=self._done)
                self.sent += 1
            self.producer.poll(0.002)

    def _done(self, error, message):
        (self.failed if error else self.acked).append((message.value(), message.offset()))

    def wait_for(self, acked):
        deadline = time.monotonic() + 30
        while len(self.acked) < acked and time.monotonic() < deadline:
            time.sleep(0.005)
        assert len(self.acked) >= acked

    def finish(self):
        self._stop.set()
        self._thread.join()
        assert self.producer.flush(60) == 0


def test_nothing_is_lost_or_doubled(started):
    broker = started()
    writer = Writer(started.address)
    for turn in range(1, 3):
        writer.wait_for(len(writer.acked) + 3000 * turn)
        broker.kill()
        broker = started()
    writer.finish()
    assert writer.failed == []
    found = {(one.partition, one.offset): one.value for one in by_confluent(started.address, "t")}
    assert Counter(found.values()) == Counter(str(n).encode() for n in range(writer.sent))
    for value, offset in writer.acked:
        assert found[int(value) % 2, offset] == value
    broker.kill()
    for partition in range(2):
        batches = dumped_batches(dump(started.folder / f"t-{partition}"))
        assert all(one.is_valid for one in batches)
        assert sum(one.count for one in batches) == len([k for k in found if k[0] == partition])


def test_committed_offsets_stay(started):
    broker = started()
    writer = Writer(started.address)
    writer.wait_for(500)
    settings = {"bootstrap.servers": started.address, "group.id": "g"}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("t", 1, 123)], asynchronous=False)
    consumer.close()
    broker.kill()
    started()
    writer.finish()
    consumer = Consumer(settings)
    (found,) = consumer.committed([TopicPartition("t", 1)], timeout=20)
    consumer.close()
    assert found.offset == 123
