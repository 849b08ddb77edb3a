"""The delivery report: what one task, or all tasks of a write, delivered to Kafka.

Reports can be read from files, added up, and displayed in a terminal or a notebook.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.delivery_counters import DeliveryCounters

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pandas as pd

_SEQUENCES = ("next_ack_seq", "next_err_seq")
_HINT = "Use a path that was set as reportPath."


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DeliveryReport(DeliveryCounters):
    """The report of a write or a micro-batch.

    Reports can be added with `+` or `sum`. `print` displays a report as text, and notebooks display
    it as HTML.
    """

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read the report at a path, or add up all reports in a folder of micro-batches.

        Args:
            path: a local path or a URI that pyarrow.fs supports, as in `reportPath`. In a folder,
                all `*.json` files are read.

        Raises:
            ReportError: there is no report, or a report cannot be read.
        """
        return cls.merge_all(cls.read_all(path))

    @classmethod
    def merge_all(cls, reports: Iterable[Self]) -> Self:
        """Add up any number of reports in a single pass."""
        from spark_kafka_sink.report.columnar.report_columns import ReportColumns

        return ReportColumns.of(cls()).merge(map(ReportColumns.of, reports)).to_report()

    @classmethod
    def read_all(cls, path: str | os.PathLike[str]) -> list[Self]:
        """Read the reports of a folder one by one, sorted by the number of the micro-batch.

        Raises:
            ReportError: there is no report, or a report cannot be read.
        """
        from spark_kafka_sink.report.file_storage import read_reports

        reports = [cls._from_file(name, text) for name, text in read_reports(str(path)).items()]
        return sorted(reports, key=lambda report: (report.batch_id or 0, report.written_at))

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per topic and partition: the fields of `PartitionReport`, and `records`.

        The sequence numbers of idempotent producers are omitted.
        Sizes are in bytes, times in milliseconds since 1970. Offsets and times that the broker did
        not return are missing values.

        Raises:
            ConfigError: pandas is not installed.
        """
        from spark_kafka_sink.common.optional_dependencies import import_extra
        from spark_kafka_sink.report.partition_report import PartitionReport

        pandas = import_extra("plots", "pandas", "DeliveryReport.to_pandas()")
        names = [field.name for field in fields(PartitionReport) if field.name not in _SEQUENCES]
        names.insert(2, "records")
        columns = {
            name: [getattr(partition, name) for partition in self.partitions] for name in names
        }
        # By default, pandas converts columns with missing numbers to floats, which makes large
        # numbers inexact.
        numbers = {name: pandas.array(columns[name], dtype="Int64") for name in names[1:]}
        frame: pd.DataFrame = pandas.DataFrame({**columns, **numbers})
        return frame

    def __add__(self, other: object) -> Self:
        """Add up two reports."""
        return self.merge_all((self, other)) if isinstance(other, type(self)) else NotImplemented

    def __radd__(self, other: object) -> Self:
        """Support `sum`, which starts with 0."""
        return self if other == 0 else NotImplemented

    def __repr__(self) -> str:
        values = {
            "status": self.status.value,
            "rows": self.rows,
            **({"would_be_written": self.would_be_written} if self.dry_run else {}),
            "persisted": self.persisted,
            "dead_lettered": self.dead_lettered,
            "dropped": self.dropped,
            "partitions": len(self.partitions),
            "bytes_sent": self.bytes_sent,
            "duration_ms": self.duration_ms,
        }
        text = ", ".join(f"{name}={value}" for name, value in values.items())
        return f"<DeliveryReport {text}>"

    def __str__(self) -> str:
        from spark_kafka_sink.report.display.summary import summarize

        return summarize(self)

    @classmethod
    def _from_file(cls, name: str, text: str) -> Self:
        try:
            return cls.from_json(text)
        except ReportError as error:
            raise ReportError(f"{name}: {error.message}", hint=error.hint or _HINT) from None

    def _repr_html_(self) -> str:
        from spark_kafka_sink.report.display.notebook_html import to_html

        return to_html(self)
