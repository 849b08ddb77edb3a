"""The text and chunks of decision records, which later versions must read."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, Fate, from_text, to_text
from spark_kafka_sink.exactly_once.scope_state import Decided
from tests.support.decisions import decided, records, task_transactions

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(records())
def test_decision_record_round_trips(record: DecisionRecord) -> None:
    text = to_text(record)
    assert text.isascii()
    assert "\n" not in text
    assert from_text(text) == record


def test_format_of_version_1_is_stable() -> None:
    record = decided(1)
    assert to_text(record) == (
        '{"version":1,"type":"decided","query":"q","batch":"17","retired":[],"at":1763790000000,'
        '"transactions":[{"id":"orders/stream/q/17/3fa9c01be2d4a7f0/0/10","producer":4000,"epoch":0,'
        '"protocol":2,"started":1763789990000,"timeout":900000,'
        '"partitions":{"events":[[0,10,0,9]]}}]}'
    )


def test_unlisted_partitions() -> None:
    (task,) = task_transactions(1, partitions=3)
    some = replace(task, partitions=task.partitions[:1], unlisted_partitions=2, unlisted_records=20)
    record = DecisionRecord.of(
        Decided(query_id="q", batch="17", transactions=(some,)), 1_763_790_000_000
    )
    text = to_text(record)
    assert '"partitions":{"events":[[0,10,0,9]]},"unnamed":[2,20]' in text
    assert from_text(text) == record
    with pytest.raises(TransactionError, match="`unnamed`"):
        from_text(text.replace("[2,20]", "[2]"))


def test_newer_version_is_rejected_with_a_hint() -> None:
    newer = {**json.loads(to_text(decided(1))), "version": 2}
    with pytest.raises(TransactionError, match="version 2") as caught:
        from_text(json.dumps(newer))
    assert "with a version of this package that supports it" in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_raises_only_transaction_errors(text: str) -> None:
    with pytest.raises(TransactionError):
        from_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"version":' + "9" * 5_000 + "}",
        '{"version":NaN}',
        '{"version":0,"type":"done"}',
        '{"version":true,"type":"done"}',
        '{"version":1,"type":"done","query":"\\ud800","batch":"1","at":0}',
    ],
)
def test_hostile_json_is_malformed(text: str) -> None:
    with pytest.raises(TransactionError, match="did not write"):
        from_text(text)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_modified_record_is_read_completely_or_rejected(data: st.DataObject) -> None:
    value = json.loads(to_text(data.draw(records())))
    replace_one(value, data)
    try:
        read = from_text(json.dumps(value))
    except TransactionError:
        return
    assert from_text(to_text(read)) == read


def test_fates_match_transactions() -> None:
    torn = json.loads(to_text(decided(2)))
    torn["fates"] = ["lost"]
    with pytest.raises(TransactionError, match="fates"):
        from_text(json.dumps(torn))
    with pytest.raises(ValueError, match="one fate"):
        DecisionRecord.of(decided(2).state, 0, (Fate.LOST,))  # type: ignore[arg-type]


def replace_one(value: object, data: st.DataObject) -> None:
    """Replace one value at any depth by any other."""
    while True:
        places: list[object] = list(value) if isinstance(value, dict) else []
        if isinstance(value, list):
            places = list(range(len(value)))
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        inner = value[place]  # type: ignore[index]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            value[place] = data.draw(ANY_JSON)  # type: ignore[index]
            return
        value = inner
