"""The pages, and the blocks on them that a command writes: `<!-- name:begin -->` to `name:end`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PACKAGE = ROOT / "spark_kafka_sink"

_BEGIN = re.compile(r"^<!-- ([a-z0-9-]+):begin -->$", re.MULTILINE)


def pages() -> list[Path]:
    """Every page for a reader, the README first."""
    return [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.glob("*.md"))]


def blocks(text: str) -> list[str]:
    """The names of a page's blocks, in order."""
    return _BEGIN.findall(text)


def block(text: str, name: str) -> str:
    """What stands between a block's markers.

    Raises:
        ValueError: the markers are not there, once each and in order.
    """
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->\n"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"a page must hold {begin.strip()} and {end.strip()} once")
    return text.split(begin)[1].split(end, maxsplit=1)[0]


def replace_block(text: str, name: str, new: str) -> str:
    """The text with another block between a name's markers.

    Raises:
        ValueError: see `block`.
    """
    begin = f"<!-- {name}:begin -->\n"
    return text.replace(begin + block(text, name), begin + new)


def without_blocks(text: str) -> str:
    """What people write of a page."""
    for name in blocks(text):
        text = replace_block(text, name, "")
    return text


def page_of(name: str) -> Path:
    """The page that holds a block.

    Raises:
        ValueError: none does, or several do.
    """
    found = [page for page in pages() if name in blocks(page.read_text(encoding="utf-8"))]
    if len(found) != 1:
        raise ValueError(f"{len(found)} pages hold a block {name}")
    return found[0]


def write_block(name: str, new: str) -> None:
    """Put new text into a block, on whichever page holds it."""
    page = page_of(name)
    text = replace_block(page.read_text(encoding="utf-8"), name, new)
    page.write_text(text, encoding="utf-8")
