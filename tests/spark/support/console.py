"""Console output of Spark: stderr of its JVM, including that of its Python workers."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.support.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WAIT_S = 60


@dataclass(slots=True)
class Console:
    """A file with the console output of a JVM."""

    path: Path

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Redirect stderr of processes started in this context to the file, permanently."""
        kept = os.dup(2)
        with self.path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)

    def mark(self) -> int:
        """Return the current end of the output, for `text` and `wait_for`."""
        return self.path.stat().st_size

    def text(self, since: int = 0) -> str:
        """Return the output after a mark."""
        return self.path.read_bytes()[since:].decode(errors="replace")

    def wait_for(self, expected: str, since: int = 0) -> str:
        """Wait for `expected` and return the output after a mark; output of workers is delayed.

        Raises:
            TimeoutError: `expected` was not printed.
        """
        if not poll(lambda: expected in self.text(since), _WAIT_S):
            printed = self.text(since)[-3000:]
            raise TimeoutError(f"{expected!r} was not printed, but:\n{printed}")
        return self.text(since)
