"""When a stream's last micro-batch was planned, for `abort`: it is another writer that aborts.

Where a task finishes, its message tells; of a micro-batch of which none does, nothing else would.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.spark.reports.report_folder import report_folder

if TYPE_CHECKING:
    from spark_kafka_sink.spark.reports.stream_reports import StreamIdentity


@dataclass(frozen=True, slots=True)
class PlanFile:
    """`path` is in the folder of the application's reports; empty where nothing is kept."""

    path: str = ""

    @classmethod
    def of(cls, stream: StreamIdentity) -> Self:
        """The stream's own, where its options tell it from others."""
        folder = report_folder() if stream.is_known else None
        return cls() if folder is None else cls(str(Path(folder) / f"{stream.digest}.planned"))

    def keep(self, at: str) -> None:
        """A micro-batch is planned, in ISO 8601; it never raises."""
        if self.path:
            with suppress(OSError):
                file = Path(self.path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(at)

    def read(self) -> str:
        """When the last one was; empty where that is not known."""
        if self.path:
            with suppress(OSError, ValueError):
                kept = datetime.fromisoformat(Path(self.path).read_text())
                return kept.isoformat(timespec="milliseconds")
        return ""
