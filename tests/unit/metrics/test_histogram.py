from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.metrics.histogram import Histogram, HistogramBuilder, bucket_of, bucket_top

MICROSECONDS = st.integers(0, 10**13)


def of(*values: int) -> Histogram:
    """Of microseconds."""
    builder = HistogramBuilder()
    for value in values:
        builder.add(value / 1_000_000)
    return builder.build()


@given(MICROSECONDS)
def test_a_bucket_holds_its_value_within_a_quarter(value: int):
    bucket = bucket_of(value)
    assert value <= bucket_top(bucket) <= value * 1.25
    assert bucket == 0 or bucket_top(bucket - 1) < value


def test_buckets_are_four_to_an_octave():
    assert [bucket_of(2**exponent) for exponent in range(2, 30)] == list(range(4, 116, 4))


@given(st.lists(st.integers(0, 10**10), min_size=1), st.floats(0, 100))
def test_percentile_is_close_to_the_true_one(values: list[int], q: float):
    histogram = of(*values)
    rank = max(sum(1 for index in range(len(values)) if index < q / 100 * len(values)), 1)
    exact = sorted(values)[rank - 1]
    assert exact <= histogram.percentile(q) <= exact * 1.25


@given(st.lists(st.lists(st.integers(0, 10**10)), max_size=5))
def test_merging_parts_is_the_same_as_one_histogram_of_all(parts: list[list[int]]):
    merged = Histogram.merge_all(of(*part) for part in parts)
    assert merged == of(*(value for part in parts for value in part))


def test_count_mean_and_max():
    histogram = of(1, 2, 3, 1_000_000)
    assert (histogram.count, histogram.mean_us, histogram.max_us) == (4, 250001.5, 1_000_000)
    assert histogram.percentile(100) == 1_000_000
    assert histogram.percentile(50) == 2


def test_an_empty_histogram_is_all_zero():
    histogram = Histogram()
    assert (histogram.count, histogram.mean_us, histogram.percentile(99)) == (0, 0.0, 0)
    assert histogram.merge(of(5)) == of(5)


def test_a_negative_time_counts_as_none():
    assert of(-5) == of(0)


@pytest.mark.parametrize("q", [-1, 100.1, float("nan")])
def test_a_percentile_out_of_range_is_an_error(q: float):
    with pytest.raises(ValueError, match="a percentile is 0 to 100"):
        of(1).percentile(q)


@given(st.lists(MICROSECONDS))
def test_dict_and_back(values: list[int]):
    histogram = of(*values)
    assert Histogram.from_dict(histogram.to_dict()) == histogram
