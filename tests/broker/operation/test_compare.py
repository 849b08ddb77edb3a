"""Selected scenarios of `tools.compat.compare_brokers` give equal responses on both brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import EmbeddedBroker
from tools.compat.compare_brokers import Difference, compare, markdown, scenarios
from tools.compat.scenarios.world import differing, keep_everything, plain, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.support.kafka_cluster import KafkaCluster

SELECTED = (
    "sequences, ",
    "produce 9, acks",
    "produce 12, partition",
    "produce 9 to LogAppendTime",
    "fetch 11, ",
    "list offsets 9, ",
    "offset for leader epoch",
    "delete records",
    "delete topics",
    "describe cluster",
    "create partitions 3, ",
    "create topics 7, assignments",
    "alter partition reassignments",
    "list partition reassignments",
    "elect leaders",
    "offset delete",
    "authorized operations",
    "configs of",
    "alter configs",
    "join group",
    "heartbeat",
    "static member",
    "offset commit 8",
    "init producer id 5",
    "produce 13, magic 0",
    "produce 13, two batches",
    "produce 13, a wrong checksum",
    "produce 13, a length",
    "produce 13, codec",
    "produce 13, zstd",
    "produce, ",
    "produce 13, a partition twice",
    "records, none, ",
    "records, zstd, ",
    "records, lz4, ",
)
KNOWN_DIFFERENCES = (
    "fetch 11, at most -1 bytes",
    "fetch 11, isolation level 3",
    "records, zstd, a record ",
)
"""Differences that are listed in docs/compatibility.md."""
SCENARIOS = [
    one
    for one in scenarios()
    if one.name.startswith(SELECTED) and not one.name.startswith(KNOWN_DIFFERENCES)
]


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as kafka:
        keep_everything(kafka.bootstrap_servers)
        yield kafka


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=[one.name for one in SCENARIOS])
def test_same_responses(real_kafka: KafkaCluster, embedded: EmbeddedBroker, number: int) -> None:
    scenario = SCENARIOS[number]
    theirs = run(scenario, real_kafka.bootstrap_servers, number)
    mine = run(scenario, embedded.bootstrap_servers, number)
    assert "raised" not in theirs
    assert list(compare(scenario.name, theirs, mine)) == []


def test_number_of_scenarios() -> None:
    names = [one.name for one in scenarios()]
    assert len(names) == len(set(names)) > 400
    assert len(SCENARIOS) > 80


def test_differences_are_detected() -> None:
    kafka = {"1 produce": {"error_code": "NONE", "offsets": [{"at": 1}, {"at": 2}]}}
    embedded = {"1 produce": {"error_code": "NONE", "offsets": [{"at": 1}, {"at": 3}]}}
    assert list(differing(kafka, embedded)) == [("1 produce.offsets[1].at", 2, 3)]
    found = [Difference(f"s{number}", "p", "a|b", "") for number in range(4)]
    assert markdown(found, 9).splitlines()[-1] == "| s0; s1 and 2 more | `p` | a\\|b | empty |"


def test_ids_and_timestamps_are_ignored() -> None:
    assert plain(12345, "producer_id") == "an id"
    assert plain("", "member_id") == "no id"
    assert plain("words", "error_message") == "text"
