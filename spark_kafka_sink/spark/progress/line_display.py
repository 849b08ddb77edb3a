"""Where the lines of progress are shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.spark.progress.write_progress import WriteProgress


def line_display() -> Callable[[WriteProgress], None]:
    """Below the cell in a notebook, else a line of stderr."""
    if "ipykernel" in sys.modules:
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:  # else a script has imported it
            handle = display(_Line("waiting for the first task ..."), display_id=True)  # type: ignore[no-untyped-call]
            return lambda found: handle.update(_Line(str(found)))
    return lambda found: print(f"kafkaprod: {found}", file=sys.stderr, flush=True)


class _Line:
    """Text that a notebook shows without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
