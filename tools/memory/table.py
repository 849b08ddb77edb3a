"""What the cases have measured, as a table for a page and for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.docs.markdown import table
from tools.memory.case import MB, MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.memory.case import Case
    from tools.memory.run import Reading

HEADING = (
    "rows",
    "written, MB",
    "broker",
    "`buffer.memory`, MiB",
    "Arrow batch at most, MiB",
    "idle, MB",
    "peak, MB",
    "at most, MB",
    "",
)


def row(case: Case, reading: Reading) -> tuple[str, ...]:
    """The cells of one case."""
    return (
        str(case),
        f"{case.size // MB:,}",
        case.broker,
        f"{case.buffer // MIB}",
        f"{case.arrow // MIB}",
        f"{reading.idle / MB:,.0f}",
        f"{reading.peak / MB:,.0f}",
        f"{case.bound / MB:,.0f}",
        "within" if reading.peak <= case.bound else "**over**",
    )


def render(readings: Sequence[tuple[Case, Reading]]) -> str:
    """A block of Markdown."""
    return table(HEADING, [row(case, reading) for case, reading in readings])
