"""The rows of one task that meet in one partition lie there in their order, on real brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.integration.producing import produce, rows
from tests.kafka.admin import Admin
from tests.kafka.readers import by_confluent

if TYPE_CHECKING:
    from spark_kafka_sink.broker import EmbeddedBroker
    from spark_kafka_sink.producer.rows import Rows
    from tests.kafka.broker import KafkaCluster

ROWS = 3_000
KEYS = [b"a", b"bb", b"ccc", b"dddd", b""]


def numbered(topic: str, numbers: range, kind: str, partitions: int) -> Rows:
    """Rows whose values are their numbers; `kind` says what every second one has."""
    values = [b"%06d" % number + b"." * (number % 50) for number in numbers]
    odd = [number % 2 == 1 for number in numbers]
    if kind == "key":
        keys = [KEYS[number % 5] if it else None for number, it in zip(numbers, odd, strict=True)]
        return rows(topic, values, keys=keys)
    if kind == "partition":
        asked = [n * 7 % partitions if it else None for n, it in zip(numbers, odd, strict=True)]
        return rows(topic, values, partitions=asked)
    return rows(topic, values)


@pytest.mark.parametrize("partitions", [1, 8])
@pytest.mark.parametrize(
    "kinds",
    [["key"], ["partition"], ["nothing", "key"], ["key", "nothing", "nothing", "partition"]],
    ids="-".join,
)
def test_rows_with_and_without_a_key_keep_their_order(
    any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str, partitions: int, kinds: list[str]
) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, partitions)
    step = ROWS // 20
    chunks = [
        numbered(unique_topic, range(first, first + step), kinds[turn % len(kinds)], partitions)
        for turn, first in enumerate(range(0, ROWS, step))
    ]
    produce(any_kafka.bootstrap_servers, *chunks, batch_size=4_000)
    logs: dict[int, list[int]] = {number: [] for number in range(partitions)}
    for record in by_confluent(any_kafka.bootstrap_servers, unique_topic):
        logs[record.partition].append(int((record.value or b"")[:6]))
    assert sum(map(len, logs.values())) == ROWS
    assert all(found == sorted(found) for found in logs.values())
    assert partitions == 1 or sum(map(bool, logs.values())) > 1
    assert np.unique(np.concatenate(list(logs.values()))).size == ROWS
