"""Files of statistics: lines that a separate thread writes."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor

from spark_kafka_sink.common.errors import error_text
from spark_kafka_sink.common.masking import redact_uri, split_query
from spark_kafka_sink.report.file_storage import write_report

_LOG = logging.getLogger(__name__)
FILE_BYTES = 4 << 20
"""A file is written when this number of bytes is buffered."""
_MAX_PENDING_FILES = 2
"""Maximum number of files waiting to be written; after that, new lines are dropped."""


class StatisticsFiles:
    """Writes lines to the files `<path>-0.jsonl`, `<path>-1.jsonl` ... in a separate thread.

    If a file cannot be written, its lines are dropped with a warning. Waiting lines use at most
    three times `FILE_BYTES` of memory.

    Args:
        path: a local path or a URI supported by pyarrow.fs, without the suffix.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, "kafkaprod-statistics")
        self._lines: list[str] = []
        self._size = 0
        self._files = 0
        self._pending: list[Future[None]] = []

    def write(self, line: str) -> None:
        """Buffer a line; start writing a file once enough lines are buffered."""
        self._lines.append(line)
        self._size += len(line)
        if self._size >= FILE_BYTES:
            self._maybe_begin_file()

    def close(self) -> None:
        """Write the remaining lines; wait until each file is written or has failed."""
        if self._lines:
            self._begin_file()
        self._executor.shutdown()

    def _maybe_begin_file(self) -> None:
        self._pending = [write for write in self._pending if not write.done()]
        if len(self._pending) < _MAX_PENDING_FILES:
            self._begin_file()
            return
        count = len(self._lines)
        path = redact_uri(self._path)
        _LOG.warning("%d lines of statistics dropped: writing to %s takes too long", count, path)
        self._lines = []
        self._size = 0

    def _begin_file(self) -> None:
        base, query = split_query(self._path)
        path = f"{base}-{self._files}.jsonl{query}"
        lines = self._lines
        self._files += 1
        self._lines = []
        self._size = 0
        self._pending.append(self._executor.submit(_write_file, path, lines))


def _write_file(path: str, lines: list[str]) -> None:
    try:
        write_report(path, "\n".join([*lines, ""]), subject="the statistics")
    except Exception as error:  # noqa: BLE001 - statistics must not fail the task
        _LOG.warning("cannot write the statistics: %s", error_text(error))
