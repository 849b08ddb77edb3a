"""Advice for reports of real sessions with bottlenecks."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import (
    borrow_session,
    discard_session,
    give_back_session,
)
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.integration.support.slow_link import slow_link
from tests.support.producer_writes import config, numbered, rows

DELAY_S = 0.02


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    topics = {"one": 1, "four": 4, "many": 32}
    with EmbeddedBroker(topics=topics) as kafka:
        yield kafka


def random_rows(topic: str, count: int, size: int = 1_000) -> Rows:
    """Return rows of random letters, which are expensive to compress."""
    letters = np.random.default_rng(0).integers(97, 113, count * size, np.uint8).tobytes()
    return rows(topic, [letters[at : at + size] for at in range(0, count * size, size)])


def write_session(
    kafka: EmbeddedBroker, *chunks: Rows, delay_s: float = 0.0, pause_s: float = 0.0, **options: Any
) -> DeliveryReport:
    """Write the chunks in one session and return its report."""
    with slow_link(kafka.bootstrap_servers, delay_s) as connect:
        client = ProducerClient(config(kafka.bootstrap_servers, options), connect=connect)
        session = ProducerSession(client)
        try:
            for chunk in chunks:
                session.append(chunk)
                time.sleep(pause_s)
            session.flush()
            return session.report(TaskAttempt())
        finally:
            session.close()
            client.close()


def advice_of(report: DeliveryReport) -> dict[tuple[str, Direction], Advice]:
    return {(advice.setting, advice.direction): advice for advice in advise(report)}


def test_no_advice_for_a_healthy_write(broker: EmbeddedBroker) -> None:
    report = write_session(broker, *[random_rows("four", 2_000)] * 10, pause_s=0.05)
    assert advise(report) == []


def test_small_requests_with_high_latency(broker: EmbeddedBroker) -> None:
    narrow: dict[str, Any] = {"max_in_flight_requests_per_connection": 1, "batch_size": 16_384}
    report = write_session(broker, *[random_rows("one", 1_000)] * 2, delay_s=DELAY_S, **narrow)
    by_setting = advice_of(report)
    advice = by_setting["max.in.flight.requests.per.connection", Direction.RAISE]
    assert report.request_latency.percentile(50) >= 2 * DELAY_S * 1e6
    assert "1 request of" in advice.evidence


def test_full_buffer_is_advised_to_grow(broker: EmbeddedBroker) -> None:
    small: dict[str, Any] = {"batch_size": 65_536, "buffer_memory": 262_144}
    report = write_session(broker, *[random_rows("one", 1_000)] * 4, delay_s=DELAY_S, **small)
    assert report.metrics.buffer_waits > 3
    assert ("buffer.memory", Direction.CHECK) in advice_of(report)


def test_buffer_smaller_than_a_batch_per_partition(broker: EmbeddedBroker) -> None:
    keyed = [random_rows("many", 2_000, 500)] * 8
    spread = [
        rows("many", chunk.columns.value.to_pylist(), partitions=[n % 32 for n in range(2_000)])
        for chunk in keyed
    ]
    report = write_session(broker, *spread, buffer_memory=4_194_304, linger_ms=5_000)
    advice = advice_of(report)["buffer.memory", Direction.RAISE]
    assert "32 partitions x batch.size 1,048,576 = 33,554,432 bytes" in advice.evidence
    assert report.metrics.closed_memory > 0


def test_tiny_tasks_are_advised_to_be_fewer(broker: EmbeddedBroker) -> None:
    settings = config(broker.bootstrap_servers, {"linger_ms": 0})
    reports = []
    for number in range(30):
        session = borrow_session(settings)
        session.append(numbered("one", number, 3, 1))
        session.flush()
        reports.append(session.report(TaskAttempt(partition_id=number)))
        give_back_session(session)
    discard_session(borrow_session(settings))
    advice = advice_of(DeliveryReport.merge_all(reports))["the number of tasks", Direction.LOWER]
    assert "30 tasks" in advice.evidence
