"""The file that passes the planning of a micro-batch to `abort`.

One writer plans a stream's micro-batch and a different writer aborts it, so planning stores the
data for abort() in a file. The commit messages of tasks contain the same data, but if no task of a
micro-batch finishes, there are none. If a stopped query is interrupted before Spark calls
abort(), the next planning of the query reads the file and aborts the transactions.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.report_paths import StreamIdentity, digest

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningData:
    """Data from the planning of a stream's last micro-batch; fields are empty if unknown."""

    at: str = ""
    """Time of planning (ISO 8601)."""
    started_s: float = 0.0
    """The same time in seconds of the driver machine's monotonic clock, for durations."""
    nonce: str | None = None
    """Nonce in the transactional ids of this planning; None if unknown, or if the write is not
    exactly-once.
    """
    shared: TransactionalProducer | None = None
    """The transaction that all tasks share with atomicBatch=true; otherwise None."""
    error_file: str = ""
    """Path of the file in which the tasks of this planning store their errors."""


@dataclass(frozen=True, slots=True)
class PlanningFile:
    """The file that stores the data of a stream's last planning."""

    path: str = ""
    """Path in the folder of the application's reports if the stream has a checkpoint, because with
    Spark Connect each start of a query has its own Spark session; otherwise in the folder of the
    Spark session's reports. Empty if nothing is stored.
    """

    @classmethod
    def of(cls, stream: StreamIdentity, prefix: str = "") -> Self:
        """Return the file of a stream.

        It has no path if neither options nor prefix identify the stream.
        """
        here = ReportFolder.here() if stream.is_known or prefix else None
        if here is None:
            return cls()
        folder = here.application if stream.checkpoint else here.path
        name = digest(f"{stream.digest}\n{prefix}")
        return cls(str(folder / f"{name}.planned"))

    def store(self, planned: PlanningData) -> None:
        """Replace the stored planning data. Never raises."""
        if not self.path:
            return
        file, draft = Path(self.path), Path(f"{self.path}-new")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(asdict(planned)), encoding="utf-8")
            draft.replace(file)
        except OSError:
            with suppress(OSError):  # Outdated planning data must not be used.
                file.unlink(missing_ok=True)

    def read(self) -> PlanningData:
        """Return the planning data of the last micro-batch; its fields are empty if unknown."""
        if self.path:
            with suppress(OSError, ValueError, TypeError, KeyError):
                return _to_planning_data(json.loads(Path(self.path).read_text(encoding="utf-8")))
        return PlanningData()

    def mark_ended(self, nonce: str | None) -> None:
        """Store that commit() or abort() of a planning has completed. Never raises.

        The planning data stays in its own file, because a newer planning may already have replaced
        it.
        """
        if self.path and nonce is not None:
            with suppress(OSError):
                Path(f"{self.path}-ended").write_text(nonce, encoding="utf-8")

    def read_unended(self) -> PlanningData:
        """Return the data of the last planning; empty if its commit() or abort() has completed."""
        planned = self.read()
        with suppress(OSError, ValueError):
            if Path(f"{self.path}-ended").read_text(encoding="utf-8") == planned.nonce:
                return PlanningData()
        return planned


def _to_planning_data(stored: dict[str, Any]) -> PlanningData:
    at, shared = stored["at"], stored["shared"]
    return PlanningData(
        at=at and datetime.fromisoformat(at).isoformat(timespec="milliseconds"),
        started_s=float(stored["started_s"]),
        nonce=stored["nonce"],
        shared=None if shared is None else _to_producer(shared),
        error_file=stored["error_file"],
    )


def _to_producer(stored: dict[str, Any]) -> TransactionalProducer:
    from spark_kafka_sink.kafka.protocol.transactions import (  # rarely needed
        TransactionalProducer,
        TransactionVersion,
    )

    return TransactionalProducer(**stored | {"version": TransactionVersion(stored["version"])})
