"""Write with a producer session, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict, Unpack, cast

import pyarrow as pa

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import (
    borrow_session,
    discard_session,
    give_back_session,
)
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tools.support.readers import Headers

HEADER_TYPE = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def config(bootstrap_servers: str, options: dict[str, Any]) -> ProducerConfig:
    """Return a configuration; options have Kafka's names with underscores instead of dots."""
    named = {f"kafka.{name.replace('_', '.')}": str(value) for name, value in options.items()}
    return ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers, **named})


@contextmanager
def session(bootstrap_servers: str, **options: Any) -> Iterator[ProducerSession]:
    """Open a producer session with its own client."""
    producer = ProducerSession(ProducerClient(config(bootstrap_servers, options)))
    try:
        yield producer
    finally:
        discard_session(producer)


def produce(bootstrap_servers: str, *chunks: Rows, **options: Any) -> DeliveryReport:
    """Write the chunks in one session and return its report."""
    with session(bootstrap_servers, **options) as producer:
        for chunk in chunks:
            producer.append(chunk)
        producer.flush()
        return producer.report(TaskAttempt())


def write_task(bootstrap_servers: str, *chunks: Rows, **options: Any) -> DeliveryReport:
    """Write the chunks like one Spark task, with a client that later tasks reuse."""
    producer = borrow_session(config(bootstrap_servers, options))
    try:
        for chunk in chunks:
            producer.append(chunk)
        producer.flush()
    except BaseException:
        discard_session(producer)
        raise
    report = producer.report(TaskAttempt())
    give_back_session(producer)
    return report


class RowColumns(TypedDict, total=False):
    """Optional columns, with one entry per row."""

    keys: Sequence[bytes | None]
    headers: Sequence[Headers]
    timestamps: Sequence[int]
    partitions: Sequence[int | None]


def rows(topic: str, values: Sequence[bytes | None], **columns: Unpack[RowColumns]) -> Rows:
    """Return rows for one topic."""
    keys, headers = columns.get("keys"), columns.get("headers")
    stamps, partitions = columns.get("timestamps"), columns.get("partitions")
    return Rows(
        columns=Columns(
            value=pa.array(values, pa.binary()),
            key=None if keys is None else pa.array(keys, pa.binary()),
            headers=None if headers is None else encode_headers(_header_column(headers)),
            timestamps=None if stamps is None else pa.array(stamps, pa.int64()).to_numpy(),
        ),
        topics=(topic,),
        partition=None if partitions is None else pa.array(partitions, pa.int32()),
    )


def numbered(topic: str, first: int, count: int, partitions: int) -> Rows:
    """Return `count` rows with consecutive numbers, distributed round-robin over partitions."""
    numbers = range(first, first + count)
    return rows(
        topic,
        [b"%d" % number for number in numbers],
        partitions=[number % partitions for number in numbers],
    )


def _header_column(headers: Sequence[Headers]) -> pa.ListArray[Any]:
    entries = [
        [{"key": key.encode(), "value": value} for key, value in row] or None for row in headers
    ]
    return cast("pa.ListArray[Any]", pa.array(entries, HEADER_TYPE))
