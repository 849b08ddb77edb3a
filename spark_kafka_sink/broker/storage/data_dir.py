"""The data folder of a broker, with one folder per partition, in Kafka's layout.

The broker changes only files that it has written: the segments of partitions in its journal. A
folder that contains data but no journal is rejected. `log_recovery` decides what is cut off after a
crash.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.disk_segment import DiskSegment, own_files
from spark_kafka_sink.broker.storage.file_handles import FileHandles, sync_folder
from spark_kafka_sink.broker.storage.journal import (
    LOG_START,
    RECOVERY_POINT,
    Journal,
    close_locked,
    open_locked,
)
from spark_kafka_sink.broker.storage.log_recovery import LogRecovery
from spark_kafka_sink.broker.storage.log_storage import OnBatch, StorageBackend
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.local_path import absolute_path
from spark_kafka_sink.common.text import listed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_kafka_sink.broker.config.topic_config import LogConfig

_LOG = logging.getLogger(__name__)
CLEAN_MARK = ".kafka_cleanshutdown"
JOURNAL = "cluster.journal"
LOCK = ".lock"
_NO_DATA = frozenset({LOCK, "lost+found"})
_MAX_LISTED = 5
_NOT_WRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_FREE = "Free space on the disk, or make it writable."
_SEGMENT_FILE = re.compile(r"\d{20}(\.log|\.index|\.timeindex)")


class DataDir(StorageBackend):
    """The `StorageBackend` on disk. Only one broker at a time can use the folder.

    Args:
        path: the folder, which is created if it is missing.

    Raises:
        ConfigError: the folder cannot be used, a different broker uses it, or it contains data that
            this broker did not write.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = absolute_path(path)
        self._handles = FileHandles()
        try:
            _create_folder(self.path)
            _check_own(self.path)
            self._lock = open_locked(self.path / LOCK, os.O_RDWR | os.O_CREAT)
            self.journal = self._open_journal()
            self._recovery = LogRecovery(self.path / CLEAN_MARK)
            sync_folder(self.path)
        except BlockingIOError as error:
            raise ConfigError(
                f"another broker uses the data folder {self.path}",
                hint="Stop that broker, or set another data_dir.",
            ) from error
        except OSError as error:
            raise ConfigError(
                f"the data folder {self.path} cannot be used: {error.strerror}",
                hint="Set data_dir to a folder that the broker can write to.",
            ) from error

    def folder(self, topic: str, partition: int) -> Path:
        """Return the folder of a partition's segments."""
        return self.path / f"{topic}-{partition}"

    def check_vacant(self, topic: str, partition: int) -> None:
        """Check that the partition's folder does not exist."""
        folder = self.folder(topic, partition)
        if os.path.lexists(folder):
            raise FileExistsError(
                f"{folder} exists, but the broker's journal does not list it. "
                "Move the folder, or choose another topic name"
            )

    def create(self, topic: str, partition: int, config: LogConfig) -> SegmentedStorage:
        """Create the partition's folder, which must not exist, and an empty log."""
        folder = self.folder(topic, partition)
        folder.mkdir()
        return self._new_storage(topic, partition, config, [])

    def load(
        self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch
    ) -> SegmentedStorage:
        """See `StorageBackend`.

        Raises:
            ConfigError: the files cannot be read or are damaged, or the folder is a symbolic link.
        """
        folder = self.folder(topic, partition)
        try:
            _check_no_link(folder)
            if not os.path.lexists(folder):
                _LOG.warning("the partition folder %s is missing: its records are lost", folder)
                folder.mkdir()
                self.journal.put(RECOVERY_POINT, (topic, partition), None)
            key = (topic, partition)
            segments = self._recovery.load_segments(
                folder,
                self._new_segment(folder, config),
                self.journal.get(LOG_START, key) or 0,
                self.journal.get(RECOVERY_POINT, key) or 0,
                on_batch,
            )
            return self._new_storage(topic, partition, config, segments)
        except OSError as error:
            restore = "Restore the folder from a backup, or make it readable."
            raise ConfigError(
                f"the partition folder {folder} cannot be read: {error.strerror or error}"
                + (f": {error.filename}" if error.filename else ""),
                hint=_FREE if error.errno in _NOT_WRITABLE else restore,
            ) from error

    def remove(self, topic: str, partition: int, *, only_if_empty: bool = False) -> None:
        """See `StorageBackend`. A folder that contains other files is not deleted."""
        folder = self.folder(topic, partition)
        self._handles.close_in(folder)
        if folder.is_symlink() or not folder.is_dir():
            if os.path.lexists(folder):
                _LOG.warning("not deleting %s: the broker did not create it", folder)
            return
        files = own_files(folder, _SEGMENT_FILE)
        if only_if_empty and any(path.stat().st_size for path in files):
            return
        for path in files:
            path.unlink()
        if others := sorted(path.name for path in folder.iterdir()):
            _LOG.warning(
                "not deleting %s: the broker did not write %s", folder, listed(others, _MAX_LISTED)
            )
        else:
            folder.rmdir()

    def close(self, *, clean: bool = True) -> None:
        """See `StorageBackend`. Mark clean data, so that the next broker does not verify it."""
        try:
            if clean:
                self._recovery.write_mark()
        finally:
            self._release()

    def abandon(self) -> None:
        """Release the folder, with the mark of clean data that the broker found in it, if any."""
        self.journal.release()
        try:
            self._recovery.restore_mark()
        finally:
            self._release()

    def _open_journal(self) -> Journal:
        try:
            return Journal(self.path / JOURNAL)
        except BaseException:
            close_locked(self._lock)
            raise

    def _new_storage(
        self, topic: str, partition: int, config: LogConfig, segments: Sequence[DiskSegment]
    ) -> SegmentedStorage:
        key = (topic, partition)
        return SegmentedStorage(
            config,
            self._new_segment(self.folder(topic, partition), config),
            [*segments],
            sync_journal=self.journal.sync,
            recovery_point=self.journal.get(RECOVERY_POINT, key) or 0,
            store_recovery_point=partial(self.journal.put, RECOVERY_POINT, key),
        )

    def _new_segment(self, folder: Path, config: LogConfig) -> partial[DiskSegment]:
        interval = config.index_interval_bytes
        return partial(DiskSegment, folder, interval=interval, handles=self._handles)

    def _release(self) -> None:
        self._handles.close_all()
        close_locked(self._lock)


def _create_folder(path: Path) -> None:
    """Create a folder that survives a crash of the machine, unless it exists."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def _check_own(folder: Path) -> None:
    """Check that a folder contains a journal or no data.

    Raises:
        ConfigError: the folder contains data but no journal.
    """
    names = {path.name for path in folder.iterdir()} - _NO_DATA
    if names and JOURNAL not in names:
        raise ConfigError(
            f"the data folder {folder} has {listed(sorted(names), _MAX_LISTED)}, but no "
            f"journal of this broker ({JOURNAL})",
            hint="Set data_dir to an empty or new folder, or move these files.",
        )


def _check_no_link(folder: Path) -> None:
    if folder.is_symlink():
        raise ConfigError(
            f"the partition folder {folder} is a symbolic link to {folder.readlink()}; the broker "
            "does not follow links",
            hint="Replace the link with the folder that it points to.",
        )
