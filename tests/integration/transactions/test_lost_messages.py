"""Lost requests and responses of a transaction cause no loss and no duplicates."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.integration.support.transactions import end, transaction
from tests.support.producer_writes import numbered
from tools.support.admin import Admin
from tools.support.readers import by_confluent

ROWS = 400
TIMEOUT_S = 60.0
STEPS = ("find-coordinator", "init-producer-id", "add-partitions-to-txn", "produce")
CLOSES = ("cut=5", "close")
EFFECTS = ("lose-request", "lose-response", *CLOSES)
FAILS_IF_CLOSED_TWICE = ("init-producer-id", "add-partitions-to-txn")
"""Requests that fail if the broker closes the connection on them twice in a row."""
ERRORS = {
    "find-coordinator": ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    "init-producer-id": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "add-partitions-to-txn": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "produce": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
}
RELEASES = {"V1": "3.9", "V2": "4.3"}
CASES = [
    (version, step, effect)
    for version in RELEASES
    for step in STEPS
    for effect in (*EFFECTS, *(f"error={name}" for name in ERRORS[step]))
    if version == "V1" or step != "add-partitions-to-txn"
]


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, EmbeddedBroker]]:
    """Run two nodes for each transaction version."""
    with ExitStack() as stack:
        yield {
            version: stack.enter_context(
                EmbeddedBroker(nodes=2, api_versions_of=release, auto_create_topics=True)
            )
            for version, release in RELEASES.items()
        }


@pytest.mark.parametrize(("version", "step", "effect"), CASES)
def test_no_loss_or_duplicates(
    brokers: dict[str, EmbeddedBroker], unique_topic: str, version: str, step: str, effect: str
) -> None:
    broker = brokers[version]
    Admin(broker.bootstrap_servers).create_topic(unique_topic, 3, 2)
    options: dict[str, Any] = {
        "request_timeout_ms": 250,
        "delivery_timeout_ms": 20_000,
        "batch_size": 1_000,
    }
    number = 1 if step in FAILS_IF_CLOSED_TWICE and effect in CLOSES else 2
    faults = [broker.faults.add(f"{step}:{effect}:after={n}:next=1") for n in range(number)]
    try:
        with transaction(broker.bootstrap_servers, **options) as producer:
            producer.append(numbered(unique_topic, 0, ROWS, 3))
            producer.flush()
            opened = producer.flush_transaction()
    finally:
        for fault in faults:
            broker.faults.remove(fault)
    end(broker.bootstrap_servers, opened)
    expected = [number for n in range(3) for number in range(n, ROWS, 3)]
    assert read(broker, unique_topic, len(expected)) == expected


def read(broker: EmbeddedBroker, topic: str, count: int) -> list[int]:
    """Wait for `count` committed numbers and return them."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        values = [
            int(record.value or b"-1") for record in by_confluent(broker.bootstrap_servers, topic)
        ]
        if len(values) >= count or time.monotonic() > deadline:
            return values
