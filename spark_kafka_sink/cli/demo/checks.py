"""Compare the records that another client received with the flights and the delivery report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.cli.demo.demo_topic import Received
    from spark_kafka_sink.cli.demo.flights import Row
    from spark_kafka_sink.report.delivery_report import DeliveryReport


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: whether it passed, and a description."""

    has_passed: bool
    text: str


def check_received(
    source: Mapping[str | None, list[Row]], received: Received, sizes: Mapping[int, int]
) -> list[CheckResult]:
    """Compare the number, content, order and partitions of the records with their source."""
    return [
        _check_count(source, received, sizes),
        _check_content(source, received),
        _check_order(source, received),
        _check_partitions(received),
    ]


def check_report(report: DeliveryReport, sizes: Mapping[int, int]) -> CheckResult:
    """Compare a delivery report with the number of records in the topic's partitions."""
    reported = {part.partition: part.persisted for part in report.partitions}
    counted = {number: size for number, size in sizes.items() if size}
    if reported == counted:
        return CheckResult(True, f"the delivery report agrees with all {len(counted)} partitions")
    return CheckResult(
        False,
        f"records per partition differ: {reported} in the delivery report, {counted} in the topic",
    )


def _check_count(
    source: Mapping[str | None, list[Row]], received: Received, sizes: Mapping[int, int]
) -> CheckResult:
    expected = sum(len(rows) for rows in source.values())
    text = f"{plural(received.count, 'record')} read back, of {plural(expected, 'flight')}"
    return CheckResult(received.count == expected == sum(sizes.values()), text)


def _check_content(source: Mapping[str | None, list[Row]], received: Received) -> CheckResult:
    """Check that every document occurs exactly once, with its key; the order is not checked."""
    missing = extra = 0
    for key in source.keys() | received.rows.keys():
        expected, rows = source.get(key, []), received.rows.get(key, [])
        if expected != rows:
            missing += (Counter(expected) - Counter(rows)).total()
            extra += (Counter(rows) - Counter(expected)).total()
    unexpected = extra + received.unexpected
    if missing or unexpected:
        return CheckResult(
            False,
            f"{plural(missing, 'flight')} missing; "
            f"{plural(unexpected, 'record')} not found in the source",
        )
    return CheckResult(True, "every JSON document matches its flight and has the right key")


def _check_order(source: Mapping[str | None, list[Row]], received: Received) -> CheckResult:
    keys = source.keys() - {None}
    wrong = [key for key in keys if received.rows.get(key) != source[key]]
    if wrong:
        return CheckResult(False, f"out of order: {len(wrong):,} of {plural(len(keys), 'key')}")
    return CheckResult(True, f"{plural(len(keys), 'tail number')}, each with its flights in order")


def _check_partitions(received: Received) -> CheckResult:
    divided = [
        key for key, partitions in received.partitions.items() if key and len(partitions) > 1
    ]
    if divided:
        return CheckResult(False, f"{plural(len(divided), 'key')} in more than one partition")
    return CheckResult(True, "each tail number is in one partition")
