"""Memory limits of the cases, and the table of results."""

from __future__ import annotations

from dataclasses import replace

from tools.memory.__main__ import CASES, HEADING, MB, MIB, SPARKS_ARROW_BATCH, Case, Reading, row


def test_a_larger_arrow_batch_counts_twice() -> None:
    case = Case(size=MB, buffer=64 * MIB)
    assert case.bound == 200 * MB + 64 * MIB
    assert replace(case, arrow=SPARKS_ARROW_BATCH).bound == case.bound + 120 * MIB


def test_table_marks_exceeded_limits() -> None:
    reading = Reading(idle=MB, peak=CASES[0].bound)
    cells = row(CASES[0], reading)
    assert len(cells) == len(HEADING)
    assert cells[-1] == "within"
    assert row(CASES[0], replace(reading, peak=CASES[0].bound + 1))[-1] == "**over**"
