"""The coordinator is killed and restarted during a write; the transaction continues."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from tests.integration.support.transactions import end, find_coordinator, settings, transaction
from tests.support.producer_writes import numbered
from tests.support.waiting import wait_until, wait_until_equal
from tools.support.kafka_cluster import Cluster, KafkaCluster
from tools.support.readers import by_confluent

ROWS, CHUNKS, PARTITIONS = 120, 60, 3


@pytest.fixture(scope="module")
def fragile_kafka() -> Iterator[KafkaCluster]:
    """Run one node that tests kill and restart."""
    with KafkaCluster() as kafka:
        yield kafka


class BackgroundWriter:
    """A task that writes numbers until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.settings = settings(120_000)
        self.running, self.enough = threading.Event(), threading.Event()
        self.rows = 0
        self._servers, self._topic = bootstrap_servers, topic

    def run(self) -> TransactionalProducer | None:
        """Write and leave the transaction open."""
        options = {"linger_ms": 5, "request_timeout_ms": 3_000}
        with transaction(self._servers, self.settings, None, **options) as producer:
            chunk = 0
            while chunk < CHUNKS or not self.enough.is_set():
                producer.append(numbered(self._topic, chunk * ROWS, ROWS, PARTITIONS))
                chunk += 1
                if chunk == CHUNKS // 3:
                    producer.flush()
                    self.running.set()
                time.sleep(0.02)
            producer.flush()
            self.rows = chunk * ROWS
            return producer.flush_transaction()


def kill_coordinator_while_writing(kafka: Cluster, topic: str, copies: int) -> None:
    """The writer has its own thread, as a node stops with the thread that started it."""
    kafka.admin.create_topic(topic, PARTITIONS, copies)
    writing = BackgroundWriter(kafka.bootstrap_servers, topic)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(writing.run)
        assert writing.running.wait(60)
        name = writing.settings.transactional_id
        node = find_coordinator(kafka.bootstrap_servers, name).node_id
        kafka.node(node).kill()
        if len(kafka.nodes) > 1:
            # The coordinator has moved.
            wait_until(lambda: node not in kafka.admin.broker_ids())
        kafka.restart(node)
        writing.enough.set()
        opened = written.result(180)
    end(kafka.bootstrap_servers, opened)
    expected = [n for first in range(PARTITIONS) for n in range(first, writing.rows, PARTITIONS)]

    def written_numbers() -> list[int]:
        records = by_confluent(kafka.bootstrap_servers, topic)
        return [int(record.value or b"-1") for record in records]

    wait_until_equal(written_numbers, expected)


def test_one_node_of_kafka_4(fragile_kafka: KafkaCluster, unique_topic: str) -> None:
    kill_coordinator_while_writing(fragile_kafka, unique_topic, 1)


@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_one_of_two_nodes_of_old_kafka(
    old_kafkas: dict[str, Cluster], unique_topic: str, release: str
) -> None:
    kill_coordinator_while_writing(old_kafkas[release], unique_topic, 2)
