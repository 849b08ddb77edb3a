"""What a page refers to: other pages and their headings, and files named in backticks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.docs.pages import PACKAGE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

_LINK = re.compile(r"\]\((?!https?:)([^)\s]*)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|conf|txt|ipynb|toml|jsonl)))`")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", each) for each in _HEADING.findall(_prose(text)))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def broken_links(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    return [link for link in _LINK.findall(_prose(_text(page))) if not _leads(page, link)]


def _leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(_text(target))


def missing_paths(page: Path) -> list[str]:
    """Paths in backticks that are neither in the repository nor in the package."""
    named = _PATH.findall(_prose(_text(page)))
    return [path for path in named if not any((base / path).exists() for base in (ROOT, PACKAGE))]


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _prose(text: str) -> str:
    return _CODE.sub("", text)
