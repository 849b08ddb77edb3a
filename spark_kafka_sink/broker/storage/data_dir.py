"""The data folder of a broker that keeps its logs: one folder per partition, in Kafka's layout.

The broker only changes files that it wrote: segments of partitions that are in its journal. It
refuses a folder that has data but no journal.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.storage.disk_segment import DiskSegment, FileHandles, scan
from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.log_storage import LogConfig, OnBatch

LOG = logging.getLogger(__name__)
CLEAN_MARK: Final = ".kafka_cleanshutdown"
JOURNAL: Final = "cluster.journal"
LOCK: Final = ".lock"
_NO_DATA: Final = frozenset({LOCK, "lost+found"})
_SHOWN: Final = 5
_LOG_FILE: Final = re.compile(r"\d{20}\.log")
_SEGMENT_FILE: Final = re.compile(r"\d{20}(\.log|\.index|\.timeindex)")


class DataDir:
    """The `StorageBackend` on disk; one broker at a time may use the folder.

    Args:
        path: the folder; created if missing.

    Raises:
        ConfigError: the folder cannot be used, another broker uses it, or it has data that this
            broker did not write.
    """

    __slots__ = ("_handles", "_journal", "_lock", "path", "was_clean")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._handles = FileHandles()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _refuse_foreign(self.path)
            self._lock = _locked(self.path / LOCK)
            self._journal = self._opened_journal()
            self.was_clean = _remove_mark(self.path / CLEAN_MARK)
        except BlockingIOError as error:
            raise ConfigError(
                f"another broker uses the data folder {self.path}",
                hint="Stop it, or give this one another data_dir",
            ) from error
        except OSError as error:
            raise ConfigError(
                f"the data folder {self.path} can't be used: {error.strerror}",
                hint="Give a data_dir that may be written",
            ) from error

    def _opened_journal(self) -> Journal:
        try:
            return Journal(self.path / JOURNAL)
        except BaseException:
            os.close(self._lock)
            raise

    def open_journal(self) -> Journal:
        """See `StorageBackend`."""
        return self._journal

    def folder(self, topic: str, partition: int) -> Path:
        """Return the folder of a partition's segments."""
        return self.path / f"{topic}-{partition}"

    def check_vacant(self, topic: str, partition: int) -> None:
        """See `StorageBackend`."""
        folder = self.folder(topic, partition)
        if os.path.lexists(folder):
            raise FileExistsError(
                f"{folder} exists, but the broker's journal does not list it. "
                "Move it away, or give the topic another name"
            )

    def create(self, topic: str, partition: int, config: LogConfig) -> SegmentedStorage:
        """See `StorageBackend`."""
        folder = self.folder(topic, partition)
        folder.mkdir()
        return SegmentedStorage(config, self._maker(folder, config))

    def load(
        self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch
    ) -> SegmentedStorage:
        """See `StorageBackend`.

        Raises:
            ConfigError: the files cannot be read, or are not what the broker left.
        """
        folder = self.folder(topic, partition)
        try:
            if not os.path.lexists(folder):
                LOG.warning("the partition folder %s is missing: its records are lost", folder)
                folder.mkdir()
            segments = self._segments(folder, config, on_batch)
            return SegmentedStorage(config, self._maker(folder, config), segments)
        except OSError as error:
            raise ConfigError(
                f"the partition folder {folder} can't be read: {error.strerror or error}"
                + (f": {error.filename}" if error.filename else ""),
                hint="Restore it as the broker left it, or make it readable",
            ) from error

    def _segments(self, folder: Path, config: LogConfig, on_batch: OnBatch) -> list[DiskSegment]:
        """Open the segments of a partition; drop everything after an incomplete batch."""
        segments: list[DiskSegment] = []
        end = 0
        paths = _own_files(folder, _LOG_FILE)
        for number, path in enumerate(paths):
            if (base := int(path.stem)) < end:
                raise _damaged(path, f"it begins before offset {end}, where the one before it ends")
            segment = self._maker(folder, config)(base, is_new=False)
            segments.append(segment)
            if not scan(segment, on_batch, trusted=self.was_clean):
                if self.was_clean:
                    raise _damaged(path, f"there is no batch at byte {segment.table.size}")
                self._cut(segment, paths[number + 1 :])
                break
            end = base if segment.table.last_offset is None else segment.table.last_offset + 1
        for segment in segments:
            segment.trim_indexes()
        for sealed in segments[:-1]:
            sealed.close()
        return segments

    def _cut(self, segment: DiskSegment, later: list[Path]) -> None:
        """Truncate a log after its last complete batch; nothing after it can be trusted."""
        lost = segment.path.stat().st_size - segment.table.size
        LOG.warning(
            "%s is truncated by %d bytes that are no whole batch; %d later segments are deleted",
            segment.path,
            lost,
            len(later),
        )
        segment.cut()
        for path in later:
            for name in (f"{path.stem}{suffix}" for suffix in (".index", ".timeindex", ".log")):
                path.with_name(name).unlink(missing_ok=True)

    def _maker(self, folder: Path, config: LogConfig) -> partial[DiskSegment]:
        interval = config.index_interval_bytes
        return partial(DiskSegment, folder, interval=interval, handles=self._handles)

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """See `StorageBackend`: a folder is kept if it has files that are not segments."""
        folder = self.folder(topic, partition)
        if folder.is_symlink() or not folder.is_dir():
            if os.path.lexists(folder):
                LOG.warning("%s is kept: it is not a folder that the broker created", folder)
            return
        files = _own_files(folder, _SEGMENT_FILE)
        if only_if_empty and any(path.stat().st_size for path in files):
            return
        for path in files:
            self._handles.close(path)
            path.unlink()
        if others := sorted(path.name for path in folder.iterdir()):
            LOG.warning("%s is kept: the broker did not write %s", folder, _shown(others))
        else:
            folder.rmdir()

    def close(self) -> None:
        """See `StorageBackend`: marks the data as cleanly closed for the next broker."""
        (self.path / CLEAN_MARK).touch()
        os.close(self._lock)

    def abandon(self) -> None:
        """See `StorageBackend`."""
        self._journal.release()
        self._handles.close_all()
        if self.was_clean:
            (self.path / CLEAN_MARK).touch()
        os.close(self._lock)


def _refuse_foreign(folder: Path) -> None:
    """Check that a folder is this broker's, or has no data.

    Raises:
        ConfigError: the folder has data but no journal.
    """
    names = {path.name for path in folder.iterdir()} - _NO_DATA
    if names and JOURNAL not in names:
        raise ConfigError(
            f"the data folder {folder} has {_shown(sorted(names))}, but no journal of this broker "
            f"({JOURNAL})",
            hint="Give a data_dir that is empty or new, or move these files away",
        )


def _shown(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _locked(path: Path) -> int:
    """Lock a file until it is closed.

    Raises:
        BlockingIOError: another process has locked it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_mark(mark: Path) -> bool:
    """Remove the mark of a clean shutdown; return True if it was there.

    Without the mark, the next start after this process is killed does not trust the data.
    """
    was_clean = mark.exists()
    mark.unlink(missing_ok=True)
    return was_clean


def _own_files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return the segment files in a partition's folder, by name; links are ignored."""
    with os.scandir(folder) as entries:
        found = [one.name for one in entries if one.is_file(follow_symlinks=False)]
    return [folder / name for name in sorted(found) if pattern.fullmatch(name)]


def _damaged(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path} is damaged: {why}",
        hint=f"Nothing was changed. Restore the file, or delete {CLEAN_MARK} in the data folder to "
        "truncate the log there",
    )
