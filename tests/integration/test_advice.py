"""No advice for a real session without bottlenecks; the rules are in `tests/unit/report/advice`."""

import time

import numpy as np

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import rows, session

ROWS, SIZE = 2_000, 1_000


def test_no_advice_for_a_healthy_write() -> None:
    """Random letters are expensive to compress."""
    letters = np.random.default_rng(0).integers(97, 113, ROWS * SIZE, np.uint8).tobytes()
    chunk = rows("t", [letters[at : at + SIZE] for at in range(0, ROWS * SIZE, SIZE)])
    with (
        EmbeddedBroker(topics={"t": 4}) as kafka,
        session(kafka.bootstrap_servers) as producer,
    ):
        for _ in range(10):
            producer.append(chunk)
            time.sleep(0.05)
        producer.flush()
        assert advise(producer.report(TaskAttempt())) == []
