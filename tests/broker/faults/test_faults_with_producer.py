"""The producer with many faults and restarts: no loss, no duplicates, records in order."""

import threading
import time
from typing import Any

import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.broker.support.inspection import log_in
from tests.support.producer_writes import numbered, session

PARTITIONS = 4
ROWS = 40
CHUNKS = 40
QUICK = {
    "linger_ms": 1,
    "batch_size": 1000,
    "request_timeout_ms": 400,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "delivery_timeout_ms": 30_000,
}


def cluster(**options: object) -> EmbeddedBroker:
    defaults: dict[str, Any] = {"nodes": 3, "topics": {"t": PARTITIONS}, "replication_factor": 3}
    return EmbeddedBroker(**(defaults | options))


def write(kafka: EmbeddedBroker, pause: float = 0.0, **options: object) -> DeliveryReport:
    with session(kafka.bootstrap_servers, **(QUICK | options)) as producer:
        append_all(producer, pause)
        producer.flush()
        return producer.report(TaskAttempt())


def append_all(producer: ProducerSession, pause: float = 0.0) -> None:
    for chunk in range(CHUNKS):
        producer.append(numbered("t", chunk * ROWS, ROWS, PARTITIONS))
        time.sleep(pause)


def values(kafka: EmbeddedBroker, partition: int) -> list[int]:
    def read(cluster: Cluster) -> list[int]:
        log = log_in(cluster, "t", partition)
        return [int(record.value or b"") for stored in log for record in decode_batch(stored.data)]

    return kafka.run(read)


def check(kafka: EmbeddedBroker, report: DeliveryReport) -> None:
    assert report.persisted == report.records == CHUNKS * ROWS
    for partition in range(PARTITIONS):
        assert values(kafka, partition) == list(range(partition, CHUNKS * ROWS, PARTITIONS))


@pytest.mark.parametrize("seed", range(6))
def test_many_faults_at_once(seed: int) -> None:
    faults = [
        f"produce:{what}:probability=0.06:seed={seed * 10 + number}"
        for number, what in enumerate(
            ("lose-response", "lose-request", "close", "cut=12", "move", "delay=30")
        )
    ]
    faults += [f"produce:error=NOT_ENOUGH_REPLICAS:probability=0.2:seed={seed}"]
    with cluster(faults=faults) as kafka:
        check(kafka, write(kafka, delivery_timeout_ms=120_000, pause=0.002))


def test_rolling_restarts_lose_and_repeat_nothing() -> None:
    with cluster(topic_configs={"t": {"min.insync.replicas": "2"}}) as kafka:
        check_during_restarts(kafka)
        assert kafka.partition_state("t", 0).leader_epoch > 0


def check_during_restarts(kafka: EmbeddedBroker) -> None:
    """Write while the nodes restart one after another, and check what was written."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: restart_all(kafka, done))
    thread.start()
    try:
        check(kafka, write(kafka, pause=0.03))
    finally:
        done.set()
        thread.join()


def restart_all(kafka: EmbeddedBroker, done: threading.Event) -> None:
    node = 0
    while not done.wait(0.15):
        node = node % 3 + 1
        kafka.stop_node(node)
        done.wait(0.1)
        kafka.start_node(node)


def test_lagging_followers_and_stopped_leaders() -> None:
    """Unacknowledged records are truncated and sent again."""
    with cluster(follower_lag_ms=30) as kafka:
        check_during_restarts(kafka)
