"""A contestant that fails stands in its place in the tables, and the others go on."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tools.benchmarks.core.codec import Place, codec_table
from tools.benchmarks.core.contestants import LIBRDKAFKA, OURS, RANDOM
from tools.benchmarks.core.latency import LatencySeries, latency_table
from tools.benchmarks.core.rates import core_table, core_target
from tools.benchmarks.processes import ContestantError, run_contestant
from tools.benchmarks.results import Sample, Series, attempt
from tools.benchmarks.spark.rates import spark_table

if TYPE_CHECKING:
    from tools.benchmarks.results import Table

SAMPLE = Sample(records=1_000_000, seconds=2.0, cpu_s=0.5, peak_mib=100.0)
FULL = "die produce failed: the queue is full at this rate"


def fail() -> Sample:
    raise ContestantError(f"['librdkafka_bench'] ended with status 1:\n{FULL}\n")


def series() -> list[Series]:
    """The first failed always, the second once, the third never."""
    told: list[str] = []
    made = [Series(LIBRDKAFKA, "none"), Series(OURS, "none"), Series("third", "none")]
    made[0].add(fail, told.append)
    made[1].add(fail, told.append)
    made[1].add(lambda: SAMPLE, told.append)
    made[2].add(lambda: SAMPLE, told.append)
    assert len(told) == 2
    assert all(FULL in text for text in told)
    return made


def check(table: Table) -> None:
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [row[2] for row in table.rows] == ["failed", "0.50", "0.50"]
    assert f"{LIBRDKAFKA}, none, failed 1 times: {FULL}." in table.notes
    assert f"{OURS}, none, failed 1 times" in table.notes
    assert "third" not in table.notes
    assert FULL in table.markdown()


def test_rates_of_the_others_are_shown() -> None:
    check(core_table("Core", series()))
    check(spark_table(series()))


def test_places_of_the_codec() -> None:
    made = [Series(place, "lz4") for place in Place]
    made[0].add(fail, lambda _: None)
    made[1].add(lambda: SAMPLE, lambda _: None)
    made[2].add(fail, lambda _: None)
    table = codec_table(made)
    assert [row[2] for row in table.rows] == ["failed", "0.50", "failed"]
    assert [row[4] for row in table.rows] == ["-", "-", "-"]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_latencies_of_the_others_are_shown() -> None:
    names = ("p50_us", "p99_us", "p999_us", "max_us", "cpu_s", "seconds")
    failed = LatencySeries(LIBRDKAFKA, 100_000, 0, failures=[f"status 1:\n{FULL}"])
    measured = LatencySeries(OURS, 100_000, 0, [dict.fromkeys(names, 1000.0)])
    table = latency_table([failed, measured])
    assert [row[3] for row in table.rows] == ["failed", "1.00"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert FULL in table.notes


def test_failures_are_in_the_json() -> None:
    first, second, _ = (json.loads(json.dumps(one.to_dict())) for one in series())
    assert first["median_records_per_s"] is None
    assert FULL in first["failures"][0]
    assert second["median_records_per_s"] == 500_000
    assert len(second["samples"]) == len(second["failures"]) == 1


def test_a_target_that_compares_with_who_failed_is_not_judged() -> None:
    assert core_target(RANDOM, series()).met is None


def test_a_process_that_fails_is_quoted() -> None:
    script = f"import sys; sys.exit({FULL!r})"
    with pytest.raises(ContestantError, match=FULL):
        run_contestant([sys.executable, "-c", script])


def test_what_is_no_failure_of_a_contestant_ends_the_run() -> None:
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 // 0, [], lambda _: None)
