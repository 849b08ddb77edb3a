"""The form of a delivery report that tasks send to the driver, and how such reports are merged.

With 1,000 partitions and 100 brokers, a packed report is a fifth of the size of a pickled report.
Spark's driver keeps the reports of all tasks until the commit, within spark.driver.maxResultSize;
as objects, they would use many times that space in the Python process that commits.

Reports with few partitions and brokers are packed and merged as objects, without NumPy, because
importing NumPy takes longer than all other imports for the commit of a small write.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.metrics.merging import merge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.report.columnar.partition_columns import PartitionColumns, Planes
    from spark_kafka_sink.report.columnar.report_columns import ReportColumns


_ZLIB_LEVEL = 1
_UNPACK_GROUP_SIZE = 64
"""Number of reports that are unpacked at once."""
_MAX_OBJECT_ROWS = 32
"""Maximum number of partitions and brokers together in a report that is packed as an object."""


@dataclass(frozen=True, slots=True)
class PackedReport:
    """One report, as compressed pickles."""

    partitions: bytes
    """The partitions as planes; empty if `remainder` is the whole report."""
    remainder: bytes

    @classmethod
    def of(cls, report: DeliveryReport) -> PackedReport:
        """Pack a report."""
        if _is_small(report):
            return cls(b"", _pack(report))
        columns = _columns_of(report)
        remainder = columns.brokers.to_planes(), columns.remainder
        return cls(_pack(columns.partitions.to_planes()), _pack(remainder))

    def unpack(self) -> DeliveryReport:
        """Unpack the report."""
        if self.partitions:
            return self.columns().to_report()
        report: DeliveryReport = _unpack(self.remainder)
        return report

    def columns(self) -> ReportColumns[DeliveryReport]:
        """Unpack the report as columns."""
        if not self.partitions:
            return _columns_of(self.unpack())
        from spark_kafka_sink.report.columnar.broker_columns import BrokerColumns
        from spark_kafka_sink.report.columnar.report_columns import ReportColumns

        planes, remainder = _unpack(self.remainder)
        return ReportColumns(partitions_of(self), BrokerColumns.from_planes(planes), remainder)


AnyReport = DeliveryReport | PackedReport


def partitions_of(report: AnyReport) -> PartitionColumns:
    """Return only the partitions of a packed or unpacked report."""
    from spark_kafka_sink.report.columnar.partition_columns import PartitionColumns

    if isinstance(report, PackedReport):
        if report.partitions:
            planes: Planes = _unpack(report.partitions)
            return PartitionColumns.from_planes(planes)
        report = report.unpack()
    return PartitionColumns.of(report.partitions)


def merge_reports(
    reports: Iterable[AnyReport],
    prepare: Callable[[DeliveryReport], DeliveryReport] = lambda report: report,
) -> DeliveryReport:
    """Merge reports, unpacking only a few of them at once.

    Args:
        reports: packed or unpacked reports.
        prepare: applied to each report; must not use its partitions and brokers.
    """
    remaining = iter(reports)
    first = list(islice(remaining, _UNPACK_GROUP_SIZE + 1))
    if len(first) <= _UNPACK_GROUP_SIZE and all(map(_is_small, first)):
        small = [
            report.unpack() if isinstance(report, PackedReport) else report for report in first
        ]
        return merge(DeliveryReport, [DeliveryReport(), *map(prepare, small)])
    total = _columns_of(DeliveryReport())
    remaining = chain(first, remaining)
    while group := list(islice(remaining, _UNPACK_GROUP_SIZE)):
        added = [_columns_of(report) for report in group]
        total = total.merge(
            [replace(columns, remainder=prepare(columns.remainder)) for columns in added]
        )
    return total.to_report()


def _is_small(report: AnyReport) -> bool:
    if isinstance(report, PackedReport):
        return not report.partitions
    return len(report.partitions) + len(report.metrics.brokers) <= _MAX_OBJECT_ROWS


def _columns_of(report: AnyReport) -> ReportColumns[DeliveryReport]:
    from spark_kafka_sink.report.columnar.report_columns import ReportColumns

    return report.columns() if isinstance(report, PackedReport) else ReportColumns.of(report)


def _pack(value: object) -> bytes:
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _ZLIB_LEVEL)


def _unpack(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))  # noqa: S301 - sent by a task, like Spark's own messages
