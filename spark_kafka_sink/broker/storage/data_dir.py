"""The folder of a broker that keeps its logs: one folder per partition, as Kafka lays it out."""

from __future__ import annotations

import fcntl
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.disk_segment import SUFFIX, DiskSegment
from spark_kafka_sink.broker.storage.file_handles import FileHandles
from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.broker.storage.segment_recovery import scan
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.log_config import LogConfig
    from spark_kafka_sink.broker.storage.log_storage import OnBatch

CLEAN_MARK = ".kafka_cleanshutdown"


class DataDir:
    """The `StorageBackend` on disk; one broker at a time may use the folder.

    Args:
        path: the folder; made if it is missing.

    Raises:
        ConfigError: it can't be used, or another broker uses it.
    """

    __slots__ = ("_handles", "_lock", "path", "was_clean")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._handles = FileHandles()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / ".lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise ConfigError(
                f"another broker uses the data folder {self.path}",
                hint="Stop it, or give this one another data_dir",
            ) from error
        except OSError as error:
            raise ConfigError(
                f"the data folder {self.path} can't be used: {error.strerror}",
                hint="Give a data_dir that may be written",
            ) from error
        mark = self.path / CLEAN_MARK
        self.was_clean = mark.exists()
        mark.unlink(missing_ok=True)

    def open_journal(self) -> Journal:
        """See `StorageBackend`."""
        return Journal(self.path / "cluster.journal")

    def folder(self, topic: str, partition: int) -> Path:
        """Where a partition's segments lie."""
        return self.path / f"{topic}-{partition}"

    def create(self, topic: str, partition: int, config: LogConfig) -> SegmentedStorage:
        """See `StorageBackend`."""
        self.remove(topic, partition)
        folder = self.folder(topic, partition)
        folder.mkdir()
        return SegmentedStorage(config, self._maker(folder, config))

    def load(
        self, topic: str, partition: int, config: LogConfig, on_batch: OnBatch
    ) -> SegmentedStorage:
        """See `StorageBackend`."""
        folder = self.folder(topic, partition)
        folder.mkdir(exist_ok=True)
        new_segment = self._maker(folder, config)
        segments: list[DiskSegment] = []
        paths = sorted(folder.glob(f"*{SUFFIX}"))
        for number, path in enumerate(paths):
            segments.append(new_segment(int(path.stem)))
            if not scan(segments[-1], on_batch, trusted=self.was_clean):
                _delete(new_segment, paths[number + 1 :])
                break
        for sealed in segments[:-1]:
            sealed.close()
        return SegmentedStorage(config, new_segment, segments)

    def _maker(self, folder: Path, config: LogConfig) -> partial[DiskSegment]:
        interval = config.index_interval_bytes
        return partial(DiskSegment, folder, interval=interval, handles=self._handles)

    def remove(self, topic: str, partition: int) -> None:
        """See `StorageBackend`."""
        shutil.rmtree(self.folder(topic, partition), ignore_errors=True)

    def close(self) -> None:
        """See `StorageBackend`: the next broker may trust what it finds."""
        (self.path / CLEAN_MARK).touch()
        self._lock.close()


def _delete(new_segment: partial[DiskSegment], paths: list[Path]) -> None:
    """What lies behind a torn batch can't be trusted to follow it."""
    for path in paths:
        new_segment(int(path.stem)).delete()
