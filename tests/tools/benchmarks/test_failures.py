"""A failed contestant stays in the tables, and the other contestants continue."""

from __future__ import annotations

import json
import sys

import pytest

from tools.benchmarks.core.codec import Place, codec_table
from tools.benchmarks.core.contestants import LIBRDKAFKA, OURS
from tools.benchmarks.core.rates import core_figures, latency_figures
from tools.benchmarks.payload import RANDOM
from tools.benchmarks.results import ContestantError, Sample, Series, attempt, run_contestant
from tools.benchmarks.spark.writes import rate_figures

SAMPLE = Sample(records=1_000_000, seconds=2.0, cpu_s=0.5, peak_mib=100.0, p50_us=1000, max_us=9000)
FULL = "die produce failed: the queue is full at this rate"


def fail() -> Sample:
    raise ContestantError(f"['librdkafka_bench'] ended with status 1:\n{FULL}\n")


def series(**facts: object) -> list[Series]:
    """Return a series that always failed, one that failed once and one that never failed."""
    messages: list[str] = []
    made = [Series(name, facts=facts) for name in (LIBRDKAFKA, OURS, "third")]
    made[0].add(fail, messages.append)
    made[1].add(fail, messages.append)
    made[1].add(lambda: SAMPLE, messages.append)
    made[2].add(lambda: SAMPLE, messages.append)
    assert len(messages) == 2
    assert all(FULL in text for text in messages)
    return made


def test_rates_of_other_contestants_are_shown() -> None:
    core = core_figures(series(payload=RANDOM))
    for table in (core.tables[0], rate_figures(series()).tables[0]):
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert [row[2] for row in table.rows] == ["failed", "0.50", "0.50"]
        assert f"{LIBRDKAFKA}, none" in table.notes
        assert f"failed 1 times: {FULL}." in table.notes
        assert f"{OURS}, none" in table.notes
        assert "third" not in table.notes
        assert FULL in table.markdown()
    assert core.targets[0].met is None, "librdkafka failed"


def test_ranks_of_the_codec() -> None:
    made = [Series(location, "lz4") for location in Place]
    made[0].add(fail, lambda _: None)
    made[1].add(lambda: SAMPLE, lambda _: None)
    made[2].add(fail, lambda _: None)
    table = codec_table(made)
    assert [row[2] for row in table.rows] == ["failed", "0.50", "failed"]
    assert [row[4] for row in table.rows] == ["-", "-", "-"]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_latencies_of_other_contestants_are_shown() -> None:
    figures = latency_figures(series(rate=100_000, **{"linger.ms": 0}))
    (table,) = figures.tables
    assert [row[3] for row in table.rows] == ["failed", "1.00", "1.00"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert FULL in table.notes
    assert [target.met for target in figures.targets] == [None, None]


def test_failures_in_json() -> None:
    first, second, _ = (json.loads(json.dumps(one.to_dict())) for one in series())
    assert "median_records_per_s" not in first
    assert FULL in first["failures"][0]
    assert second["median_records_per_s"] == 500_000
    assert len(second["samples"]) == len(second["failures"]) == 1


def test_output_of_a_failed_process_is_quoted() -> None:
    script = f"import sys; sys.exit({FULL!r})"
    with pytest.raises(ContestantError, match=FULL):
        run_contestant([sys.executable, "-c", script])


def test_other_errors_end_the_run() -> None:
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 // 0, [], lambda _: None)
