"""Runs the notebooks and saves their outputs: all, or those that are named."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

from tools.notebooks.running import NOTEBOOKS, execute
from tools.notebooks.saved import findings, without_machine


def main(names: list[str]) -> int:
    """Run each, and save it if nothing in its outputs belongs to this machine alone."""
    bad = 0
    for path in [Path(name) for name in names] or NOTEBOOKS:
        notebook = without_machine(execute(path))
        found = findings(notebook)
        for each in found:
            print(f"{path.name}: {each}", file=sys.stderr)
        if found:
            bad += 1
            continue
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        print(f"{path.name}: {path.stat().st_size / 1000:,.0f} kB")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
