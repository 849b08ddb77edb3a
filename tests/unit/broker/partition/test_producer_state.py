"""The last stable offset and the aborted transactions of a partition."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.partition.producer_state import PartitionTransactions


@settings(max_examples=60, deadline=None, database=None)
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("wca")), max_size=30))
def test_stable_offset_and_aborted_list_match_a_model(steps: list[tuple[int, str]]) -> None:
    table, offset = PartitionTransactions(), 0
    opened_at: dict[int, int] = {}
    log: list[tuple[int, int, int]] = []
    for producer, kind in steps:
        if kind == "w":
            table.begin(producer, offset)
            opened_at.setdefault(producer, offset)
        else:
            table.end(producer, offset, commit=kind == "c")
            first = opened_at.pop(producer, None)
            if first is not None and kind == "a":
                log.append((producer, first, offset))
        offset += 1
    assert table.stable_offset(offset) == min([offset, *opened_at.values()])
    for start in range(offset):
        aborted = table.aborted_between(start, offset)
        listed = [(t.producer_id, t.first_offset, t.last_offset) for t in aborted]
        assert listed == [transaction for transaction in log if transaction[2] >= start]


def test_unreplicated_records_are_not_stable() -> None:
    table = PartitionTransactions()
    table.begin(1, 5)
    table.end(1, 9, commit=True)
    assert [table.stable_offset(end) for end in (4, 7, 9, 10)] == [4, 5, 5, 10]
