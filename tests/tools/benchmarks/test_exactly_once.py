"""Tables and targets for the cost of exactly-once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tools.benchmarks.costs import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    TRIGGER,
    EndingError,
    MicroBatches,
    check_ended,
    exactly_once_figures,
)
from tools.benchmarks.results import Sample, Series, take_turns

if TYPE_CHECKING:
    from tools.benchmarks.tables import Figures


def _figures(seconds: float, added_ms: int, ending_s: float) -> Figures:
    """Return figures; at-least-once has a million records/s and 101 to 120 ms per micro-batch."""
    jobs = [
        Series(each, samples=[Sample(records=1_000_000, seconds=took, cpu_s=took / 2)])
        for each, took in ((AT_LEAST_ONCE, 1.0), (EXACTLY_ONCE, seconds))
    ]
    streams = {
        each: MicroBatches(
            [{TRIGGER: 100 + number + more, "addBatch": 50 + more} for number in range(1, 21)]
        )
        for each, more in ((AT_LEAST_ONCE, 0), (EXACTLY_ONCE, added_ms))
    }
    return exactly_once_figures(
        jobs,
        streams,
        Series("EndTxn", samples=[Sample(records=1_000, seconds=ending_s, cpu_s=0.0)]),
    )


def test_added_cost_row() -> None:
    figures = _figures(1.25, 40, 0.5)
    jobs, streams = figures.tables
    assert all(len(row) == len(table.columns) for table in (jobs, streams) for row in table.rows)
    assert jobs.rows == [
        ("at-least-once", "1.00", "1.00 - 1.00", "1.00x", "0.500", "1.00x"),
        ("exactly-once", "0.80", "0.80 - 0.80", "0.80x", "0.625", "1.25x"),
    ]
    assert [row[:5] for row in streams.rows] == [
        ("at-least-once", "110", "119", "0", "50"),
        ("exactly-once", "150", "159", "0", "90"),
        ("added by exactly-once", "+40", "+40", "+0", "+40"),
    ]
    assert streams.notes == "1,000 transactions end in 0.50 s (EndTxn)."
    assert json.loads(json.dumps(figures.samples))["endings"]["samples"][0]["seconds"] == 0.5


@pytest.mark.parametrize(
    ("seconds", "added_ms", "ending_s", "met"),
    [(1.05, 150, 2.9, True), (1.25, 151, 3.1, False)],
)
def test_targets(seconds: float, added_ms: int, ending_s: float, met: bool) -> None:
    targets = _figures(seconds, added_ms, ending_s).targets
    assert [target.met for target in targets] == [met] * 3


def test_no_verdict_if_one_guarantee_failed() -> None:
    sample = Sample(records=1_000_000, seconds=1.0, cpu_s=0.5)
    jobs = [Series(AT_LEAST_ONCE, samples=[sample]), Series(EXACTLY_ONCE, failures=["no broker"])]
    streams = {AT_LEAST_ONCE: MicroBatches(), EXACTLY_ONCE: MicroBatches(failures=["no disk"])}
    figures = exactly_once_figures(jobs, streams, Series("EndTxn"))
    assert all(len(row) == len(table.columns) for table in figures.tables for row in table.rows)
    assert [row[1] for table in figures.tables for row in table.rows] == ["1.00", *["failed"] * 4]
    assert "exactly-once, none, failed 1 times: no broker." in figures.tables[0].notes
    assert "a stream, exactly-once, failed 1 times: no disk." in figures.tables[1].notes
    assert [target.met for target in figures.targets] == [None] * 3


def test_incomplete_transaction_is_a_failure() -> None:
    check_ended([0, 0])
    with pytest.raises(EndingError, match=r"\[51\]"):
        check_ended([0, 51])


def test_every_other_round_begins_with_the_other_contestant() -> None:
    messages: list[str] = []
    sample = Sample(records=1, seconds=1.0, cpu_s=1.0)
    take_turns("job", 3, [(Series(name), lambda: sample) for name in ("a", "b")], messages.append)
    assert [text.removesuffix(", none")[-1] for text in messages] == ["a", "b", "b", "a", "a", "b"]
