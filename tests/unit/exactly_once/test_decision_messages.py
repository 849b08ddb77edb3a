"""Decision records as read from a compacted log."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.decision_messages import (
    MAX_VALUE,
    DecisionRecords,
    Message,
    chunks_of,
    messages_of,
    replacing,
)
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.scope_state import Decided, Done, NoDecision, Planning
from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import Scope, WriteDestination
from tests.support.decisions import ORDERS, decided, records

SMALL = 400
DONE = DecisionRecord(
    state=Done(query_id="q", batch="17"), at_ms=1_763_790_000_000, transactions=9, records=90
)
FOUND = (Planning("run", "nonce"),)


def read(*batches: list[Message]) -> DecisionRecords:
    """Read a log of these messages."""
    log = DecisionRecords("decisions")
    messages = [message for batch in batches for message in batch]
    log.add((offset, key, value) for offset, (key, value) in enumerate(messages))
    return log


@pytest.mark.parametrize("record", [None, DONE, decided(2)])
def test_compaction_removes_the_chunks_of_a_replaced_record(record: DecisionRecord | None) -> None:
    chunks = messages_of(ORDERS, decided(9), SMALL)
    log = read(chunks)
    assert log.chunk_keys(ORDERS) == chunks_of(chunks) == set(range(len(chunks)))
    later = replacing(ORDERS, record, log.chunk_keys(ORDERS))
    latest = dict([*chunks, *later])
    left = {key: value for key, value in latest.items() if value is not None}
    assert left.keys() == (set() if record is None else {b"orders/stream"})
    for remaining in (read(chunks, later), read(list(left.items()))):
        assert remaining.latest(ORDERS) == record
    assert read(chunks, later).chunk_keys(ORDERS) == chunks_of(later) == frozenset()


def test_record_keeps_the_chunks_that_it_rewrites() -> None:
    large = decided(9_000)
    later = replacing(ORDERS, large, frozenset(range(40)))
    written = chunks_of(later)
    assert 1 < len(written) < 40
    assert read(messages_of(ORDERS, decided(300), SMALL), later).latest(ORDERS) == large
    assert sorted(key for key, value in later if value is None) == sorted(
        f"orders/stream#{chunk}".encode() for chunk in set(range(40)) - written
    )


@settings(max_examples=60, deadline=None)
@given(records(), records())
def test_latest_record_of_a_scope_counts(first: DecisionRecord, second: DecisionRecord) -> None:
    for limit in (SMALL, MAX_VALUE):
        log = [messages_of(ORDERS, first, SMALL), messages_of(ORDERS, second, limit)]
        assert read(*log).latest(ORDERS) == second
        assert read(*reversed(log)).latest(ORDERS) == first


def test_scope_without_a_record_is_unknown() -> None:
    log = read(messages_of(ORDERS, decided(1)))
    assert log.latest(Scope.stream("order")) is None
    assert list(log.scopes("orders")) == [ORDERS]
    assert list(log.scopes("order")) == []


@pytest.mark.parametrize(
    ("batch_id", "later", "expected"),
    [
        ("0", Done(query_id=None, batch="1", plannings=FOUND), True),
        ("9", Done(query_id=None, batch="10", plannings=FOUND), True),
        ("0", Decided(query_id=None, batch="1", transactions=(), plannings=FOUND), True),
        ("0", Done(query_id=None, batch="1"), False),
        ("0", NoDecision(), False),
        ("1", Done(query_id=None, batch="1", plannings=FOUND), False),
        ("2", Done(query_id=None, batch="1", plannings=FOUND), False),
        ("run-0", Done(query_id=None, batch="run-1", plannings=FOUND), False),
        ("0", Done(query_id=None, batch="run-1", plannings=FOUND), False),
        ("run-0", Done(query_id=None, batch="1", plannings=FOUND), False),
        ("\u0660", Done(query_id=None, batch="1", plannings=FOUND), False),
        ("0", Done(query_id=None, batch="9" * 100, plannings=FOUND), False),
    ],
)
def test_batch_is_followed_by_a_higher_number_of_foreach_batch(
    batch_id: str, later: NoDecision | Decided[TaskTransaction] | Done, expected: bool
) -> None:
    target = WriteDestination(topic="a")
    name = "1" if isinstance(later, NoDecision) else later.batch
    record = DecisionRecord(state=later, at_ms=1, transactions=0, records=0)
    log = read(messages_of(Scope.batch("orders", name, target), record))
    assert log.has_later_batch(Scope.batch("orders", batch_id, target)) is expected
    for other in (
        Scope.batch("order", batch_id, target),
        Scope.batch("orders", batch_id, WriteDestination(topic="b")),
        Scope.batch("orders", batch_id, WriteDestination(topic="a", name="late")),
        Scope.stream("orders"),
    ):
        assert not log.has_later_batch(other)


@settings(max_examples=30, deadline=None)
@given(records())
def test_no_value_exceeds_the_limit(record: DecisionRecord) -> None:
    for _, value in messages_of(ORDERS, record, SMALL):
        assert value is not None
        assert len(value) <= SMALL


def test_large_decision_fits_topics_with_default_limits() -> None:
    record = decided(1_000, partitions=64)
    messages = messages_of(ORDERS, record)
    assert len(messages) > 1
    assert max(len(value or b"") for _, value in messages) <= MAX_VALUE
    assert read(messages).latest(ORDERS) == record


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.data())
def test_record_with_a_missing_chunk_is_ignored(tasks: int, data: st.DataObject) -> None:
    before = messages_of(ORDERS, decided(1, batch="16"), SMALL)
    messages = messages_of(ORDERS, decided(tasks), SMALL)
    missing = data.draw(st.integers(0, len(messages) - 1))
    kept = messages[:missing] + messages[missing + 1 :]
    assert read(before, kept).latest(ORDERS) == decided(1, batch="16")


def test_chunks_of_an_earlier_record_are_ignored() -> None:
    """Compaction keeps the last chunks of a longer record."""
    long, short = messages_of(ORDERS, decided(9), SMALL), messages_of(ORDERS, decided(3), SMALL)
    assert len(long) > len(short) > 1
    assert read(long[len(short) :], short).latest(ORDERS) == decided(3)
    assert read(long[:2], short).latest(ORDERS) == decided(3)
    assert read(long[:1], short[1:]).latest(ORDERS) is None


def test_record_with_a_misplaced_chunk_is_ignored() -> None:
    before = messages_of(ORDERS, decided(1, batch="16"), SMALL)
    messages = messages_of(ORDERS, decided(9), SMALL)
    assert len(messages) > 3
    twice = messages[:2] + messages[1:]
    swapped = [messages[0], messages[2], messages[1], *messages[3:]]
    for later in (twice, swapped):
        assert read(before, later).latest(ORDERS) == decided(1, batch="16")


def test_record_is_read_in_two_parts() -> None:
    messages = messages_of(ORDERS, decided(9), SMALL)
    log = read(messages[:2])
    assert log.latest(ORDERS) is None
    log.add((offset, *message) for offset, message in enumerate(messages[2:], start=2))
    assert log.latest(ORDERS) == decided(9)


def test_scope_is_deleted() -> None:
    key = messages_of(ORDERS, decided(1))[0][0]
    assert read(messages_of(ORDERS, decided(1)), [(key, None)]).latest(ORDERS) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=30))))
def test_foreign_records_are_skipped(strangers: list[tuple[bytes | None, bytes]]) -> None:
    log = DecisionRecords("decisions")
    log.add((offset, key, value) for offset, (key, value) in enumerate(strangers))
    log.add(
        (100 + offset, *message) for offset, message in enumerate(messages_of(ORDERS, decided(1)))
    )
    assert log.latest(ORDERS) == decided(1)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=50), st.sampled_from([b"", b"#0", b"#1"]))
def test_foreign_value_under_a_key_of_the_package_is_an_error(value: bytes, chunk: bytes) -> None:
    good = messages_of(ORDERS, decided(1))
    log = read(good, [(b"orders/stream" + chunk, value)])
    with pytest.raises(TransactionError, match="offset 1") as caught:
        log.latest(ORDERS)
    assert caught.value.topic == "decisions"
    assert read([(b"orders/stream" + chunk, value)], good).latest(ORDERS) == decided(1)


def test_newer_version_is_rejected_only_for_its_scope() -> None:
    newer = {**json.loads(messages_of(ORDERS, decided(1))[0][1] or b""), "version": 2}
    log = read(
        messages_of(Scope.stream("other"), decided(1)),
        [(b"orders/stream", json.dumps(newer).encode())],
    )
    assert log.latest(Scope.stream("other")) == decided(1)
    with pytest.raises(TransactionError):
        log.latest(ORDERS)


@pytest.mark.parametrize(
    "changed", [{"chunk": 5}, {"chunks": 0}, {"chunks": 10_001}, {"set": None}, {"version": 2}]
)
def test_chunk_that_contradicts_its_key_is_an_error(changed: dict[str, object]) -> None:
    key, value = messages_of(ORDERS, decided(9), SMALL)[1]
    chunk = {**json.loads(value or b""), **changed}
    log = read([(key, json.dumps(chunk).encode())])
    with pytest.raises(TransactionError, match="offset 0"):
        log.latest(ORDERS)


@pytest.mark.parametrize("key", [b"orders/stream#", b"orders/stream#x", b"orders/stream#-1"])
def test_key_without_a_chunk_number_is_foreign(key: bytes) -> None:
    assert read([(key, b"x")]).latest(ORDERS) is None
