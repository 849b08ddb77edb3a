"""A producer that writes numbers on and on, while something happens, and what is in the topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_kafka_sink.report.task_report import TaskInfo
from tests.integration.support.producing import numbered, session
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink import DeliveryReport
    from tests.support.security.doors import Door, Secured
    from tools.support.kafka_cluster import Cluster

CHUNK = 500


def write_until(kafka: Secured, door: Door, topic: str, is_over: Callable[[], bool]) -> int:
    """Write chunks of 500 rows, three partitions in turn, until `is_over`, at least one; how many.

    Rows are pushed out soon, so that requests are always under way.
    """
    return report_until(kafka, door, topic, is_over).records


def report_until(
    kafka: Secured, door: Door, topic: str, is_over: Callable[[], bool]
) -> DeliveryReport:
    """As `write_until`; what the producer says of it."""
    written = 0
    options = {**door.java_options(kafka), "linger.ms": "5"}
    with session(kafka.servers(door.listener), **options) as producer:
        while not written or not is_over():
            producer.append(numbered(topic, written, CHUNK, 3))
            written += CHUNK
            time.sleep(0.02)
        producer.flush()
        return producer.report(TaskInfo())


def for_seconds(seconds: float) -> Callable[[], bool]:
    """Over when they have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def numbers(kafka: Cluster, topic: str) -> list[int]:
    """What a foreign reader finds, who comes by the listener that asks nobody; sorted."""
    found = by_confluent(kafka.bootstrap_servers, topic)
    return sorted(int(record.value or b"-1") for record in found)
