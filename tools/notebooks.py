"""Run all notebooks and save their outputs: `python -m tools.notebooks`.

A test checks the saved outputs. Their kinds, and their texts without numbers, must equal those of a
new run. They must not contain machine-specific values.
"""

import copy
import getpass
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tools.support.java import QUICK_JVM

VARIES = "varies"
"""Tag of cells whose text varies between runs, such as advice that depends on speed."""
_NUMBER = re.compile(r"\d[\d,.]*(?:e[+-]?\d+)?")
_RULE = re.compile(r"[ \t]+|-{2,}")
_UNIT = re.compile(r"# [kMG]?B\b")
_PLURAL = re.compile(r"# (\w+?)(?:y|ies|es|s)?\b")
LARGEST = 500_000
"""Maximum size of a notebook file in bytes."""
_PATH = re.compile(r"(?<![\w.:/<])/(?:home|root|Users|tmp|work|var|usr|opt|private|mnt)/[\w./-]*")
_ADDRESS = re.compile(r"\b(?!127\.0\.0\.1\b)\d{1,3}(?:\.\d{1,3}){3}\b")
ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@dataclass(frozen=True, slots=True)
class OutputShape:
    """An output of cell number `cell`: its kind, its MIME types, and its masked texts."""

    cell: str
    kind: str
    texts: tuple[str, ...] = ()


def shape_of(notebook: NotebookNode) -> list[OutputShape]:
    """Return the shapes of all outputs in a notebook, in order."""
    return [
        _shape(cell, output)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]


def masked(text: str) -> str:
    """Return the text with masked numbers, spaces, units and plurals.

    Each number is replaced with `#`, and kB and MB with `B`. Rules and runs of spaces are replaced
    with a single space. Nouns after a number lose their plural.
    """
    numbers = _NUMBER.sub("#", _RULE.sub(" ", text))
    return _PLURAL.sub(r"# \1", _UNIT.sub("# B", numbers)).strip()


def _shape(cell: NotebookNode, output: NotebookNode) -> OutputShape:
    if output.output_type == "stream":
        kind, contents = f"stream {output.name}", [output.text]
    elif output.output_type == "error":
        kind, contents = f"error {output.ename}", [output.evalue]
    else:
        kinds = sorted(output.data)
        kind = " ".join((output.output_type, *kinds))
        contents = [output.data[mime_type] for mime_type in kinds if mime_type.startswith("text/")]
    varies = VARIES in cell.metadata.get("tags", ())
    return OutputShape(cell.id, kind, () if varies else tuple(masked(text) for text in contents))


def without_machine(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook without times, kernel version and stderr output."""
    saved = copy.deepcopy(notebook)
    saved.metadata["language_info"] = {"name": "python"}
    for cell in saved.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = list(_joined(cell.outputs))
    return saved


def findings(notebook: NotebookNode) -> list[str]:
    """Return the paths, addresses and names in the outputs that are specific to this machine."""
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
    """Yield all output texts of a cell, without images."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        for kind, data in output.get("data", {}).items():
            if kind.startswith("text/"):
                yield data


def _joined(outputs: list[Any]) -> Iterator[Any]:
    """Yield the outputs except stderr; consecutive prints are joined."""
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


def execute(path: Path) -> NotebookNode:
    """Run a notebook, and return it with the new outputs.

    Raises:
        CellExecutionError: a cell failed. The message contains the traceback.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=600, startup_timeout=300, kernel_name="python3", record_timing=False
    )
    # Keep files of Spark and pandas out of the checkout, and find a checkout that is not installed.
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "JDK_JAVA_OPTIONS": " ".join(QUICK_JVM), "PYTHONPATH": search}
    with tempfile.TemporaryDirectory() as folder:
        return client.execute(cwd=folder, env=environment)


def main(names: list[str]) -> int:
    """Run notebooks; save each notebook unless its outputs contain machine-specific values."""
    bad = 0
    for path in [Path(name) for name in names] or NOTEBOOKS:
        notebook = without_machine(execute(path))
        problems = findings(notebook)
        for problem in problems:
            print(f"{path.name}: {problem}", file=sys.stderr)
        if problems:
            bad += 1
            continue
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:,.0f} kB")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
