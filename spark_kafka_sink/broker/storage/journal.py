"""What a broker knows besides its logs, kept across restarts: the newest value of each key.

A compacted topic in small: a file of JSON lines [kind, key, value], the last line of a key counts,
null deletes it. A line is with the operating system when `put` returns.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Key: TypeAlias = tuple[str | int, ...]

_COMPACT_FROM = 10_000
"""Lines, before anybody looks at how many of them still count."""


class Journal:
    """Values by kind and key.

    Args:
        path: the file; None remembers nothing beyond the process.
    """

    __slots__ = ("_fd", "_lines", "_path", "_values")

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._values: dict[str, dict[Key, Any]] = {}
        self._lines = 0
        self._fd: int | None = None
        if path is not None:
            self._read(path)
            self._compact(path)

    def all(self, kind: str) -> dict[Key, Any]:
        """Every value of a kind, by key."""
        return dict(self._values.get(kind, {}))

    def put(self, kind: str, key: Key, value: Any) -> None:
        """Keep a value that JSON can hold, in place of the key's former one; None deletes it."""
        if self._path is None or self._fd is None:
            return
        self._take(kind, key, value)
        os.write(self._fd, _line(kind, key, value))
        self._lines += 1
        if self._lines > max(_COMPACT_FROM, 4 * sum(map(len, self._values.values()))):
            self._compact(self._path)

    def close(self) -> None:
        """Sync the file and let go of it."""
        if self._fd is not None:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = None

    def _take(self, kind: str, key: Key, value: Any) -> None:
        values = self._values.setdefault(kind, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value

    def _read(self, path: Path) -> None:
        for line in path.read_bytes().split(b"\n") if path.exists() else ():
            try:
                kind, key, value = json.loads(line)
            except ValueError:  # The last line, truncated by a crash: never acknowledged.
                break
            self._take(kind, tuple(key), value)

    def _compact(self, path: Path) -> None:
        """Write what counts into a new file, and put that in the old one's place."""
        if self._fd is not None:
            os.close(self._fd)
        new = path.with_suffix(".new")
        lines = list(self._current())
        with new.open("wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        self._lines = len(lines)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)

    def _current(self) -> Iterator[bytes]:
        for kind, values in self._values.items():
            for key, value in values.items():
                yield _line(kind, key, value)


def _line(kind: str, key: Key, value: Any) -> bytes:
    return json.dumps([kind, key, value], separators=(",", ":")).encode() + b"\n"
