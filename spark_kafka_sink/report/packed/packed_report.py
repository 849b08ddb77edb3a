"""A delivery report as a task sends it to the driver, and what the driver merges.

Of 1,000 partitions and 100 brokers it takes a quarter of the pickled report. Spark's driver keeps
those of all tasks until the commit, within spark.driver.maxResultSize; as objects they would take
many times that in the Python process that commits.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.packed.partition_columns import PartitionColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LEVEL: Final = 1
_TOGETHER: Final = 256
"""Reports that are unpacked at a time."""


@dataclass(frozen=True, slots=True)
class PackedReport:
    """One report; `data` is a compressed pickle of its columns, and of all else."""

    data: bytes

    @classmethod
    def of(cls, report: DeliveryReport) -> PackedReport:
        """Pack a report."""
        planes = PartitionColumns.of(report.partitions).to_planes()
        parts = planes, replace(report, partitions=())
        return cls(zlib.compress(pickle.dumps(parts, pickle.HIGHEST_PROTOCOL), _LEVEL))

    def columns(self) -> tuple[PartitionColumns, DeliveryReport]:
        """The partitions, and the report without them."""
        planes, rest = pickle.loads(zlib.decompress(self.data))  # noqa: S301 - as Spark does
        return PartitionColumns.from_planes(planes), rest

    def unpack(self) -> DeliveryReport:
        """The report as it was."""
        columns, rest = self.columns()
        return replace(rest, partitions=columns.to_reports())


AnyReport = DeliveryReport | PackedReport


def merge_reports(
    reports: Iterable[AnyReport],
    prepare: Callable[[DeliveryReport], DeliveryReport] = lambda report: report,
) -> DeliveryReport:
    """As `DeliveryReport.merge_all`, but for few reports at a time unpacked.

    Args:
        reports: packed or not.
        prepare: applied to each report without its partitions.
    """
    total, columns = DeliveryReport(), PartitionColumns()
    left = iter(reports)
    while group := list(islice(left, _TOGETHER)):
        opened = [_opened(each) for each in group]
        columns = PartitionColumns.merge_all((columns, *(each for each, _ in opened)))
        total = DeliveryReport.merge_all((total, *(prepare(rest) for _, rest in opened)))
    return replace(total, partitions=columns.to_reports())


def _opened(report: AnyReport) -> tuple[PartitionColumns, DeliveryReport]:
    if isinstance(report, PackedReport):
        return report.columns()
    return PartitionColumns.of(report.partitions), replace(report, partitions=())
