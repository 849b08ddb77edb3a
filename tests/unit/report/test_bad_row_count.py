"""Counts of bad rows: merging and JSON."""

import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.report.bad_row_count import EXAMPLES_KEPT, BadRowCount

counts = st.lists(
    st.builds(
        BadRowCount,
        reason=st.sampled_from("abc"),
        dead_lettered=st.integers(0, 9),
        dropped=st.integers(0, 9),
        examples=st.lists(st.text(max_size=3), max_size=7).map(lambda e: tuple(sorted(set(e))[:5])),
    ),
    max_size=6,
)


@given(counts, counts, counts)
def test_merging_is_associative_and_commutative(
    a: list[BadRowCount], b: list[BadRowCount], c: list[BadRowCount]
) -> None:
    left = BadRowCount.merge_all([*BadRowCount.merge_all([*a, *b]), *c])
    assert left == BadRowCount.merge_all([*a, *BadRowCount.merge_all([*b, *c])])
    assert left == BadRowCount.merge_all([*c, *b, *a])
    assert all(len(count.examples) <= EXAMPLES_KEPT for count in left)


@given(counts)
def test_counts_survive_json(many: list[BadRowCount]) -> None:
    assert [BadRowCount.from_dict(json.loads(json.dumps(asdict(count)))) for count in many] == many
