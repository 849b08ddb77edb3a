"""How `abort` comes to know why the tasks failed: Spark hands it no error.

A task leaves its error in the folder of the application's reports, where it runs on the driver's
machine. On another one there is no such folder, and nothing is left.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.spark.reports.report_folder import report_folder
from spark_kafka_sink.spark.session_conf import BATCH_ID, setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.spark.reports.stream_reports import StreamIdentity

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
