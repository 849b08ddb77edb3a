"""Reports as columns: the same numbers as objects have."""

import pickle
from dataclasses import fields, replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.report import packed_report
from spark_kafka_sink.report.columnar.broker_columns import COUNTERS, HISTOGRAMS
from spark_kafka_sink.report.columnar.partition_columns import RULES, PartitionColumns
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.metrics.producer_metrics import BrokerMetrics
from spark_kafka_sink.report.packed_report import PackedReport, merge_reports, partitions_of
from spark_kafka_sink.report.partition_report import PartitionReport
from tests.unit.report.strategies import reports

AS_COLUMNS, AS_OBJECTS = -1, 32
"""The number of partitions up to which a report is packed as an object."""


def test_every_partition_field_has_a_merge_rule() -> None:
    assert {"topic", "partition", *RULES} == {field.name for field in fields(PartitionReport)}


def test_every_broker_field_has_a_column() -> None:
    named = (*COUNTERS, *HISTOGRAMS)
    assert {"node_id", "name", *named} == {field.name for field in fields(BrokerMetrics)}


@given(reports(), st.sampled_from([AS_COLUMNS, AS_OBJECTS]))
def test_pack_round_trip(report: DeliveryReport, few: int) -> None:
    with patch.object(packed_report, "_MAX_OBJECT_ROWS", few):
        packed = PackedReport.of(report)
    assert bool(packed.partitions) is (few == AS_COLUMNS)
    assert partitions_of(packed).to_reports() == report.partitions
    assert pickle.loads(pickle.dumps(packed)).unpack() == report


@pytest.mark.deep
@given(st.lists(reports(), max_size=4), st.booleans(), st.sampled_from([AS_COLUMNS, AS_OBJECTS]))
@settings(max_examples=100)
def test_columns_merge_like_objects(
    generated: list[DeliveryReport], packed: bool, few: int
) -> None:
    with patch.object(packed_report, "_MAX_OBJECT_ROWS", few):
        inputs = [PackedReport.of(report) if packed else report for report in generated]
        merged = merge_reports(inputs)
    assert merged == DeliveryReport.merge_all(generated)


def test_more_reports_than_are_unpacked_at_once() -> None:
    report = DeliveryReport(tasks=1, partitions=(part_of(0, 10), part_of(-1, None)))
    merged = merge_reports([PackedReport.of(report)] * 600)
    assert merged.tasks == 600
    assert [(part.partition, part.persisted) for part in merged.partitions] == [(-1, 600), (0, 600)]
    assert [part.first_offset for part in merged.partitions] == [None, 10]


@pytest.mark.parametrize("number", [2**63 - 1, 1 - 2**63])
def test_maximum_values_are_not_mistaken_for_unknown(number: int) -> None:
    part = PartitionReport(topic="t", partition=0, first_append_time=number, last_offset=number)
    delivery_reports = [
        DeliveryReport(partitions=(partition,)) for partition in (part, part_of(0, 10), part)
    ]
    packed = merge_reports([PackedReport.of(report) for report in delivery_reports])
    assert packed == DeliveryReport.merge_all(delivery_reports)
    assert packed.partitions[0].first_append_time == number


def test_fields_that_the_driver_reads_from_each_report() -> None:
    merged = merge_reports([DeliveryReport(tasks=1)] * 3, lambda report: replace(report, retries=7))
    assert (merged.tasks, merged.retries) == (3, 21)


def part_of(partition: int, offset: int | None) -> PartitionReport:
    return PartitionReport(topic="t", partition=partition, first_offset=offset, persisted=1)


class Compared(str):
    """A topic that counts comparisons with other topics."""

    __slots__ = ()
    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def test_topics_are_not_searched_linearly() -> None:
    def columns(numbers: range) -> PartitionColumns:
        names = (Compared(f"t{number:04}") for number in numbers)
        reports = [PartitionReport(topic=name, partition=0, persisted=1) for name in names]
        return PartitionColumns.of(reports)

    parts = [columns(range(1000)), columns(range(1, 1000))]
    Compared.times = 0
    PartitionColumns.merge_all(parts)
    assert Compared.times < 10_000
