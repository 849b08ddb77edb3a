"""Runs a notebook from top to bottom in a kernel of its own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""A JVM that lives for a minute spends most of it on compiling otherwise."""


def execute(path: Path) -> NotebookNode:
    """The notebook with the outputs of this run.

    Raises:
        CellExecutionError: a cell has failed, with its traceback.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=600, startup_timeout=300, kernel_name="python3", record_timing=False
    )
    # Spark and pandas leave nothing in the checkout; a checkout that is not installed is found.
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "JDK_JAVA_OPTIONS": _QUICK, "PYTHONPATH": search}
    with tempfile.TemporaryDirectory() as folder:
        return client.execute(cwd=folder, env=environment)
