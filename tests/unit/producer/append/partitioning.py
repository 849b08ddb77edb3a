"""Rows, and the partitions that a partitioner assigns to them."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.append.partitioner import Partitioner
from spark_kafka_sink.producer.append.route import Route
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.offline import config, topic


def rows(
    count: int,
    keys: Sequence[bytes | None] | None = None,
    partitions: Sequence[int | None] | None = None,
    topic_indexes: list[int] | None = None,
) -> Rows:
    return Rows(
        columns=Columns(
            value=pa.array([b"v"] * count, pa.binary()),
            key=None if keys is None else pa.array(keys, pa.binary()),
        ),
        topics=("a", "b", "c"),
        topic_indexes=None if topic_indexes is None else np.array(topic_indexes, np.int32),
        partition=None if partitions is None else pa.array(partitions, pa.int32()),
    )


def assign(chunk: Rows, counts: tuple[int, ...] = (7,), **options: object) -> Route:
    return partitioner(**options).assign(chunk, topics(*counts))


def partitioner(**options: object) -> Partitioner:
    return Partitioner(config(**options), Random(3))


def topics(*counts: int) -> tuple[ClusterTopic, ...]:
    return tuple(topic(name, count) for name, count in zip("abc", counts, strict=False))


def targets_of(route: Route) -> list[tuple[str, int]]:
    targets = [route.target(int(number)) for number in route.targets]
    return [(info.name, partition) for info, partition in targets]


def partitions(route: Route) -> list[int]:
    return [partition for _, partition in targets_of(route)]
