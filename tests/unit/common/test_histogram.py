"""Histograms: merging, percentiles and JSON."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from statistics import pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.histogram import (
    PER_OCTAVE,
    Histogram,
    HistogramBuilder,
    bucket_of,
    bucket_top,
)

NUMBERS = st.lists(st.integers(0, 10**9), max_size=50)


def histogram_of(numbers: list[int]) -> Histogram:
    builder = HistogramBuilder()
    for number in numbers:
        builder.add(number)
    return builder.build()


@given(NUMBERS, NUMBERS)
def test_merging_equals_adding_all(a: list[int], b: list[int]) -> None:
    assert Histogram.merge_all((histogram_of(a), histogram_of(b))) == histogram_of(a + b)
    assert Histogram.merge_all((histogram_of(a), Histogram())) == histogram_of(a)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 9)), max_size=50))
def test_value_with_a_count(numbers: list[tuple[int, int]]) -> None:
    builder = HistogramBuilder()
    for number, times in numbers:
        builder.add(number, times)
    assert builder.build() == histogram_of(
        [number for number, times in numbers for _ in range(times)]
    )


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_count_mean_and_extremes_are_exact(numbers: list[int]) -> None:
    histogram = histogram_of(numbers)
    assert (histogram.count, histogram.total) == (len(numbers), sum(numbers))
    assert (histogram.low, histogram.high) == (min(numbers), max(numbers))
    assert histogram.mean == sum(numbers) / len(numbers)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_at_most_one_percent_too_large(numbers: list[int], q: float) -> None:
    exact = sorted(numbers)[max(0, ceil(q / 100 * len(numbers)) - 1)]
    assert exact <= histogram_of(numbers).percentile(q) <= exact * (1 + 1 / PER_OCTAVE)


@given(NUMBERS)
def test_json_round_trip(numbers: list[int]) -> None:
    assert Histogram.from_dict(histogram_of(numbers).to_dict()) == histogram_of(numbers)


@given(st.lists(NUMBERS, max_size=4))
def test_windows_contain_new_values_and_the_total_contains_all(windows: list[list[int]]) -> None:
    builder = HistogramBuilder()
    for window in windows:
        for number in window:
            builder.add(number)
        assert builder.roll() == histogram_of(window)
    assert builder.roll() == Histogram()
    assert builder.build() == histogram_of([number for window in windows for number in window])


def test_standard_deviation_is_approximate() -> None:
    numbers = list(range(1000, 2000))
    assert histogram_of(numbers).deviation == pytest.approx(pstdev(numbers), rel=0.01)
    assert Histogram().deviation == 0


@given(st.integers(0, 10**12), st.integers(1, 1000))
def test_equal_values_have_no_deviation(number: int, times: int) -> None:
    builder = HistogramBuilder()
    builder.add(number, times)
    assert builder.build().deviation == 0


def test_unknown_resolution_is_rejected() -> None:
    with pytest.raises(ValueError, match="64 buckets"):
        Histogram.from_dict(histogram_of([1]).to_dict() | {"buckets_per_doubling": 64})


def test_seconds_are_stored_as_microseconds_and_negative_values_as_zero() -> None:
    builder = HistogramBuilder()
    builder.add_duration(0.25)
    builder.add_duration(-1)
    histogram = builder.build()
    assert (histogram.count, histogram.low, histogram.high) == (2, 0, 250_000)


@given(st.lists(st.integers(-5, 2**52), min_size=1, max_size=20))
def test_values_are_counted_in_their_buckets(numbers: list[int]) -> None:
    assert histogram_of(numbers).buckets == tuple(sorted(Counter(map(bucket_of, numbers)).items()))


def test_concurrent_reads_while_values_are_added() -> None:
    builder = HistogramBuilder()

    def add_many() -> None:
        for _ in range(200_000):
            builder.add(1)

    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(add_many)
        seen = [builder.build() for _ in range(50)]
        adding.result()
    assert all(histogram.count == histogram.total for histogram in seen)
    assert [histogram.count for histogram in seen] == sorted(histogram.count for histogram in seen)
    assert builder.build().count == 200_000


@given(st.integers(0, 10**13))
def test_bucket_bounds_are_within_one_percent(value: int) -> None:
    bucket = bucket_of(value)
    assert value <= bucket_top(bucket) <= value * (1 + 1 / PER_OCTAVE)
    assert bucket == 0 or bucket_top(bucket - 1) < value


def test_each_octave_has_the_same_number_of_buckets() -> None:
    firsts = [bucket_of(2**exponent) for exponent in range(7, 35)]
    assert firsts == [PER_OCTAVE * (n + 1) for n in range(28)]


@pytest.mark.parametrize("q", [-1, 100.1, float("nan")])
def test_percentile_out_of_range_is_an_error(q: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100"):
        histogram_of([1]).percentile(q)


def test_empty_histogram_is_zero() -> None:
    nothing = Histogram()
    assert (nothing.count, nothing.mean, nothing.percentile(99)) == (0, 0.0, 0)
    assert (nothing.low, nothing.high) == (0, 0)
