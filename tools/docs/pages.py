"""Blocks of README.md that come from the code: `python -m tools.checks.readme` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.config.options_markdown import render_options

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PACKAGE = ROOT / "spark_kafka_sink"

BLOCKS: dict[str, Callable[[], str]] = {"options": render_options}
"""What each marked block holds."""


def block(text: str, name: str) -> str:
    """What stands between a block's markers.

    Raises:
        ValueError: the markers are not there, once each and in order.
    """
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->\n"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"README.md must hold {begin.strip()} and {end.strip()} once")
    return text.split(begin)[1].split(end, maxsplit=1)[0]


def replace_block(text: str, name: str, new: str) -> str:
    """The text with another block between a name's markers.

    Raises:
        ValueError: see `block`.
    """
    begin = f"<!-- {name}:begin -->\n"
    return text.replace(begin + block(text, name), begin + new)


def renewed(text: str) -> str:
    """The README with each block as the code has it now."""
    for name, render in BLOCKS.items():
        text = replace_block(text, name, render())
    return text


def main() -> None:
    """Write the blocks."""
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
