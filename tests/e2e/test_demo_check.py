"""The demo's verification detects each kind of error."""

import json
from collections import defaultdict
from typing import cast

import pytest

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.cli.demo.checks import check_received, check_report
from spark_kafka_sink.cli.demo.demo_topic import Received
from spark_kafka_sink.cli.demo.flights import Flights, Row
from spark_kafka_sink.report.partition_report import PartitionReport

SOURCE: dict[str | None, list[Row]] = {"a": [(1, "x"), (2, None)], None: [(3, "z"), (4, "z")]}


class Record:
    """The parts of a confluent-kafka message that the demo reads."""

    def __init__(self, key: str | None, value: object, partition: int = 0) -> None:
        self._key, self._value, self._partition = key, value, partition

    def key(self) -> bytes | None:
        return None if self._key is None else self._key.encode()

    def value(self) -> bytes:
        return self._value if isinstance(self._value, bytes) else json.dumps(self._value).encode()

    def partition(self) -> int:
        return self._partition


def records() -> list[Record]:
    return [
        Record(key, dict(zip("nt", row, strict=True)), 0 if key else cast("int", row[0]) % 2)
        for key, rows in SOURCE.items()
        for row in rows
    ]


ALL = records()
CASES: dict[str, tuple[list[Record], list[bool]]] = {
    "correct": (ALL, [True] * 4),
    "any order without a key": (ALL[:2] + ALL[:1:-1], [True] * 4),
    "lost": (ALL[1:], [False, False, False, True]),
    "duplicate": (ALL + ALL[-1:], [False, False, True, True]),
    "another value": ([Record("a", {"n": 1, "t": "y"}), *ALL[1:]], [True, False, False, True]),
    "zero instead of null": (
        [ALL[0], Record("a", {"n": 2, "t": 0}), *ALL[2:]],
        [True, False, False, True],
    ),
    "another key": ([Record("b", {"n": 1, "t": "x"}), *ALL[1:]], [True, False, False, True]),
    "wrong order within a key": ([*ALL[1::-1], *ALL[2:]], [True, True, False, True]),
    "a key in two partitions": (
        [ALL[0], Record("a", {"n": 2, "t": None}, 1), *ALL[2:]],
        [True, True, True, False],
    ),
    "invalid JSON": ([*ALL[:-1], Record(None, b"{")], [True, False, True, True]),
    "an extra field": (
        [*ALL[:-1], Record(None, {"n": 4, "t": "z", "u": 1})],
        [True, False, True, True],
    ),
}


def verdict(stored: list[Record]) -> list[bool]:
    received = Received(("n", "t"))
    sizes: defaultdict[int, int] = defaultdict(int)
    for record in stored:
        received.add(record)  # type: ignore[arg-type]
        sizes[record.partition()] += 1
    return [finding.has_passed for finding in check_received(SOURCE, received, sizes)]


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_difference_is_detected(name: str) -> None:
    received, expected = CASES[name]
    assert verdict(received) == expected


def test_report_does_not_match_the_log() -> None:
    report = DeliveryReport(partitions=(PartitionReport(topic="t", partition=1, persisted=3),))
    assert check_report(report, {0: 0, 1: 3}).has_passed
    assert not check_report(report, {0: 1, 1: 3}).has_passed
    assert not check_report(report, {0: 0, 1: 4}).has_passed


def test_source_contains_nulls_instead_of_nan() -> None:
    flights = Flights.load()
    assert len(flights) == 336_776
    assert flights.table.column("dep_time").null_count == 8_255
    assert flights.table.column("dep_time").type == "int64"
    groups = flights.by_key()
    assert len(groups) == 4_044
    assert len(groups[None]) == 2_512
    assert sum(map(len, groups.values())) == 336_776
