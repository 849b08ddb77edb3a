"""Outputs that are saved in notebooks, and their comparison with another run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from tools.notebooks import findings, masked, shape_of, without_machine

if TYPE_CHECKING:
    from nbformat import NotebookNode


def _notebook(*outputs: dict[str, Any], tags: tuple[str, ...] = ()) -> NotebookNode:
    cell = {
        "cell_type": "code",
        "id": "one",
        "execution_count": 1,
        "metadata": {"execution": {"iopub.status.busy": "2026-01-01"}, "tags": list(tags)},
        "source": "",
        "outputs": list(outputs),
    }
    language = {"name": "python", "version": "3.11.2"}
    data = {"cells": [cell], "metadata": {"language_info": language}, "nbformat": 4}
    return nbformat.reads(json.dumps({**data, "nbformat_minor": 5}), as_version=4)


def _printed(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def _shown(**data: str) -> dict[str, Any]:
    found = {kind.replace("_", "/"): value for kind, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": found}


def test_times_versions_and_stderr_are_not_saved() -> None:
    notebook = _notebook(_printed("a\n"), _printed("WARN", "stderr"), _printed("b\n"))
    saved = without_machine(notebook)
    assert [output.text for output in saved.cells[0].outputs] == ["a\nb\n"]
    assert "execution" not in saved.cells[0].metadata
    assert saved.metadata.language_info == {"name": "python"}
    assert len(notebook.cells[0].outputs) == 3, "the executed notebook is unchanged"


@pytest.mark.parametrize("text", ["see /tmp/abc/x.json", "'/home/ann/a'", "at 10.1.2.3:9092"])
def test_machine_specific_text_is_detected(text: str) -> None:
    (found,) = findings(_notebook(_shown(text_plain=text)))
    assert found.removeprefix("cell one: ") in text


def test_localhost_markup_and_images_are_allowed() -> None:
    shown = _shown(text_html="<td>1/2</td></table>", image_png="/tmp/AAAA")
    assert findings(_notebook(_printed("127.0.0.1:9092, 1/var/2"), shown)) == []


def test_numbers_are_masked() -> None:
    one = _notebook(_printed("12 s: 3,402 records\n"), _shown(image_png="AAAA"))
    two = _notebook(_printed("9.5 s: 1 record\n"), _shown(image_png="BBBB"))
    assert shape_of(one) == shape_of(two)
    assert [each.kind for each in shape_of(one)] == ["stream stdout", "display_data image/png"]
    assert shape_of(one) != shape_of(_notebook(_printed("12 s: none\n"), _shown(image_png="A")))
    assert shape_of(one) != shape_of(_notebook(_printed("12 s: 3,402 records\n")))


def test_varying_cells_compare_only_output_types() -> None:
    one, two, other = (
        _notebook(output, tags=("varies",))
        for output in (_printed("fast"), _printed("slow"), _shown(text_plain="fast"))
    )
    assert shape_of(one) == shape_of(two) != shape_of(other)


def test_plurals_units_and_widths_of_columns_are_masked() -> None:
    assert masked("998.9 kB, of") == masked("1.0 MB, of")
    assert masked("1 retry, 12 batches\n---- ----") == masked("10 retries, 1 batch\n-- ------")
