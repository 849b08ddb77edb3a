"""Files that pass errors of tasks and of commit() to `abort`.

Spark does not pass an error to `abort`. A task that runs on the driver's machine writes its error
into the folder of the application's reports. On other machines that folder does not exist, and no
error is written.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.spark.reports.report_folder import report_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.spark.reports.planning_file import PlanningFile

_MAX_ERROR_CHARS = 4000
"""Maximum length of a stored error, in characters."""


@dataclass(frozen=True, slots=True)
class ErrorFile:
    """Stores the errors of a write or of a micro-batch: of each partition's last attempt.

    Each planning has its own files, because a task can store an error after abort() has ended.
    """

    path: str = ""
    """Path in the driver's report folder; the files of partitions have its name and a suffix. Empty
    if nothing is stored.
    """

    @classmethod
    def of_write(cls) -> Self:
        """Return a file that no other write uses."""
        folder = report_folder()
        return cls("" if folder is None else str(folder / f"{uuid.uuid4().hex}.error"))

    @classmethod
    def of_micro_batch(cls, planning_file: PlanningFile, *, is_planning: bool) -> Self:
        """Return a new file for a micro-batch that is being planned, otherwise its planned file.

        Without a planning file, abort() could not find the micro-batch's file, and there is none.
        """
        last = cls(planning_file.read().error_file)
        if not is_planning or not planning_file.path:
            return last
        last.take()  # A task may have stored an error after abort().
        return cls.of_write()

    @contextmanager
    def storing_errors(self, partition: int | None = None) -> Iterator[None]:
        """Store an error of this package that the block raises, so that `abort` can read it.

        The error of an earlier attempt is removed, as the write may end with a different failure.

        Args:
            partition: the partition that the task writes; None for commit().
        """
        if self.path:
            with suppress(OSError):
                self._partition_path(partition).unlink(missing_ok=True)
        try:
            yield
        except KafkaProdError as error:
            self.store(error, partition)
            raise

    def store(self, error: KafkaProdError, partition: int | None = None) -> None:
        """Store an error; it replaces the partition's earlier error. Never raises."""
        file = self._partition_path(partition)
        if not self.path or not file.parent.parent.is_dir():
            return
        draft = file.with_name(f"{uuid.uuid4().hex}.draft")
        with suppress(OSError):
            file.parent.mkdir(exist_ok=True)
            # File names that are not UTF-8 are surrogates in the text.
            draft.write_text(abort_reason(error), encoding="utf-8", errors="backslashreplace")
            draft.replace(file)

    def take(self) -> str | None:
        """Return the last stored error, or None if there is none; delete all.

        Runs on the driver.
        """
        if not self.path:
            return None
        text = None
        path = Path(self.path)
        with suppress(OSError, ValueError):
            for file in sorted(path.parent.glob(f"{path.name}*"), key=_modified_ns):
                text = file.read_text(encoding="utf-8")
                file.unlink(missing_ok=True)
        return text or None

    def _partition_path(self, partition: int | None) -> Path:
        return Path(self.path if partition is None else f"{self.path}-{partition}")


def _modified_ns(file: Path) -> int:
    return file.stat().st_mtime_ns


def abort_reason(error: KafkaProdError) -> str:
    """Return the class, message and hint of an error.

    Its statuses are omitted: the report has them.
    """
    plain = copy(error)
    plain.statuses = ()
    return f"{type(error).__name__}: {plain}"[:_MAX_ERROR_CHARS]
