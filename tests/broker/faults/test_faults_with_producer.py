"""The producer with every fault: no loss, no duplicates, records in order."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.broker.support.inspection import log_in
from tests.support.producer_writes import numbered, session
from tests.support.waiting import wait_until

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
RETRIABLE = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "KAFKA_STORAGE_ERROR",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_TOPIC_ID",
    "CORRUPT_MESSAGE",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
)
TEMPORARY = (
    *(f"produce:partition=1:error={error}:next=4" for error in RETRIABLE),
    "produce:error=NOT_LEADER_OR_FOLLOWER:probability=0.3:seed=4",
    "produce:partition=2:lose-request:next=2",
    "produce:lose-response:next=2",
    "produce:after=3:lose-response:next=1",
    "produce:cut=0:next=2",
    "produce:cut=10:next=3",
    "produce:cut=30:probability=0.2:seed=1:next=10",
    "produce:close:probability=0.3:seed=2:next=10",
    "produce:delay=50:probability=0.5:seed=3",
    "produce:delay=900:next=1",
    "produce:move:next=5",
    "produce:partition=0:move:probability=0.3:seed=5:next=10",
    "produce:throttle=40:probability=0.5:seed=6",
    "metadata:lose-response:next=1",
    "metadata:error=LEADER_NOT_AVAILABLE:next=2",
    "metadata:topic=t:partition=1:error=LEADER_NOT_AVAILABLE:next=1",
    "metadata:close:next=2",
    "api_versions:close:next=2",
    "api_versions:cut=7:next=1",
    "init_producer_id:error=COORDINATOR_LOAD_IN_PROGRESS:next=2",
    "init_producer_id:error=NOT_COORDINATOR:next=1",
    "init_producer_id:lose-response:next=1",
    "init_producer_id:close:next=2",
    "produce:after=3:stop=2:next=1",
    "produce:after=3:pause=3:next=1",
    "produce:clock=-60000:next=1",
    "produce:clock=60000:next=1",
    "produce:lag=60:next=1",
    "*:node=2:delay=30",
)
FATAL: dict[str, Callable[[dict[DeliveryStatus, int]], bool]] = {
    "produce:error=TOPIC_AUTHORIZATION_FAILED": lambda s: DeliveryStatus.NOT_PERSISTED in s,
    "produce:error=CLUSTER_AUTHORIZATION_FAILED": lambda s: DeliveryStatus.NOT_PERSISTED in s,
    "produce:error=UNKNOWN_SERVER_ERROR": lambda s: DeliveryStatus.POSSIBLY_PERSISTED in s,
    "produce:error=9999": lambda s: DeliveryStatus.POSSIBLY_PERSISTED in s,
    "produce:lose-response": lambda s: DeliveryStatus.POSSIBLY_PERSISTED in s,
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


@pytest.mark.parametrize("fault", TEMPORARY)
def test_temporary_fault_loses_and_repeats_nothing(fault: str) -> None:
    with cluster(faults=[fault], session_timeout_ms=300) as kafka:
        report = write(kafka, pause=0.002)
        check(kafka, report)
        assert all(armed.hits for armed in kafka.faults.armed), "the fault was not triggered"


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


def test_temporarily_not_enough_replicas() -> None:
    three = cluster(topic_configs={"t": {"min.insync.replicas": "3"}})
    with three as kafka, session(kafka.bootstrap_servers, **QUICK) as producer:
        kafka.stop_node(3)
        append_all(producer)
        wait_until(lambda: "NOT_ENOUGH_REPLICAS" in dict(producer.report(TaskAttempt()).errors))
        kafka.start_node(3)
        producer.flush()
        check(kafka, producer.report(TaskAttempt()))


def test_lost_producer_state() -> None:
    """A partition without producer state accepts the next sequence number."""
    with cluster(faults=["produce:partition=1:forget-producers:after=2:next=3"]) as kafka:
        check(kafka, write(kafka))


@pytest.mark.parametrize("fault", FATAL)
def test_fatal_fault_fails_the_write(fault: str) -> None:
    with cluster(faults=[fault]) as kafka, pytest.raises(DeliveryError) as caught:
        write(kafka, delivery_timeout_ms=1500)
    counts: dict[DeliveryStatus, int] = {}
    for status in caught.value.statuses:
        counts[status.status] = counts.get(status.status, 0) + status.records
    assert FATAL[fault](counts)
