"""The tables and the targets of cost of exactly-once."""

from __future__ import annotations

import json

import pytest

from tools.benchmarks.exactly_once import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    TRIGGER,
    EndingError,
    ExactlyOnceFigures,
    check_ended,
    exactly_once_tables,
    exactly_once_targets,
    in_turns,
)
from tools.benchmarks.processes import ContestantError
from tools.benchmarks.results import Sample


def _measured(seconds: float, cpu_s: float) -> Sample:
    return Sample(records=1_000_000, seconds=seconds, cpu_s=cpu_s)


def _fail() -> Sample:
    raise ContestantError("Spark failed:\nno broker\n")


def _figures(seconds: float, added_ms: int, ending_s: float) -> ExactlyOnceFigures:
    """At-least-once: a million records a second, and 101 to 120 ms for a micro-batch."""
    figures = ExactlyOnceFigures.of(1_000)
    for guarantee, took in ((AT_LEAST_ONCE, 1.0), (EXACTLY_ONCE, seconds)):
        figures.jobs[guarantee].add(lambda took=took: _measured(took, took / 2), lambda _: None)  # type: ignore[misc]
    for guarantee, more in ((AT_LEAST_ONCE, 0), (EXACTLY_ONCE, added_ms)):
        figures.streams[guarantee].durations += [
            {TRIGGER: 100 + number + more, "addBatch": 50 + more} for number in range(1, 21)
        ]
    figures.endings.seconds.append(ending_s)
    return figures


def test_what_is_added_stands_below_the_two_guarantees() -> None:
    figures = _figures(1.25, 40, 0.5)
    jobs, streams = exactly_once_tables(figures)
    assert all(len(row) == len(table.columns) for table in (jobs, streams) for row in table.rows)
    assert jobs.rows == [
        ("at-least-once", "1.00", "1.00 - 1.00", "0.500"),
        ("exactly-once", "0.80", "0.80 - 0.80", "0.625"),
        ("cost of exactly-once", "0.80x", "", "+0.125 (1.25x)"),
    ]
    assert [row[:5] for row in streams.rows] == [
        ("at-least-once", "110", "119", "0", "50"),
        ("exactly-once", "150", "159", "0", "90"),
        ("added by exactly-once", "+40", "+40", "+0", "+40"),
    ]
    assert streams.notes == "1,000 transactions end in 0.50 s (EndTxn, one broker)."
    assert json.loads(json.dumps(figures.to_dict()))["endings"]["seconds"] == [0.5]


@pytest.mark.parametrize(
    ("seconds", "added_ms", "ending_s", "met"),
    [(1.05, 150, 2.9, True), (1.25, 151, 3.1, False)],
)
def test_targets(seconds: float, added_ms: int, ending_s: float, met: bool) -> None:
    targets = list(exactly_once_targets(_figures(seconds, added_ms, ending_s)))
    assert [target.met for target in targets] == [met] * 3


def test_where_one_guarantee_failed_nothing_is_judged() -> None:
    figures = ExactlyOnceFigures.of(1_000)
    figures.jobs[AT_LEAST_ONCE].add(lambda: _measured(1.0, 0.5), lambda _: None)
    figures.jobs[EXACTLY_ONCE].add(_fail, lambda _: None)
    jobs, streams = exactly_once_tables(figures)
    assert all(len(row) == len(table.columns) for table in (jobs, streams) for row in table.rows)
    assert [row[1] for row in (*jobs.rows, *streams.rows)] == ["1.00", *["failed"] * 3]
    assert "a batch job, exactly-once, failed 1 times: no broker." in streams.notes
    assert [target.met for target in exactly_once_targets(figures)] == [None] * 3


def test_a_transaction_that_does_not_end_is_a_failure() -> None:
    check_ended([0, 0])
    with pytest.raises(EndingError, match=r"\[51\]"):
        check_ended([0, 51])


def test_every_other_round_begins_with_the_other_guarantee() -> None:
    firsts = [in_turns({AT_LEAST_ONCE: 1, EXACTLY_ONCE: 2}, number)[0] for number in range(3)]
    assert firsts == [(AT_LEAST_ONCE, 1), (EXACTLY_ONCE, 2), (AT_LEAST_ONCE, 1)]
