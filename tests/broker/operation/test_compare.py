"""The scenarios of `tools.compat.compare_brokers` give equal responses on both brokers."""

import re
from collections.abc import Iterator

import pytest

from spark_kafka_sink import EmbeddedBroker
from tools.compat.compare_brokers import SETTINGS, compare, scenarios
from tools.compat.scenarios.comparison import differing
from tools.compat.scenarios.scenario import keep_everything, run
from tools.support.kafka_cluster import KafkaCluster

DIFFERENT = re.compile(
    r"produce \d+, (null|time 0|a year ago)|produce 9 to (?!LogAppend).*, time 0"
    r"|records, snappy, a payload twice"
    r"|records, (gzip|zstd), a record (too long|one too |of length )"
    r"|records to compression.type=lz4, .*, (a key of length -2|an offset delta left out)"
    r"|fetch \d+, (at most -1 bytes|isolation level 3)|api versions"
)
"""Scenarios with differences that docs/compatibility.md lists."""
SETTING_OF_THE_TEST = "min.insync.replicas.config_source"
SCENARIOS = [scenario for scenario in scenarios() if not DIFFERENT.match(scenario.name)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(config=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as kafka:
        keep_everything(kafka.bootstrap_servers)
        yield kafka


@pytest.mark.parametrize(
    "number", range(len(SCENARIOS)), ids=[scenario.name for scenario in SCENARIOS]
)
def test_both_brokers_give_the_same_responses(
    kafka: KafkaCluster, embedded: EmbeddedBroker, number: int
) -> None:
    scenario = SCENARIOS[number]
    theirs = run(scenario, kafka.bootstrap_servers, number)
    mine = run(scenario, embedded.bootstrap_servers, number)
    assert "raised" not in theirs
    differences = compare(scenario.name, theirs, mine)
    assert not [
        difference
        for difference in differences
        if not difference.path.endswith(SETTING_OF_THE_TEST)
    ]


def test_number_of_scenarios() -> None:
    names = [scenario.name for scenario in scenarios()]
    assert len(names) == len(set(names)) > 1000
    assert len(SCENARIOS) > 900


def test_differences_are_detected() -> None:
    kafka = {"1 produce": {"error_code": "NONE", "offsets": [{"at": 1}, {"at": 2}]}}
    embedded = {"1 produce": {"error_code": "NONE", "offsets": [{"at": 1}, {"at": 3}]}}
    assert list(differing(kafka, embedded)) == [("1 produce.offsets[1].at", 2, 3)]
