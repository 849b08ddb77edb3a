"""Display the progress of a write as lines on stderr, or in a notebook."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.spark.reports.write_progress import WriteProgress


def line_display() -> Callable[[WriteProgress], None]:
    """Return a display below the cell in a notebook, otherwise a display as lines on stderr."""
    if "ipykernel" in sys.modules:
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:  # Otherwise, a script has imported IPython.
            return NotebookLine(display(_Line("waiting for the first task ..."), display_id=True))
    return lambda progress: print(f"kafkaprod: {progress}", file=sys.stderr, flush=True)


class NotebookDisplay(Protocol):
    """Interface of IPython's DisplayHandle."""

    def update(self, content: object, /) -> None:
        """Replace the displayed object."""


class NotebookLine:
    """A line below a notebook cell that each call replaces. Used by one thread at a time."""

    def __init__(self, display: NotebookDisplay) -> None:
        self._display = display
        self._called = False

    def __call__(self, progress: WriteProgress) -> None:
        """Display the progress of the writes."""
        self._called = True
        self._display.update(_Line(str(progress)))

    def close(self) -> None:
        """If no progress was received, replace the initial line."""
        if not self._called:
            self._display.update(_Line("no task reported progress"))


class _Line:
    """Text that a notebook displays without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
