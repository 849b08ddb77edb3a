"""Rows of one task keep their order within each partition, on real brokers.

If partitioning is deterministic, the partitions equal those of librdkafka.
"""

from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from tests.support.producer_writes import produce
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka
from tools.support.readers import by_confluent

ROWS = 3_000
COUNTS = (1, 3, 8)


class InputRow(NamedTuple):
    """A row; `topic` is the index of one of three topics with 1, 3 and 8 partitions."""

    topic: int
    partition: int | None
    key: bytes | None
    value: bytes
    timestamp: int


def mixed_rows(seed: int) -> list[InputRow]:
    random, now = Random(seed), SystemClock().wall_ms()
    input_rows = []
    for number in range(ROWS):
        topic = random.randrange(3)
        partition = random.choice([None, None, None, random.randrange(COUNTS[topic])])
        key = random.choice([None, None, b"", b"k%d" % random.randrange(5), random.randbytes(9)])
        stamp = now + random.choice([-1_000 * number, number, -random.randrange(10**7)])
        value = b"%06d" % number + b"." * random.randrange(300)
        input_rows.append(InputRow(topic, partition, key, value, stamp))
    return input_rows


def in_chunks(
    input_rows: list[InputRow], topics: tuple[str, ...], sizes: tuple[int, ...]
) -> list[Rows]:
    """Split the rows into chunks of these sizes, in rotation."""
    chunks, start, turn = [], 0, 0
    while start < len(input_rows):
        chunk = input_rows[start : start + sizes[turn % len(sizes)]]
        start, turn = start + len(chunk), turn + 1
        columns = Columns(
            value=pa.array([row.value for row in chunk], pa.binary()),
            key=pa.array([row.key for row in chunk], pa.binary()),
            timestamps=np.array([row.timestamp for row in chunk], np.int64),
        )
        topic_indexes = np.array([row.topic for row in chunk], np.int32)
        partition = pa.array([row.partition for row in chunk], pa.int32())
        chunks.append(
            Rows(columns=columns, topics=topics, topic_indexes=topic_indexes, partition=partition)
        )
    return chunks


def write_with_librdkafka(broker: str, input_rows: list[InputRow], topics: tuple[str, ...]) -> None:
    producer = Producer(
        {"bootstrap.servers": broker, "partitioner": "murmur2_random", "enable.idempotence": True}
    )
    for row in input_rows:
        location: dict[str, Any] = {} if row.partition is None else {"partition": row.partition}
        producer.produce(topics[row.topic], row.value, row.key, timestamp=row.timestamp, **location)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (1, {"batch_size": 2_000, "linger_ms": 0}),
        (2, {"compression_type": "lz4", "linger_ms": 100}),
        (3, {"partitioner_adaptive_partitioning_enable": "false", "compression_type": "zstd"}),
    ],
)
def test_same_partitions_as_librdkafka(
    any_kafka: AnyKafka, unique_topic: str, seed: int, options: dict[str, object]
) -> None:
    broker, input_rows = any_kafka.bootstrap_servers, mixed_rows(seed)
    ours, theirs = (tuple(f"{unique_topic}-{who}-{n}" for n in COUNTS) for who in ("us", "them"))
    for topic, count in zip(ours + theirs, COUNTS * 2, strict=True):
        Admin(broker).create_topic(topic, count)
    write_with_librdkafka(broker, input_rows, theirs)
    produce(broker, *in_chunks(input_rows, ours, (1, 300, 7, 90)), **options)
    for number, (our_topic, their_topic) in enumerate(zip(ours, theirs, strict=True)):
        sent = [row for row in input_rows if row.topic == number]
        actual, expected = by_confluent(broker, our_topic), by_confluent(broker, their_topic)
        values = [record.value for record in sorted(actual, key=lambda record: record.value or b"")]
        assert values == [row.value for row in sent]
        for records in (actual, expected):  # within a partition, offsets follow the rows' order
            assert records == sorted(records, key=lambda r: (r.partition, r.value or b""))
        locations = {record.value: record.partition for record in expected}
        rows_of = {row.value: row for row in sent}
        for record in actual:
            row = rows_of[record.value or b""]
            assert (record.key, record.timestamp) == (row.key, row.timestamp)
            if row.key is not None or row.partition is not None:
                assert record.partition == locations[record.value]
