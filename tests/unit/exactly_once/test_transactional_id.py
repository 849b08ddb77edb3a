"""Transactional ids: format, parsing and matching."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    ScopeKind,
    TaskTransactionalId,
    WriteDestination,
    driver_transactional_id,
    new_nonce,
    parse_driver_id,
    parse_task_id,
    prefix_pattern,
    tasks_pattern,
)

NONCE = "3fa9c01be2d4a7f0"
QUERY = "6b0c7a3e-58e5-4b1f-9a55-0a7f4d3c2b1e"
PREFIXES = st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z")
BATCH_IDS = st.text(min_size=1, max_size=20).filter(str.isprintable)
TARGETS = st.builds(
    WriteDestination,
    topic=st.none() | st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z") | st.just(NONCE),
    name=st.none() | BATCH_IDS,
)
SCOPES = st.one_of(
    PREFIXES.map(Scope.stream),
    st.builds(Scope.batch, PREFIXES, BATCH_IDS | st.just(NONCE), TARGETS),
    PREFIXES.map(Scope.run),
)


def task_id(scope: Scope, batch: str = "17") -> TaskTransactionalId:
    stream = scope.kind is ScopeKind.STREAM
    return TaskTransactionalId(
        scope=scope,
        query_id=QUERY if stream else None,
        batch=batch if stream else scope.name,
        nonce=NONCE,
        partition=3,
        task_attempt_id=1042,
    )


def test_ids_look_like_paths() -> None:
    stream = Scope.stream("orders")
    assert driver_transactional_id(stream) == "orders/stream"
    assert str(task_id(stream)) == f"orders/stream/{QUERY}/17/{NONCE}/3/1042"
    day = Scope.batch("orders", "2026-11-20")
    assert driver_transactional_id(day) == "orders/batch/2026-11-20/topic-column"
    assert str(task_id(day)) == f"orders/batch/2026-11-20/topic-column/{NONCE}/3/1042"
    scheduled = Scope.batch(
        "orders", "scheduled__2026-11-20T00:00:00+00:00/ü", WriteDestination(topic="t")
    )
    assert (
        driver_transactional_id(scheduled)
        == "orders/batch/scheduled__2026-11-20T00:00:00+00:00%2F%C3%BC/topic=t"
    )
    named = Scope.batch("orders", "7", WriteDestination(topic="events", name="late/2"))
    assert driver_transactional_id(named) == "orders/batch/7/topic=events/name=late%2F2"


def test_nonces_and_run_ids_are_unique() -> None:
    assert new_nonce() != new_nonce()
    assert Scope.run("orders") != Scope.run("orders")
    assert re.fullmatch("[0-9a-f]{16}", new_nonce())


@settings(max_examples=100, deadline=None)
@given(SCOPES)
def test_ids_round_trip(scope: Scope) -> None:
    assert parse_driver_id(driver_transactional_id(scope)) == scope
    transactional_id = task_id(scope)
    assert parse_task_id(str(transactional_id)) == transactional_id
    assert parse_task_id(driver_transactional_id(scope)) is None
    assert parse_driver_id(str(transactional_id)) is None


@settings(max_examples=100, deadline=None)
@given(SCOPES)
def test_all_attempts_of_a_task_have_one_claim(scope: Scope) -> None:
    task = task_id(scope)
    claim = task.claim_id
    assert str(task) == f"{claim}/{task.task_attempt_id}"
    assert replace(task, task_attempt_id=task.task_attempt_id + 1).claim_id == claim
    assert replace(task, partition=task.partition + 1).claim_id != claim
    assert re.fullmatch(prefix_pattern(scope.prefix), claim)
    # Searches for task transactions do not find it.
    assert re.fullmatch(tasks_pattern(scope), claim) is None
    assert parse_task_id(claim) is None
    assert parse_driver_id(claim) is None


@settings(max_examples=100, deadline=None)
@given(SCOPES, SCOPES)
def test_pattern_matches_only_tasks_of_its_scope(scope: Scope, other: Scope) -> None:
    match = re.fullmatch(tasks_pattern(scope), str(task_id(other)))
    assert (match is not None) == (scope == other)
    assert re.fullmatch(tasks_pattern(scope), driver_transactional_id(scope)) is None


@pytest.mark.parametrize(
    "other",
    [
        Scope.stream("orders-2"),
        Scope.stream("orders.stream"),
        Scope.batch("orders", "17"),
        Scope.batch("orders", f"{QUERY}/17/{NONCE}/3/1"),
        Scope.stream("order"),
    ],
)
def test_similar_scope_names_have_distinct_ids(other: Scope) -> None:
    assert not re.fullmatch(tasks_pattern(Scope.stream("orders")), str(task_id(other)))


@settings(max_examples=100, deadline=None)
@given(SCOPES, PREFIXES)
def test_prefix_matches_its_own_drivers_and_tasks(scope: Scope, prefix: str) -> None:
    for text in (driver_transactional_id(scope), str(task_id(scope))):
        assert re.fullmatch(prefix_pattern(scope.prefix), text)
        assert bool(re.fullmatch(prefix_pattern(prefix), text)) == (prefix == scope.prefix)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_foreign_ids_do_not_match(text: str) -> None:
    scope, task = parse_driver_id(text), parse_task_id(text)
    assert scope is None or driver_transactional_id(scope) == text
    assert task is None or str(task) == text


@pytest.mark.parametrize(
    "text",
    [
        f"orders/batch/a%2fb/{NONCE}/3/1",  # not in the canonical form
        f"orders/batch/%FF/{NONCE}/3/1",  # not UTF-8
        f"orders/batch/7/topic=%FF/{NONCE}/3/1",
        f"orders/batch/7/topic=t/name=a%2fb/{NONCE}/3/1",
        f"orders/batch/7/name=late/{NONCE}/3/1",  # without a topic
        f"orders/run/7/topic=t/{NONCE}/3/1",
        "orders/run/7/topic-column",
        f"orders/batch/a/{NONCE.upper()}/3/1",
        f"orders/other/17/{NONCE}/3/1",
        f"orders/stream/{QUERY}/17/{NONCE}/3",
        f"orders/stream/17/{NONCE}/3/1",  # without a query
        f"orders/stream/%FF/17/{NONCE}/3/1",
        "orders/stream/17",
    ],
)
def test_malformed_ids_are_not_parsed(text: str) -> None:
    assert parse_task_id(text) is None
    assert parse_driver_id(text) is None


@pytest.mark.parametrize("prefix", ["", "a/b", "a b"])
def test_invalid_prefix_or_batch_id_is_rejected(prefix: str) -> None:
    with pytest.raises(ConfigError, match="transactionalIdPrefix"):
        Scope.stream(prefix)
    with pytest.raises(ConfigError, match="batchId"):
        Scope.batch("orders", "a\nb")


def test_messages_name_the_scope() -> None:
    assert str(Scope.stream("orders")) == "stream orders"
    day = Scope.batch("orders", "2026-11-20")
    assert str(day) == "batch 2026-11-20 of orders to the topics of its rows"
    named = Scope.batch("orders", "7", WriteDestination(topic="events", name="late"))
    assert str(named) == "batch 7 of orders named late to topic events"
