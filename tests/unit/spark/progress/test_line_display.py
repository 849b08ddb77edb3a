"""Where progress is shown outside a notebook."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.spark.progress.line_display import line_display
from spark_kafka_sink.spark.progress.write_progress import WriteProgress

if TYPE_CHECKING:
    from _pytest.capture import CaptureFixture


@pytest.mark.parametrize("imported", [False, True], ids=["", "with ipykernel"])
def test_a_script_gets_lines_of_stderr(
    imported: bool, monkeypatch: pytest.MonkeyPatch, capsys: CaptureFixture[str]
) -> None:
    if imported:
        monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    progress = WriteProgress(waits_for={})
    line_display()(progress)
    assert capsys.readouterr().err == f"kafkaprod: {progress}\n"
