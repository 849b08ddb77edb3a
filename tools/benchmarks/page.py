"""Figures on a page: a folder with a draft of it, and docs/benchmarks.md.

`python -m tools.benchmarks.page [FOLDER]` publishes the draft of the last run.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.benchmarks.charts import draw_charts
from tools.docs.pages import DOCS, write_block
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from tools.benchmarks.results import Results

DRAFT = ROOT / "build" / "benchmarks"
FIGURES, TABLES = "figures.json", "figures.md"
_PUBLISHED = DOCS / "benchmarks"
_BLOCK = "figures"


def write_draft(results: Results, folder: Path) -> None:
    """The charts and the tables, from the samples that are there and beside them."""
    tables = results.markdown()
    (folder / TABLES).write_text(tables)
    for earlier in folder.glob("*.svg"):
        earlier.unlink()
    charts = draw_charts(json.loads((folder / FIGURES).read_text()), folder)
    pictures = (f"![{chart.shows}]({_PUBLISHED.name}/{chart.name})\n\n" for chart in charts)
    samples = f"\n[Every sample as JSON]({_PUBLISHED.name}/{FIGURES})\n"
    (folder / TABLES).write_text("".join([*pictures, tables, samples]))


def publish(folder: Path) -> None:
    """Put a draft's tables on the page, and its samples and charts where the page finds them."""
    _PUBLISHED.mkdir(exist_ok=True)
    for earlier in _PUBLISHED.glob("*.svg"):
        earlier.unlink()
    for source in (folder / FIGURES, *sorted(folder.glob("*.svg"))):
        shutil.copy(source, _PUBLISHED / source.name)
    write_block(_BLOCK, (folder / TABLES).read_text())


if __name__ == "__main__":
    publish(Path(sys.argv[1]) if sys.argv[1:] else DRAFT)
