"""What of a notebook's outputs is the same in every run: their kinds, and texts without numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

VARIES = "varies"
"""Tag of a cell whose words are not the same in every run, such as advice on how fast it was."""
_NUMBER = re.compile(r"\d[\d,.]*(?:e[+-]?\d+)?")
_RULE = re.compile(r"[ \t]+|-{2,}")
_UNIT = re.compile(r"# [kMG]?B\b")
_PLURAL = re.compile(r"# (\w+?)(?:y|ies|es|s)?\b")


@dataclass(frozen=True, slots=True)
class OutputShape:
    """One output of the cell `cell`: its kind, with MIME types, and its masked texts."""

    cell: str
    kind: str
    texts: tuple[str, ...] = ()


def shape_of(notebook: NotebookNode) -> list[OutputShape]:
    """The shapes of all outputs, in order."""
    return [
        _shape(cell, output)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]


def masked(text: str) -> str:
    """The text with `#` for each number, one space for any, no plurals of what is counted, and
    `B` for kB and MB."""
    numbers = _NUMBER.sub("#", _RULE.sub(" ", text))
    return _PLURAL.sub(r"# \1", _UNIT.sub("# B", numbers)).strip()


def _shape(cell: NotebookNode, output: NotebookNode) -> OutputShape:
    if output.output_type == "stream":
        kind, found = f"stream {output.name}", [output.text]
    elif output.output_type == "error":
        kind, found = f"error {output.ename}", [output.evalue]
    else:
        kinds = sorted(output.data)
        kind = " ".join((output.output_type, *kinds))
        found = [output.data[each] for each in kinds if each.startswith("text/")]
    varies = VARIES in cell.metadata.get("tags", ())
    return OutputShape(cell.id, kind, () if varies else tuple(masked(text) for text in found))
