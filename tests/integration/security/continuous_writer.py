"""Write numbers continuously while a test changes the cluster."""

import time
from collections.abc import Callable

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import numbered, session
from tests.support.security.client_configs import ClientConfig, Secured

CHUNK = 500


def write_until(
    kafka: Secured, client: ClientConfig, topic: str, is_over: Callable[[], bool]
) -> int:
    """Write chunks of 500 rows to three partitions until `is_over` and return the number of rows.

    Write at least one chunk. A short linger ensures that there are always requests in flight.
    """
    return report_until(kafka, client, topic, is_over).records


def report_until(
    kafka: Secured, client: ClientConfig, topic: str, is_over: Callable[[], bool]
) -> DeliveryReport:
    """Write like `write_until` and return the delivery report."""
    written = 0
    options = {**client.java_options(kafka), "linger.ms": "5"}
    with session(kafka.servers(client.listener), **options) as producer:
        while not written or not is_over():
            producer.append(numbered(topic, written, CHUNK, 3))
            written += CHUNK
            time.sleep(0.02)
        producer.flush()
        return producer.report(TaskAttempt())


def for_seconds(seconds: float) -> Callable[[], bool]:
    """Return a function that returns True after `seconds`."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end
