"""Quotas of a real Kafka: throttled records are delivered and reported as throttled."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import pytest

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import rows, session
from tools.support.java import run_tool
from tools.support.kafka_cluster import KafkaCluster

RATE = 200_000
"""Bytes per second; Kafka allows bursts of ten seconds, which is less than one task writes."""
VALUES = [Random(number).randbytes(1_000) for number in range(2_500)]
TIGHT = {
    "request_timeout_ms": 2_000,
    "delivery_timeout_ms": 3_000,
    "max_block_ms": 1_000,
    "batch_size": 100_000,
}


def limit(kafka: KafkaCluster, client_id: str, **limits: int) -> None:
    """Set quotas of a client ID, with Kafka's names."""
    quotas = ",".join(f"{name}={value}" for name, value in limits.items())
    run_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", kafka.bootstrap_servers, "--alter", "--entity-type", "clients"),
        *("--entity-name", client_id, "--add-config", quotas),
    )


def write(kafka: KafkaCluster, topic: str, **options: Any) -> DeliveryReport:
    """Write all values and return the report."""
    with session(kafka.bootstrap_servers, **TIGHT | options) as producer:
        producer.append(rows(topic, VALUES))
        producer.flush()
        return producer.report(TaskAttempt())


def test_throttled_tasks_exceed_the_delivery_timeout(
    real_kafka: KafkaCluster, unique_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One task has all rows in the buffer; the other waits for buffer memory."""
    caplog.set_level(logging.WARNING, "spark_kafka_sink")
    real_kafka.admin.create_topic(unique_topic, 3)
    limit(real_kafka, unique_topic, producer_byte_rate=RATE)
    task = partial(write, real_kafka, unique_topic, client_id=unique_topic)
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(task, buffer_memory=size) for size in (64 << 20, 400_000)]
        reports = [task.result() for task in tasks]
    assert (time.monotonic() - started) * 1000 > TIGHT["delivery_timeout_ms"]
    for report in reports:
        assert (report.persisted, report.retries) == (len(VALUES), 0)
        assert report.throttle_ms > 0
        advice = advise(report)
        assert advice[0].setting == "the brokers' quota"
        assert "buffer.memory" not in {advised.setting for advised in advice}
    assert "no response" not in caplog.text
