"""The notebooks run from top to bottom, and what is saved of them is what they give today."""

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
"""A notebook checks its own results before it says this."""
MORE = "run `make notebooks` and look at what has changed"

pytestmark = pytest.mark.timeout(960)  # two minutes on a machine that has nothing else to do


def _saved(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)  # type: ignore[no-any-return,no-untyped-call]


def test_there_are_as_many_as_are_known() -> None:
    assert [path.name for path in NOTEBOOKS] == sorted(FACTS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs_and_its_saved_outputs_are_current(path: Path) -> None:
    saved, executed = _saved(path), without_machine(execute(path))
    assert shape_of(executed) == shape_of(saved), MORE
    said = "\n".join(text for cell in executed.cells if "outputs" in cell for text in texts(cell))
    assert FACTS[path.name] in said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_nothing_saved_belongs_to_a_machine(path: Path) -> None:
    notebook = _saved(path)
    nbformat.validate(notebook)
    assert findings(notebook) == []
    assert without_machine(notebook) == notebook
    assert path.stat().st_size < LARGEST
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), MORE
