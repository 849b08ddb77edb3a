"""Files that carry task errors and planning times to `abort`, and the origin of a write.

What planning leaves for the abort() of a stream's micro-batch: another writer aborts it.

A task's message has all of this; for a micro-batch in which no task finishes there is no message.

How `abort` comes to know why the tasks failed: Spark hands it no error.

A task leaves its error in the folder of the application's reports, where it runs on the driver's
machine. On another one there is no such folder, and nothing is left.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.spark.reports.report_folder import query_id, report_folder
from spark_kafka_sink.spark.session_conf import BATCH_ID, QUERY_ID, setting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from spark_kafka_sink.protocol.transactions import OpenTransaction
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.reports.report_folder import StreamIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The last planning of a micro-batch."""

    at: str = ""
    """When it was, in ISO 8601; empty if that is not known."""
    nonce: str | None = None
    """That of its transactions; None without exactly-once, or if it is not known."""
    shared: OpenTransaction | None = None
    """The transaction of all tasks, with atomicBatch=true."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """`path` is in the folder of the application's reports; empty where nothing is kept."""

    path: str = ""

    @classmethod
    def of(cls, stream: StreamIdentity, prefix: str = "") -> Self:
        """Return the stream's own file, if its options or its prefix tell it from others."""
        folder = report_folder() if stream.is_known or prefix else None
        name = hashlib.sha256(f"{stream.digest}\n{prefix}".encode()).hexdigest()[:16]
        return cls() if folder is None else cls(str(Path(folder) / f"{name}.planned"))

    def keep(self, planned: Planned) -> None:
        """Replace what was planned before; never raises."""
        if not self.path:
            return
        file, draft = Path(self.path), Path(f"{self.path}-new")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(asdict(planned)))
            draft.replace(file)
        except OSError:
            with suppress(OSError):  # an older plan would be taken for this one
                file.unlink(missing_ok=True)

    def read(self) -> Planned:
        """Return the last plan; empty if it is not known."""
        if self.path:
            with suppress(OSError, ValueError, TypeError, KeyError):
                return _planned(json.loads(Path(self.path).read_text()))
        return Planned()


def _planned(kept: dict[str, Any]) -> Planned:
    at, shared = kept["at"], kept["shared"]
    return Planned(
        at=at and datetime.fromisoformat(at).isoformat(timespec="milliseconds"),
        nonce=kept["nonce"],
        shared=None if shared is None else _opened(shared),
    )


def _opened(kept: dict[str, Any]) -> OpenTransaction:
    from spark_kafka_sink.protocol.transactions import (
        OpenTransaction,  # seldom needed
        TransactionVersion,
    )

    return OpenTransaction(**kept | {"version": TransactionVersion(kept["version"])})


_MOST: Final = 4000
"""Characters of an error that are kept."""


@dataclass(frozen=True, slots=True)
class ErrorFile:
    """Of one batch write, or of one stream with a file for each micro-batch.

    `folder` is the driver's, None where there is none.
    """

    folder: str | None = None
    name: str = ""
    of_stream: bool = False

    @classmethod
    def of_write(cls) -> Self:
        """One that no other write has."""
        return cls(_folder(), uuid.uuid4().hex)

    @classmethod
    def of_micro_batches(cls, stream: StreamIdentity) -> Self:
        """The same one each time that Spark makes the stream's writer."""
        return cls(_folder(), stream.digest, of_stream=True)

    @contextmanager
    def kept(self, batch_id: int | None = None) -> Iterator[None]:
        """Let an error of this package that passes be known to `abort`.

        Args:
            batch_id: the micro-batch; None in a task, which is asked.
        """
        try:
            yield
        except KafkaProdError as error:
            self.leave(error, setting(BATCH_ID) if batch_id is None else batch_id)
            raise

    def leave(self, error: KafkaProdError, batch_id: str | int | None = None) -> None:
        """Put an error in place of an earlier one; it never raises."""
        file = self._file(batch_id)
        if file is None or not file.parent.parent.is_dir():
            return
        draft = file.with_name(f"{file.name}-{uuid.uuid4().hex}")
        with suppress(OSError):
            file.parent.mkdir(exist_ok=True)
            draft.write_text(told(error))
            draft.replace(file)

    def take(self, batch_id: int | None = None) -> str | None:
        """On the driver: the error that was left last, once; None without any."""
        file = self._file(batch_id)
        if file is None:
            return None
        with suppress(OSError, ValueError):
            text = file.read_text()
            file.unlink(missing_ok=True)
            return text or None
        return None

    def _file(self, batch_id: str | int | None) -> Path | None:
        if self.folder is None:
            return None
        number = f"-{batch_id}" if self.of_stream else ""
        return Path(self.folder) / f"{self.name}{number}.error"


def told(error: KafkaProdError) -> str:
    """Its class, message and hint; what became of each partition's records is in the report."""
    plain = copy(error)
    plain.statuses = ()
    return f"{type(error).__name__}: {plain}"[:_MOST]


def _folder() -> str | None:
    folder = report_folder()
    return None if folder is None else str(folder)


def now() -> str:
    """The time in UTC as ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrigin:
    """Goes with the writer to its tasks, and comes back with their reports."""

    started_at: str = ""
    """When the write was planned, as `now` tells it; empty where that is unknown."""
    query_name: str = ""
    """The streaming query's name, empty without one."""
    checkpoint: str = ""
    """The option checkpointLocation of a stream."""
    error_file: ErrorFile = field(default_factory=ErrorFile)
    """Where the tasks leave what has failed them."""
    plan_file: PlanFile = field(default_factory=PlanFile)
    """Where planning leaves what abort() needs of a micro-batch."""

    @classmethod
    def of_write(cls) -> Self:
        """Of a batch write that is planned now."""
        return cls(started_at=now(), error_file=ErrorFile.of_write())

    @classmethod
    def of_stream(cls, stream: StreamIdentity, prefix: str = "") -> Self:
        """Of a micro-batch of a stream; `prefix` is its transactionalIdPrefix, if it has one."""
        return cls(
            started_at=now(),
            query_name=stream.query_name,
            checkpoint=stream.checkpoint,
            error_file=ErrorFile.of_micro_batches(stream),
            plan_file=PlanFile.of(stream, prefix),
        )

    def of_task(self, report: DeliveryReport) -> DeliveryReport:
        """The report of the task that runs in this thread, with its query and micro-batch."""
        batch = setting(BATCH_ID)
        return replace(
            report,
            started_at=self.started_at,
            query_name=self.query_name,
            query_id=setting(QUERY_ID) or "",
            batch_id=int(batch) if batch is not None and batch.isdecimal() else None,
        )

    def completed(self, report: DeliveryReport, batch_id: int | None) -> DeliveryReport:
        """The report of the whole write, which ends now; `batch_id` is that of a micro-batch."""
        written_at, started_at = now(), report.started_at or self.started_at
        return replace(
            report,
            started_at=started_at,
            written_at=written_at,
            duration_ms=_milliseconds(started_at, written_at) if started_at else 0,
            query_name=report.query_name or self.query_name,
            query_id=report.query_id or query_id(self.checkpoint),
            batch_id=report.batch_id if batch_id is None else batch_id,
        )


def _milliseconds(start: str, end: str) -> int:
    """Between two times of the wall clock, which may have been set back."""
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0, round(passed.total_seconds() * 1000))
