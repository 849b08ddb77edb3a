"""kill -9 during writes: acknowledged records exist exactly once, and producers continue."""

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.broker.support.inspection import next_line
from tests.support.readers import dump, dumped_batches
from tests.support.waiting import wait_until
from tools.support.kafka_node import free_port
from tools.support.readers import by_confluent

READY = "kafkaprod broker ready on"


class BrokerProcess:
    """A `kafkaprod broker` process with a data folder."""

    def __init__(self, folder: Path, port: int) -> None:
        command = [sys.executable, "-m", "spark_kafka_sink", "broker"]
        options = ["--port", str(port), "--data-dir", str(folder), "--topic", "t:2"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        line = next_line(self.process)
        assert line.startswith(READY), line

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass(frozen=True, slots=True)
class StartBroker:
    """Starts brokers with the same address and folder."""

    address: str
    folder: Path
    start: Callable[[], BrokerProcess]

    def __call__(self) -> BrokerProcess:
        return self.start()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Yield a function that starts brokers on one folder and port; kill them afterwards."""
    port = free_port()
    all_of_them: list[BrokerProcess] = []

    def start() -> BrokerProcess:
        all_of_them.append(BrokerProcess(tmp_path / "data", port))
        return all_of_them[-1]

    yield StartBroker(f"127.0.0.1:{port}", tmp_path / "data", start)
    for broker in all_of_them:
        broker.kill()


class Writer:
    """An idempotent librdkafka producer that writes numbers until it is stopped."""

    def __init__(self, address: str) -> None:
        settings = {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 50,
            "reconnect.backoff.max.ms": 200,
        }
        self.producer = Producer(settings)
        self.acked: list[Any] = []
        self.failed: list[Any] = []
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(100 if len(self.producer) < 2_000 else 0):
                value = str(self.sent).encode()
                self.producer.produce("t", value, partition=self.sent % 2, on_delivery=self._done)
                self.sent += 1
            self.producer.poll(0.002)

    def _done(self, error: KafkaError | None, message: Message) -> None:
        (self.failed if error else self.acked).append((message.value(), message.offset()))

    def wait_for(self, acked: int) -> None:
        wait_until(lambda: len(self.acked) >= acked)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self.producer.flush(60) == 0


def test_no_loss_or_duplicates(start_broker: StartBroker) -> None:
    broker = start_broker()
    writer = Writer(start_broker.address)
    for turn in range(1, 3):
        writer.wait_for(len(writer.acked) + 3000 * turn)
        broker.kill()
        broker = start_broker()
    writer.finish()
    assert writer.failed == []
    values = {
        (record.partition, record.offset): record.value
        for record in by_confluent(start_broker.address, "t")
    }
    assert Counter(values.values()) == Counter(str(n).encode() for n in range(writer.sent))
    for value, offset in writer.acked:
        assert values[int(value) % 2, offset] == value
    broker.kill()
    for partition in range(2):
        batches = dumped_batches(dump(start_broker.folder / f"t-{partition}"))
        assert all(batch.is_valid for batch in batches)
        assert sum(batch.count for batch in batches) == len(
            [k for k in values if k[0] == partition]
        )


def test_committed_offsets_persist(start_broker: StartBroker) -> None:
    broker = start_broker()
    writer = Writer(start_broker.address)
    writer.wait_for(500)
    settings = {"bootstrap.servers": start_broker.address, "group.id": "g"}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("t", 1, 123)], asynchronous=False)
    consumer.close()
    broker.kill()
    start_broker()
    writer.finish()
    consumer = Consumer(settings)
    (committed,) = consumer.committed([TopicPartition("t", 1)], timeout=20)
    consumer.close()
    assert committed.offset == 123
