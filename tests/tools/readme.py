"""Blocks of README.md that come from the code: `python -m tests.tools.readme` writes them anew."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.base.options_markdown import render_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PACKAGE = ROOT / "spark_kafka_sink"
FOLDERS = (
    ".",
    "spark",
    "cli",
    "producer",
    "broker",
    "broker/faults",
    "broker/handlers",
    "client",
    "records",
    "protocol",
    "base",
)
WIDTH = 120
_SENTENCE = re.compile(r"(.+?)\.(?:\s|$)", re.DOTALL)
_BREAK = re.compile(r"[:;,] ")


def package_files() -> list[Path]:
    """Every module of the package, and the one that Spark finds."""
    return [ROOT / "pyspark_kafkaprod.py", *sorted(PACKAGE.rglob("*.py"))]


def render_files() -> str:
    """The file map: each module with the first sentence of its docstring."""
    return "\n".join(["```text", *_map_lines(), "```", ""])


def _map_lines() -> Iterator[str]:
    yield _line("pyspark_kafkaprod.py", ROOT / "pyspark_kafkaprod.py")
    for folder in FOLDERS:
        path = PACKAGE / folder
        yield f"{path.relative_to(ROOT)}/"
        yield from (_line(f"  {file.name}", file) for file in sorted(path.glob("*.py")))


def _line(name: str, file: Path) -> str:
    return f"{name:25} {_sentence(file.read_text(encoding='utf-8'), WIDTH - 26)}"


def _sentence(source: str, width: int) -> str:
    """The docstring's first sentence; a long one without its last clauses."""
    text = ast.get_docstring(ast.parse(source)) or ""
    found = _SENTENCE.match(text)
    sentence = " ".join((found.group(1) if found else text).split())
    while len(sentence) > width and (breaks := list(_BREAK.finditer(sentence))):
        sentence = sentence[: breaks[-1].start()]
    return sentence


BLOCKS: dict[str, Callable[[], str]] = {"options": render_options, "files": render_files}
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
