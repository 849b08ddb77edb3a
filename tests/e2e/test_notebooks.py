"""The notebooks run from top to bottom, and their saved outputs are current."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import pytest

from tools.notebooks import LARGEST, NOTEBOOKS, execute, findings, shape_of, texts, without_machine

if TYPE_CHECKING:
    from pathlib import Path

    from nbformat import NotebookNode

FACTS = {
    "01-etl.ipynb": "327,346 flights and 223 routes: raw files, report and Kafka agree",
    "02-stream.ipynb": "50,000 readings in Kafka, none lost",
    "03-slow-job.ipynb": "40,000 records each time",
    "04-formats.ipynb": "1,000 orders with schema 1, 1,000 orders with schema 2",
}
"""Text that each notebook prints after checking its results."""
UPDATE_HINT = "run `make notebooks` and check the changes"

pytestmark = pytest.mark.timeout(960)  # takes two minutes on an idle machine


def saved_notebook(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def test_all_notebooks_are_tested() -> None:
    assert [path.name for path in NOTEBOOKS] == sorted(FACTS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs_and_saved_outputs_are_current(path: Path) -> None:
    saved, executed = saved_notebook(path), without_machine(execute(path))
    assert shape_of(executed) == shape_of(saved), UPDATE_HINT
    output = "\n".join(text for cell in executed.cells if "outputs" in cell for text in texts(cell))
    assert FACTS[path.name] in output


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_saved_outputs_contain_no_machine_specific_data(path: Path) -> None:
    notebook = saved_notebook(path)
    nbformat.validate(notebook)
    assert findings(notebook) == []
    assert without_machine(notebook) == notebook
    assert path.stat().st_size < LARGEST
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), UPDATE_HINT
