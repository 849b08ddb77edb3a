"""The generated tables are complete, and every row has a description."""

import json
from collections.abc import Callable

import pytest

from tools.benchmarks.comparison import comparison
from tools.benchmarks.page import FIGURES, PUBLISHED
from tools.docs.__main__ import GENERATED
from tools.docs.options import render_options, render_security_options, render_sink_options
from tools.support.jars import ROOT


def test_rates_in_the_readme_are_the_published_ones() -> None:
    figures = json.loads((PUBLISHED / FIGURES).read_text(encoding="utf-8"))
    assert comparison(figures["parts"]) in (ROOT / "README.md").read_text(encoding="utf-8")


def rows_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("render", [render_options, render_sink_options, render_security_options])
def test_descriptions_of_options_are_sentences(render: Callable[[], str]) -> None:
    assert all(row.endswith(". |") for row in rows_of(render()))


def test_no_row_lacks_its_last_cell() -> None:
    for name, render in GENERATED.items():
        for row in rows_of(render()):
            assert name == "profiles" or not row.endswith("|  |"), f"{name}: {row}"
