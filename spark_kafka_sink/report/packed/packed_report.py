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
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.packed.partition_columns import PartitionColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.report.packed.partition_columns import Planes

_LEVEL: Final = 1
_TOGETHER: Final = 256
"""Reports that are unpacked at a time."""


@dataclass(frozen=True, slots=True)
class PackedReport:
    """One report, as compressed pickles."""

    partitions: bytes
    rest: bytes

    @classmethod
    def of(cls, report: DeliveryReport) -> PackedReport:
        """Pack a report."""
        planes = PartitionColumns.of(report.partitions).to_planes()
        return cls(_packed(planes), _packed(replace(report, partitions=())))

    def columns(self) -> PartitionColumns:
        """The partitions."""
        planes: Planes = _unpacked(self.partitions)
        return PartitionColumns.from_planes(planes)

    def without_partitions(self) -> DeliveryReport:
        """All else."""
        rest: DeliveryReport = _unpacked(self.rest)
        return rest

    def unpack(self) -> DeliveryReport:
        """The report as it was."""
        return replace(self.without_partitions(), partitions=self.columns().to_reports())


AnyReport = DeliveryReport | PackedReport


def columns_of(report: AnyReport) -> PartitionColumns:
    """The partitions of a report, packed or not."""
    if isinstance(report, PackedReport):
        return report.columns()
    return PartitionColumns.of(report.partitions)


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
        columns = PartitionColumns.merge_all((columns, *map(columns_of, group)))
        total = DeliveryReport.merge_all((total, *(prepare(_rest(each)) for each in group)))
    return replace(total, partitions=columns.to_reports())


def _rest(report: AnyReport) -> DeliveryReport:
    if isinstance(report, PackedReport):
        return report.without_partitions()
    return replace(report, partitions=())


def _packed(value: object) -> bytes:
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _LEVEL)


def _unpacked(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))  # noqa: S301 - from a task, as Spark's own messages
