"""What Spark prints: the standard error of its JVM, which passes on that of its Python workers."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WAIT_S = 60


@dataclass(slots=True)
class Console:
    """A file that a JVM writes to as its console."""

    path: Path

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """A process that is started in here prints into the file for all its life."""
        kept = os.dup(2)
        with self.path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)

    def mark(self) -> int:
        """The end of what was printed so far; `text` and `wait_for` go on from there."""
        return self.path.stat().st_size

    def text(self, since: int = 0) -> str:
        """What was printed after a mark."""
        return self.path.read_bytes()[since:].decode(errors="replace")

    def wait_for(self, wanted: str, since: int = 0) -> str:
        """The text after a mark, once it holds `wanted`; Spark passes its workers' output on late.

        Raises:
            TimeoutError: it was not printed.
        """
        deadline = time.monotonic() + _WAIT_S
        while wanted not in (printed := self.text(since)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{wanted!r} was not printed, but:\n{printed[-3000:]}")
            time.sleep(0.05)
        return printed
