"""Recovery of logs when the broker starts: which data is kept, cut off or rejected.

After a crash, the end of a log may be incomplete, and is cut off. After a clean shutdown, damaged
or missing data is an error, and nothing is changed.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.disk_segment import DiskSegment, own_files, scan
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spark_kafka_sink.broker.storage.log_storage import OnBatch

_LOG = logging.getLogger(__name__)
_LOG_FILE = re.compile(r"\d{20}\.log")
_TRUNCATE = "truncate the log there"


class LogRecovery:
    """Loads the logs of a data folder, and reads and writes its mark of a clean shutdown.

    Args:
        mark: the file that marks a clean shutdown. It lists the gaps in the logs. The constructor
            removes it: if this process is killed, the next broker finds no mark, and verifies the
            data.
    """

    def __init__(self, mark: Path) -> None:
        text = _remove_file(mark)
        self._mark = mark
        self.was_clean = text is not None
        self._known_gaps = frozenset((text or "").splitlines())
        self._gaps: list[str] = []
        """The gaps that a clean shutdown records, so that the next start does not reject them."""

    def write_mark(self) -> None:
        """Mark the data as clean, so that the next broker does not verify it."""
        self._mark.write_text("\n".join(self._gaps), encoding="utf-8")

    def restore_mark(self) -> None:
        """Write the mark that the constructor removed, if any, after the broker failed to start."""
        if self.was_clean:
            self._gaps = sorted(self._known_gaps)
            self.write_mark()

    def load_segments(
        self,
        folder: Path,
        new_segment: Callable[..., DiskSegment],
        start: int,
        recovery_point: int,
        on_batch: OnBatch,
    ) -> list[DiskSegment]:
        """Open the segments of a partition. After a crash, truncate the log at an incomplete batch.

        Only data after the recovery point is truncated: no crash can have damaged the data before
        it.

        Args:
            folder: the partition's folder.
            new_segment: opens the segment with the given base offset.
            start: the log start offset. Offsets below it may be missing.
            recovery_point: all records before this offset have been flushed.
            on_batch: called with every batch.

        Raises:
            ConfigError: the files are damaged.
        """
        segments: list[DiskSegment] = []
        end = 0
        paths = own_files(folder, _LOG_FILE)
        for number, path in enumerate(paths):
            if (base := int(path.stem)) < end:
                reason = f"its first offset is below {end}, the end of the log"
                raise _damage_error(path, reason, self._without_mark(_TRUNCATE))
            if number and base > max(end, start):
                self._check_gap(folder, end, base)
            segment = new_segment(base, is_new=False)
            segments.append(segment)
            later = paths[number + 1 :]
            is_flushed = bool(later) and int(later[0].stem) <= recovery_point
            segment.is_dirty = not (self.was_clean or is_flushed)
            if not scan(segment, on_batch, trusted=not segment.is_dirty):
                problem = f"no valid batch at byte {segment.table.size}"
                if self.was_clean:
                    raise _damage_error(path, problem, self._without_mark(_TRUNCATE))
                if is_flushed:
                    raise _damage_error(path, problem, "delete the file to lose only its records")
                _truncate_log(segment, later)
                break
            end = base if segment.table.last_offset is None else segment.table.last_offset + 1
        if end < recovery_point:
            self._report_missing(folder, end, recovery_point)
        for segment in segments:
            segment.trim_indexes()
        for sealed in segments[:-1]:
            sealed.close()
        return segments

    def _report_missing(self, folder: Path, end: int, recovery_point: int) -> None:
        """Reject a log without its last records. After a crash, only log a warning.

        Raises:
            ConfigError: the records were removed after the broker was stopped cleanly.
        """
        reason = f"the offsets {end} to {recovery_point - 1} are missing"
        if self.was_clean:
            effect = f"continue {folder.name} at offset {end}"
            raise _damage_error(folder, reason, self._without_mark(effect))
        _LOG.warning("%s is damaged: %s", folder, reason)

    def _check_gap(self, folder: Path, end: int, base: int) -> None:
        """Reject missing segments. After a crash, keep the later segments, as Kafka does.

        Raises:
            ConfigError: the segments were removed after the broker was stopped cleanly.
        """
        gap = f"{folder.name} {base}"
        reason = f"the offsets {end} to {base - 1} are missing"
        if self.was_clean and gap not in self._known_gaps:
            effect = f"start without the records of {folder.name} at them"
            raise _damage_error(folder, reason, self._without_mark(effect))
        _LOG.warning("%s is damaged: %s", folder, reason)
        self._gaps.append(gap)

    def _without_mark(self, effect: str) -> str:
        return f"delete {self._mark.name} in the data folder to {effect}"


def _truncate_log(segment: DiskSegment, later: list[Path]) -> None:
    """Truncate a log after its last complete batch, because later data is unreliable."""
    lost = segment.path.stat().st_size - segment.table.size
    _LOG.warning(
        "truncating %s: its last %d bytes are not a complete batch; deleting %d later segments",
        segment.path,
        lost,
        len(later),
    )
    segment.truncate_file()
    for path in later:
        for suffix in (".index", ".timeindex", ".log"):
            path.with_suffix(suffix).unlink(missing_ok=True)


def _remove_file(path: Path) -> str | None:
    """Remove a file. Return its text, or None if it does not exist."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    path.unlink()
    return text


def _damage_error(path: Path, reason: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"{path} is damaged: {reason}",
        hint=f"Nothing was changed. Restore the files from a backup, or {remedy}.",
    )
