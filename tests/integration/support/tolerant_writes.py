"""Write rows with error tolerance, like a task, without Spark."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.producer.session_pool import borrow_session, discard_session
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.spark.rows.rows_from_arrow import read_rows
from tests.support.column_roles import column_roles
from tests.support.producer_writes import rows
from tools.support.readers import ForeignRecord

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TOLERATE = {"errors.tolerance": "all"}


def batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Return an Arrow batch of rows (value, topic, partition, headers)."""
    value, topic, partition, headers = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(value, pa.string()),
            pa.array(topic, pa.string()),
            pa.array(partition, pa.int32()),
            pa.array(headers, HEADERS),
        ],
        names=["value", "topic", "partition", "headers"],
    )


def write(
    bootstrap_servers: str, record_batch: pa.RecordBatch, options: dict[str, str]
) -> DeliveryReport:
    return write_all(bootstrap_servers, [record_batch], options)


def write_all(
    bootstrap_servers: str, record_batches: Sequence[pa.RecordBatch], options: dict[str, str]
) -> DeliveryReport:
    """Write Arrow batches in one session and return the report."""
    config = SinkConfig.parse({"kafka.bootstrap.servers": bootstrap_servers, **options})
    is_tolerant = config.dead_letters.is_tolerant
    roles = column_roles(topic=1, partition=2, headers=3, is_tolerant=is_tolerant)
    session = borrow_session(
        config.producer,
        SessionSettings(
            dead_letters=config.dead_letters, throttling=config.throttling, task_number=7
        ),
    )
    try:
        for record_batch in record_batches:
            session.append(read_rows(record_batch, roles, SystemClock()))
        session.flush()
        return session.report(TaskAttempt())
    finally:
        discard_session(session)


def write_keyed(
    servers: str, topic: str, keys: list[bytes | None], options: dict[str, str]
) -> DeliveryReport:
    """Write the same rows with keys three times, each time as a separate batch."""
    config = SinkConfig.parse(
        {"kafka.bootstrap.servers": servers, "kafka.linger.ms": "0", **options}
    )
    values = [b"v%d" % row for row in range(len(keys))]
    session = borrow_session(config.producer, SessionSettings(dead_letters=config.dead_letters))
    try:
        for _ in range(3):
            session.append(rows(topic, values, keys=keys))
        session.flush()
        return session.report(TaskAttempt())
    finally:
        discard_session(session)


def context(record: ForeignRecord, name: str) -> bytes | None:
    return dict(record.headers)[f"__connect.errors.{name}"]
