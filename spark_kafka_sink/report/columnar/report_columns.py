"""A report with its partitions and brokers as columns, which are merged without objects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from spark_kafka_sink.report.columnar.broker_columns import BrokerColumns
from spark_kafka_sink.report.columnar.partition_columns import PartitionColumns
from spark_kafka_sink.report.metrics.merging import merge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

R = TypeVar("R", bound="DeliveryCounters")


@dataclass(frozen=True, slots=True)
class ReportColumns(Generic[R]):
    """The columns of a report."""

    partitions: PartitionColumns
    brokers: BrokerColumns
    remainder: R
    """The report without partitions and brokers."""

    @classmethod
    def of(cls, report: R) -> Self:
        """Return the columns of a report."""
        return cls(
            PartitionColumns.of(report.partitions),
            BrokerColumns.of(report.metrics.brokers),
            replace(report, partitions=(), metrics=replace(report.metrics, brokers=())),
        )

    def merge(self, others: Iterable[ReportColumns[R]]) -> Self:
        """Add up this report and others."""
        every: tuple[ReportColumns[R], ...] = (self, *others)
        return type(self)(
            PartitionColumns.merge_all(columns.partitions for columns in every),
            BrokerColumns.merge_all(columns.brokers for columns in every),
            merge(type(self.remainder), [columns.remainder for columns in every]),
        )

    def to_report(self) -> R:
        """Return the whole report."""
        metrics = replace(self.remainder.metrics, brokers=self.brokers.to_metrics())
        return replace(self.remainder, partitions=self.partitions.to_reports(), metrics=metrics)
