"""Where the lines of progress are shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.spark.progress.write_progress import WriteProgress


def line_display() -> Callable[[WriteProgress], None]:
    """Below the cell in a notebook, else a line of stderr."""
    if "ipykernel" in sys.modules:
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:  # else a script has imported it
            return NotebookLine(display(_Line("waiting for the first task ..."), display_id=True))  # type: ignore[no-untyped-call]
    return lambda found: print(f"kafkaprod: {found}", file=sys.stderr, flush=True)


class NotebookDisplay(Protocol):
    """IPython's DisplayHandle."""

    def update(self, shown: object, /) -> None:
        """Show this in the place of what was there."""


class NotebookLine:
    """A line below a cell, which each call changes; used by one thread at a time."""

    def __init__(self, display: NotebookDisplay) -> None:
        self._display = display
        self._called = False

    def __call__(self, found: WriteProgress) -> None:
        """Show how far the writes have come."""
        self._called = True
        self._display.update(_Line(str(found)))

    def close(self) -> None:
        """Nothing will come any more: don't leave a line that says that something will."""
        if not self._called:
            self._display.update(_Line("no task has told its progress"))


class _Line:
    """Text that a notebook shows without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
