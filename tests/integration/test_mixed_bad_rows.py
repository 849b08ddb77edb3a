"""Mixed bad rows: each row is written, a dead letter or dropped, exactly once."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from tests.integration.support.tolerant_writes import TOLERATE, batch, write_all
from tools.support.readers import by_confluent

LARGE = 5_000
TOPICS = ["a", "b", "unknown", "not/allowed", "secret", None]
PARTITIONS = [None, 0, 1, 2, -1]
HEADERS: list[Any] = [
    None,
    [],
    [{"key": "h", "value": None}],
    [{"key": None, "value": b"n"}],
    [{"key": "h", "value": b"H" * LARGE}],
]


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    refusals = "produce:topic=secret:error=TOPIC_AUTHORIZATION_FAILED"
    topics = {"a": 2, "b": 1, "secret": 2, "dead": 2}
    with EmbeddedBroker(nodes=2, topics=topics, faults=[refusals]) as broker:
        yield broker


def is_bad(row: tuple[Any, ...]) -> bool:
    value, topic, partition, headers = row
    count = {"a": 2, "b": 1}.get(topic)
    if count is None or (partition is not None and not 0 <= partition < count):
        return True
    entries = headers or []
    size = len(value) + sum(len(entry["value"] or b"") for entry in entries)
    return size > LARGE or any(entry["key"] is None for entry in entries)


def mixed(seed: int, count: int) -> list[tuple[Any, ...]]:
    random = Random(seed)
    return [
        (
            f"{seed}-{number:05}-" + "v" * random.choice([0, 10, LARGE]),
            random.choice(TOPICS),
            random.choice(PARTITIONS),
            random.choice(HEADERS),
        )
        for number in range(count)
    ]


SHAPES = {
    "many": lambda seed: [mixed(seed, 120), mixed(seed + 1000, 120)],
    "only bad": lambda seed: [[row for row in mixed(seed, 200) if is_bad(row)]],
    "only good": lambda seed: [[row for row in mixed(seed, 200) if not is_bad(row)]],
    "the last": lambda seed: [[*good_rows(seed), ("bad", "a", 99, None)]],
    "the first": lambda seed: [[("bad", None, None, None), *good_rows(seed)]],
    "empty": lambda seed: [[], mixed(seed, 50), []],
    "one by one": lambda seed: [[row] for row in mixed(seed, 25)],
}


def good_rows(seed: int) -> list[tuple[Any, ...]]:
    return [row for row in mixed(seed, 200) if not is_bad(row)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"errors.deadletterqueue.topic.name": "dead"},
        {},
        {
            "errors.deadletterqueue.topic.name": "dead",
            "errors.deadletterqueue.context.headers.enable": "false",
            "kafka.compression.type": "lz4",
        },
        {
            "errors.deadletterqueue.topic.name": "dead",
            "errors.breaker.failures": "2",
            "errors.breaker.retryPercent": "100",
        },
    ],
    ids=["letters", "dropped", "no context, lz4", "breaker"],
)
def test_each_row_has_one_outcome(
    kafka: EmbeddedBroker, shape: str, options: dict[str, str]
) -> None:
    chunks = SHAPES[shape](len(shape) + 10 * len(options))
    servers = kafka.bootstrap_servers
    report = write(servers, chunks, options)
    rows = [row for chunk in chunks for row in chunk]
    bad = [row for row in rows if is_bad(row)]
    keeps = "errors.deadletterqueue.topic.name" in options
    arrived = [
        (topic, record.value) for topic in ("a", "b") for record in by_confluent(servers, topic)
    ]
    good = [(row[1], row[0].encode()) for row in rows if not is_bad(row)]
    assert Counter(arrived) == Counter(good)
    assert sum(count.dead_lettered for count in report.poison) == (len(bad) if keeps else 0)
    assert sum(count.dropped for count in report.poison) == (0 if keeps else len(bad))
    assert len(by_confluent(servers, "dead")) == (len(bad) if keeps else 0)
    assert report.persisted == len(good) + (len(bad) if keeps else 0)


def write(
    servers: str, chunks: list[list[tuple[Any, ...]]], options: dict[str, str]
) -> DeliveryReport:
    empty = batch([("", "", None, None)]).slice(0, 0)
    settings = {
        "kafka.max.request.size": str(LARGE),
        "kafka.batch.size": "2000",
        "kafka.linger.ms": "0",
        "kafka.max.block.ms": "1000",
        "kafka.allow.auto.create.topics": "false",
    }
    batches = [batch(chunk) if chunk else empty for chunk in chunks]
    return write_all(servers, batches, {**settings, **TOLERATE, **options})
