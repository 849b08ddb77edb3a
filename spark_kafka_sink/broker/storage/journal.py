"""The journal, which stores cluster metadata (everything except the logs) across restarts.

The journal resembles a small compacted topic. Each line of the file consists of JSON [kind, key,
value], a space, and the CRC-32C of the JSON. The last line of each key applies, and a null value
deletes the key. `put` returns after the line was passed to the operating system, and `sync` after
all lines were written to the disk.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from crc32c import crc32c
from filelock import lock_descriptor, unlock_descriptor

from spark_kafka_sink.broker.storage.file_handles import sync_folder
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOG = logging.getLogger(__name__)

Key: TypeAlias = tuple[str | int, ...]

TOPIC = "topic"
"""Journal kind for topics by name. Each value is an object that contains the id."""
LOG_START = "log start"
"""Journal kind for log start offsets by topic and partition."""
RECOVERY_POINT = "recovery point"
"""Journal kind for recovery points by topic and partition: the offsets before which a log has been
flushed. A crash of the machine can only damage later segments.
"""
TRANSACTION = "transaction"
"""Journal kind for transactional ids. Each value has the fields of `TransactionMetadata`."""

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_BEGINNINGS = (b"", b"[", b'["')
"""The possible beginnings of an incomplete line."""
_COMPACT_FROM = 10_000
"""Minimum number of lines for a compaction."""
_COMPACT_FROM_BYTES = 16 << 20
"""Size of the file from which a compaction does not depend on the number of lines."""


class Journal:
    """JSON values by kind and key.

    Args:
        path: the file, or None for a journal in which `put` has no effect.

    Raises:
        ConfigError: the file, or the draft of an interrupted compaction, is not a journal. Both
            files are unchanged.
        BlockingIOError: another process has the file open.
        OSError: the file cannot be read or written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._values: dict[str, dict[Key, Any]] = {}
        self._lines = self._size = self._compacted_size = 0
        self._has_partial_line = self._unsynced = self._has_sync_failed = False
        self._fd: int | None = None
        if path is not None:
            self._open_file(path)

    def all(self, kind: str) -> dict[Key, Any]:
        """Return all values of a kind, by key."""
        return dict(self._values.get(kind, {}))

    def get(self, kind: str, key: Key) -> Any:
        """Return the value of a key, or None if the key is not set."""
        return self._values.get(kind, {}).get(key)

    def put(self, kind: str, key: Key, value: Any) -> None:
        """Set the JSON value of a key. None deletes the key.

        Raises:
            OSError: the value was not stored. The previous value is unchanged.
        """
        if self._path is None or self._fd is None:
            return
        self._write_line(self._fd, _encode_line(kind, key, value))
        self._set_value(kind, key, value)
        self._lines += 1
        if self._is_large():
            self._try_to_compact(self._path)

    def sync(self) -> None:
        """Make all values survive a crash of the machine.

        After a failed fsync, the system may have dropped the data, and a second fsync would succeed
        without writing it. Therefore the next call writes a new file.

        Raises:
            OSError: the file cannot be synced.
        """
        if self._path is None or self._fd is None or not self._unsynced:
            return
        if self._has_sync_failed:
            self._compact_file(self._path)
            return
        try:
            os.fsync(self._fd)
        except OSError:
            self._has_sync_failed = True
            raise
        self._unsynced = False

    def close(self) -> None:
        """Sync and close the file.

        Raises:
            OSError: the file could not be synced. It is closed.
        """
        try:
            self.sync()
        finally:
            self.release()

    def release(self) -> None:
        """Close the file without syncing it."""
        if self._fd is not None:
            close_locked(self._fd)
            self._fd = None

    def _is_large(self) -> bool:
        has_many_lines = self._lines > max(_COMPACT_FROM, 4 * sum(map(len, self._values.values())))
        return has_many_lines or self._size > max(_COMPACT_FROM_BYTES, 4 * self._compacted_size)

    def _write_line(self, fd: int, line: bytes) -> None:
        """Append a line. On failure, restore the file, so that later lines remain valid."""
        if self._has_partial_line:
            self._remove_partial_line(fd)
        written = 0
        try:
            while written < len(line):
                written += os.write(fd, line[written:])
        except OSError:
            self._has_partial_line = True
            with contextlib.suppress(OSError):
                self._remove_partial_line(fd)
            raise
        self._size += written
        self._unsynced = True

    def _remove_partial_line(self, fd: int) -> None:
        """Remove an incomplete last line."""
        os.ftruncate(fd, self._size)
        self._has_partial_line = False

    def _set_value(self, kind: str, key: Key, value: Any) -> None:
        values = self._values.setdefault(kind, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value

    def _open_file(self, path: Path) -> None:
        if os.path.lexists(path):
            _check_regular(path)
        fd = open_locked(path, _APPEND)
        try:
            self._load_file(path)
            os.ftruncate(fd, self._size)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def _load_file(self, path: Path) -> None:
        lines, self._size = _read_lines(path)
        for kind, key, value in lines:
            self._set_value(kind, tuple(key), value)
        self._lines = len(lines)
        draft = _draft_path(path)
        if os.path.lexists(draft):
            _read_lines(draft)
            draft.unlink()

    def _compact_file(self, path: Path) -> None:
        """Write the current values to a new file, and replace the journal with it."""
        draft = _draft_path(path)
        lines = list(self._lines_to_keep())
        fd = open_locked(draft, _APPEND | os.O_EXCL)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.writelines(lines)
            os.fsync(fd)
            draft.replace(path)
        except OSError:
            os.close(fd)
            draft.unlink(missing_ok=True)
            raise
        self.release()
        self._fd = fd
        self._lines = len(lines)
        self._size = self._compacted_size = sum(map(len, lines))
        self._has_sync_failed = True  # A crash could restore the replaced file.
        sync_folder(path.parent)
        self._unsynced = self._has_sync_failed = False

    def _try_to_compact(self, path: Path) -> None:
        """Compact the file. If this fails, continue with the existing file and retry later."""
        try:
            self._compact_file(path)
        except OSError as error:
            _LOG.warning("cannot compact the journal %s: %s", path, error)
            self._lines = 0
            self._compacted_size = self._size

    def _lines_to_keep(self) -> Iterator[bytes]:
        for kind, values in self._values.items():
            for key, value in values.items():
                yield _encode_line(kind, key, value)


def _draft_path(path: Path) -> Path:
    """Return the path of the draft, which is the new file that a compaction writes."""
    return path.with_suffix(".new")


def open_locked(path: Path, flags: int) -> int:
    """Open a file and lock it until it is closed or the process exits.

    Both the journal and a lock file are locked, because users might delete the lock file.

    Raises:
        BlockingIOError: a different process has locked the file.
    """
    fd = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        if not lock_descriptor(fd, blocking=False):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process has locked it", str(path))
    except OSError:
        os.close(fd)
        raise
    return fd


def close_locked(fd: int) -> None:
    """Unlock and close a file. Without unlocking, a forked process would keep it locked."""
    try:
        unlock_descriptor(fd)
    finally:
        os.close(fd)


def _check_regular(path: Path) -> None:
    if path.is_symlink() or not path.is_file():
        raise _not_a_journal(path, "it is not a regular file")


def _encode_line(kind: str, key: Key, value: Any) -> bytes:
    text = json.dumps([kind, key, value], separators=(",", ":")).encode()
    return b"%b %08x\n" % (text, crc32c(text))


def _read_lines(path: Path) -> tuple[list[tuple[str, list[str | int], Any]], int]:
    """Return the lines of a journal and their size in bytes, without an incomplete last line.

    Raises:
        ConfigError: the file is not a journal, or is damaged.
    """
    _check_regular(path)
    data = path.read_bytes()
    *lines, unfinished = data.split(b"\n")
    if unfinished.strip(b"\0")[:2] not in _BEGINNINGS:
        raise _not_a_journal(path, f"line {len(lines) + 1} cannot be read")
    parsed = [_parse_line(path, number, line) for number, line in enumerate(lines, 1)]
    return parsed, len(data) - len(unfinished)


def _parse_line(path: Path, number: int, line: bytes) -> tuple[str, list[str | int], Any]:
    text, _, checksum = line.rpartition(b" ")
    with contextlib.suppress(ValueError, TypeError):
        kind, key, value = json.loads(text)
        if isinstance(kind, str) and isinstance(key, list) and int(checksum, 16) == crc32c(text):
            return kind, key, value
    raise _not_a_journal(path, f"line {number} cannot be read")


def _not_a_journal(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"{path} is damaged or was not written by this broker: {reason}",
        hint="Nothing was changed. Set another data_dir, or repair or move the file.",
    )
