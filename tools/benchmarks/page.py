"""Figures on a page: a folder with a draft of it, and docs/benchmarks.md.

`python -m tools.benchmarks.page [FOLDER]` publishes the draft of the last run.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.kafka.jars import ROOT
from tools.docs.pages import DOCS, write_block

if TYPE_CHECKING:
    from tools.benchmarks.results import Results

DRAFT = ROOT / "build" / "benchmarks"
FIGURES, TABLES = "figures.json", "figures.md"
_PUBLISHED = DOCS / "benchmarks"
_BLOCK = "figures"


def write_draft(results: Results, folder: Path) -> None:
    """The tables beside the samples, which are there."""
    (folder / TABLES).write_text(results.markdown())


def publish(folder: Path) -> None:
    """Put a draft's tables on the page, and its samples and charts where the page finds them."""
    _PUBLISHED.mkdir(exist_ok=True)
    for source in (folder / FIGURES, *sorted(folder.glob("*.svg"))):
        shutil.copy(source, _PUBLISHED / source.name)
    write_block(_BLOCK, (folder / TABLES).read_text())


if __name__ == "__main__":
    publish(Path(sys.argv[1]) if sys.argv[1:] else DRAFT)
