"""The layout of batches: order, batch boundaries, deltas, continued batches, integer widths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.kafka.records.varint import varint_size
from spark_kafka_sink.producer.buffer.batch import OpenBatchFacts
from spark_kafka_sink.producer.buffer.batch_layout import (
    MAX_BATCH_RECORDS,
    BatchLayout,
    BatchLimits,
    lay_out,
)

NOW = 123
BASES = [50, NOW, NOW - 63, NOW + 64, NOW + 70, -(10**5), NOW]
"""Timestamps of open batches, by target: a clock may have been set back."""


def run(
    targets: list[int], sizes: list[int], batch_size: int = 10**6, **opened: OpenBatchFacts
) -> BatchLayout:
    known = {int(name[1:]): batch for name, batch in opened.items()}
    array = np.array(targets, np.int16)
    return lay_out(array, np.array(sizes, np.int64), NOW, known.get, BatchLimits(batch_size))


def rows_of(laid_out: BatchLayout, rows: int) -> list[int]:
    return list(range(rows)) if laid_out.order is None else laid_out.order.tolist()


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(7, 300)), min_size=1, max_size=120),
    st.sampled_from([100, 250, 1_000, 10**6]),
    st.dictionaries(st.integers(0, 6), st.tuples(st.integers(1, 9), st.integers(70, 240))),
)
@settings(max_examples=300, deadline=None)
def test_batches_end_at_their_size_in_row_order(
    rows: list[tuple[int, int]], batch_size: int, opened: dict[int, tuple[int, int]]
) -> None:
    targets = [target for target, _ in rows]
    known = {
        f"t{t}": OpenBatchFacts(records, size, BASES[t]) for t, (records, size) in opened.items()
    }
    laid_out = run(targets, [size for _, size in rows], batch_size, **known)
    order = rows_of(laid_out, len(rows))
    assert sorted(order) == list(range(len(rows)))
    state = {t: [records, size, BASES[t]] for t, (records, size) in opened.items()}
    met: dict[int, list[int]] = {}
    ages: list[tuple[int, int]] = []
    assert [s.start for s in laid_out.segments] == [0] + [s.stop for s in laid_out.segments[:-1]]
    for segment in laid_out.segments:
        mine = order[segment.start : segment.stop]
        assert {targets[row] for row in mine} == {segment.target}
        met.setdefault(segment.target, []).extend(mine)
        if segment.first_delta == 0:
            state[segment.target] = [0, HEADER_SIZE, NOW]
        records, size, base = state[segment.target]
        assert segment.first_delta == records
        assert segment.base_timestamp == base
        deltas = [int(laid_out.offset_deltas[row]) for row in mine]
        assert deltas == list(range(records, records + len(mine)))
        later = varint_size(NOW - base)
        size += sum(rows[row][1] + (later if later > 1 else 0) for row in mine)
        ages += [(row, NOW - base) for row in mine]
        assert size <= batch_size or (segment.first_delta == 0 and len(mine) == 1)
        state[segment.target] = [records + len(mine), size, base]
    assert all(mine == sorted(mine) for mine in met.values())
    assert deltas_of(laid_out, len(rows)) == [age for _, age in sorted(ages)]
    assert (laid_out.timestamp_deltas is None) == all(age == 0 for _, age in ages)


def deltas_of(laid_out: BatchLayout, rows: int) -> list[int]:
    deltas = laid_out.timestamp_deltas
    return [0] * rows if deltas is None else deltas.tolist()


def test_no_rows_have_no_layout() -> None:
    laid_out = run([], [])
    assert laid_out.segments == []
    assert laid_out.offset_deltas.shape == (0,)


def test_record_count_is_limited_by_delta_width() -> None:
    rows = MAX_BATCH_RECORDS + 5
    sizes = np.full(rows, 7, np.int64)
    laid_out = lay_out(np.zeros(rows, np.int16), sizes, NOW, lambda _: None, BatchLimits(1 << 40))
    assert [s.stop - s.start for s in laid_out.segments] == [MAX_BATCH_RECORDS, 5]
    assert laid_out.offset_deltas.max() == MAX_BATCH_RECORDS - 1


@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_targets_at_limits_of_their_type(kind: type[np.integer]) -> None:
    top = int(np.iinfo(kind).max)
    targets = np.array([top, 0, top - 1] * 40, kind)
    laid_out = lay_out(targets, np.full(120, 20, np.int64), NOW, lambda _: None, BatchLimits(10**6))
    assert [s.target for s in laid_out.segments] == [0, top - 1, top]
    assert [s.stop - s.start for s in laid_out.segments] == [40, 40, 40]


def test_batches_end_at_maximum_record_count() -> None:
    limits = BatchLimits(10**6, records=3)
    known = {0: OpenBatchFacts(2, 300, NOW)}
    laid_out = lay_out(np.zeros(8, np.int16), np.full(8, 10, np.int64), NOW, known.get, limits)
    segments = [(s.start, s.stop, s.first_delta) for s in laid_out.segments]
    assert segments == [(0, 1, 2), (1, 4, 0), (4, 7, 0), (7, 8, 0)]


def test_size_and_record_limits_both_apply() -> None:
    limits = BatchLimits(HEADER_SIZE + 50, records=3)
    sizes = np.array([10, 10, 10, 10, 40, 10], np.int64)
    laid_out = lay_out(np.zeros(6, np.int16), sizes, NOW, lambda _: None, limits)
    assert [s.stop - s.start for s in laid_out.segments] == [3, 2, 1]
