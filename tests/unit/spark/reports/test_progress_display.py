"""The progress display of a write."""

import sys
from types import ModuleType

import pytest
from _pytest.capture import CaptureFixture

from spark_kafka_sink.spark.reports.progress_display import NotebookLine, line_display
from spark_kafka_sink.spark.reports.write_progress import WriteProgress


@pytest.mark.parametrize(
    "imported", [False, pytest.param(True, id="with ipykernel", marks=pytest.mark.deep)]
)
def test_script_writes_lines_to_stderr(
    imported: bool, monkeypatch: pytest.MonkeyPatch, capsys: CaptureFixture[str]
) -> None:
    if imported:
        monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    progress = WriteProgress(waits_for={})
    line_display()(progress)
    assert capsys.readouterr().err == f"kafkaprod: {progress}\n"


class Display:
    """A fake of the handle that IPython's `display(..., display_id=True)` returns."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, shown: object) -> None:
        self.shown.append(repr(shown))


def test_notebook_updates_one_line() -> None:
    display, progress = Display(), WriteProgress(waits_for={})
    line = NotebookLine(display)
    line(progress)
    line.close()
    assert display.shown == [str(progress)]


def test_hanging_notebook_display_does_not_block() -> None:
    display = Display()
    NotebookLine(display).close()
    assert display.shown == ["no task reported progress"]
