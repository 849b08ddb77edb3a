"""What is saved of a notebook's run: nothing that belongs to the machine it ran on."""

from __future__ import annotations

import copy
import getpass
import re
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbformat import NotebookNode

LARGEST = 500_000
"""Bytes of a notebook's file."""
_PATH = re.compile(r"(?<![\w.:/<])/(?:home|root|Users|tmp|work|var|usr|opt|private|mnt)/[\w./-]*")
_ADDRESS = re.compile(r"\b(?!127\.0\.0\.1\b)\d{1,3}(?:\.\d{1,3}){3}\b")


def without_machine(notebook: NotebookNode) -> NotebookNode:
    """The notebook without times, the kernel's version and what processes wrote to stderr."""
    saved = copy.deepcopy(notebook)
    saved.metadata["language_info"] = {"name": "python"}
    for cell in saved.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = list(_joined(cell.outputs))
    return saved


def findings(notebook: NotebookNode) -> list[str]:
    """Paths, addresses and names in outputs that only this machine, or this user, has."""
    patterns = [_PATH, _ADDRESS]
    names = {getpass.getuser(), socket.gethostname()} - {"root", "localhost"}
    patterns += [re.compile(rf"\b{re.escape(name)}\b") for name in names if len(name) > 3]
    return [
        f"cell {cell.id}: {match[0]}"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for text in texts(cell)
        for pattern in patterns
        for match in pattern.finditer(text)
    ]


def texts(cell: NotebookNode) -> Iterator[str]:
    """All that a cell's outputs say, but for images."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        for kind, data in output.get("data", {}).items():
            if kind.startswith("text/"):
                yield data


def _joined(outputs: list[Any]) -> Iterator[Any]:
    """Outputs without stderr, and what was printed in a row as one."""
    last: Any = None
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stderr":
                continue
            if last is not None and last.output_type == "stream":
                last.text += output.text
                continue
        last = output
        yield output
