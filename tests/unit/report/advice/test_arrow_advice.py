"""Advice about the batches that Spark sends to tasks."""

from dataclasses import replace

import pytest

from spark_kafka_sink.report.advice.advice import Direction
from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.advice.arrow_advice import LARGE_SHARE, measuring_cost_s
from tests.unit.report.advice.healthy_report import ARROW_BYTES, ARROW_ROWS, arrow_batches_of, only


@pytest.mark.parametrize(("share", "first"), [(0.9, "the brokers' quota"), (1.1, ARROW_BYTES)])
def test_costly_measuring_precedes_other_advice(share: float, first: str) -> None:
    rows = int(share * LARGE_SHARE / measuring_cost_s(10))
    measured = arrow_batches_of(rows, 100, columns=10)
    settings = [advice.setting for advice in advise(replace(measured, throttle_ms=500))]
    assert settings[0] == first
    assert ARROW_BYTES in settings


@pytest.mark.parametrize(
    ("rows", "row_bytes", "max_bytes"),
    [
        (1_000_000, 131, 2**31 - 1),  # already set
        (100_000, 131, 67_108_864),  # too slow for the measuring to matter
        (390_000, 131, 67_108_864),  # 4.9% of the time
        (300_000, 2_000, 67_108_864),  # 10,000 such rows have 20 MB
        (2_000_000, 31, 0),  # not a write of Spark's
    ],
)
def test_rows_that_need_no_other_batch_settings(rows: int, row_bytes: int, max_bytes: int) -> None:
    assert advise(arrow_batches_of(rows, row_bytes, max_bytes)) == []


def test_row_cost_is_relative_to_the_whole_write() -> None:
    """Rows of a slow source arrive at its end: of 20 s, a tenth of the last second is little."""
    for job in (arrow_batches_of(300_000, 131, max_rows=100), arrow_batches_of(1_000_000, 131)):
        assert len(advise(replace(job, duration_ms=1_500))) == 1
        assert advise(replace(job, duration_ms=20_000)) == []


def test_one_row_in_each_batch_from_spark() -> None:
    """15,000 rows per second or less: the cost per batch is most of the time."""
    advice = advise(arrow_batches_of(12_000, 131, max_rows=1))
    assert only(advice) == (ARROW_ROWS, Direction.RAISE)
    assert (
        "12,000 Arrow batches of 1 row, which take at least 84% of the time" in advice[0].evidence
    )
    assert only(advise(arrow_batches_of(12_000, 131, max_rows=16)))[0] == ARROW_ROWS
    quick = advise(arrow_batches_of(20_000, 131, max_rows=1))
    assert "at least 100% of the time" in quick[0].evidence
