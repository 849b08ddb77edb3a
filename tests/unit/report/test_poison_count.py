import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.report.delivery_counters import EXAMPLES_KEPT, PoisonCount

counts = st.lists(
    st.builds(
        PoisonCount,
        reason=st.sampled_from("abc"),
        dead_lettered=st.integers(0, 9),
        dropped=st.integers(0, 9),
        examples=st.lists(st.text(max_size=3), max_size=7).map(lambda e: tuple(sorted(set(e))[:5])),
    ),
    max_size=6,
)


@given(counts, counts, counts)
def test_merging_is_associative_and_commutative(
    a: list[PoisonCount], b: list[PoisonCount], c: list[PoisonCount]
) -> None:
    left = PoisonCount.merge_all([*PoisonCount.merge_all([*a, *b]), *c])
    assert left == PoisonCount.merge_all([*a, *PoisonCount.merge_all([*b, *c])])
    assert left == PoisonCount.merge_all([*c, *b, *a])
    assert all(len(count.examples) <= EXAMPLES_KEPT for count in left)


@given(counts)
def test_counts_survive_json(many: list[PoisonCount]) -> None:
    assert [PoisonCount.from_dict(json.loads(json.dumps(asdict(each)))) for each in many] == many
