"""The decisions of drivers and tasks, case by case."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from spark_kafka_sink.exactly_once.log_state import Decided, Done, Nothing
from spark_kafka_sink.exactly_once.protocol import (
    AbortOurs,
    AlreadyDone,
    Caller,
    Decide,
    Refusal,
    Refuse,
    RollForward,
    Verdict,
    abort_needs_fence,
    finished,
    judge,
    never_decided,
    next_abort_step,
    next_commit_step,
    next_planning_step,
    takes_over,
)

QUERY, OTHER = "query-1", "query-2"


@dataclass(frozen=True)
class Txn:
    transactional_id: str


OURS = (Txn("a"), Txn("b"))
DECIDED = Decided(QUERY, "7", OURS)


def caller(batch: str, query: str | None = QUERY, *, reset: bool = False) -> Caller:
    return Caller(query=query, batch=batch, reset=reset)


@pytest.mark.parametrize(
    ("state", "who", "verdict"),
    [
        (Nothing(), caller("0"), Verdict.WRITE),
        (Nothing(), caller("3"), Refusal.LOG_IS_EMPTY),
        (Nothing(), caller("3", reset=True), Verdict.WRITE),
        (Nothing(), caller("2026-11-20", None), Verdict.WRITE),
        (Done(None, "2026-11-20"), caller("2026-11-20", None), Verdict.SKIP),
        (Done(QUERY, "7"), caller("8"), Verdict.WRITE),
        (Done(QUERY, "7"), caller("7"), Verdict.SKIP),
        (Done(QUERY, "7"), caller("7", reset=True), Verdict.SKIP),
        (DECIDED, caller("7"), Verdict.SKIP),
        (DECIDED, caller("8"), Verdict.WRITE),
        (Done(QUERY, "7"), caller("6"), Refusal.BATCH_IS_BEHIND),
        (Done(QUERY, "7"), caller("6", reset=True), Refusal.BATCH_IS_BEHIND),
        (Done(QUERY, "9"), caller("10"), Verdict.WRITE),
        (Done(QUERY, "7"), caller("9"), Refusal.BATCH_IS_AHEAD),
        (Done(QUERY, "7"), caller("9", reset=True), Verdict.WRITE),
        (Done(QUERY, "7"), caller("7", OTHER), Refusal.OTHER_QUERY),
        (Done(QUERY, "7"), caller("0", OTHER), Refusal.OTHER_QUERY),
        (Done(QUERY, "7"), caller("0", OTHER, reset=True), Verdict.WRITE),
        (Done(QUERY, "7"), caller("8", OTHER, reset=True), Refusal.OTHER_QUERY),
        (Done(OTHER, "0", (QUERY,)), caller("0", reset=True), Refusal.RETIRED_QUERY),
        (Done(OTHER, "0", (QUERY,)), caller("1"), Refusal.RETIRED_QUERY),
    ],
)
def test_judge(
    state: Nothing | Decided[Txn] | Done, who: Caller, verdict: Verdict | Refusal
) -> None:
    assert judge(state, who) is verdict


def test_a_decision_is_finished_before_anything_else_whoever_made_it() -> None:
    for who in (caller("7"), caller("8"), caller("3"), caller("0", OTHER, reset=True)):
        assert next_commit_step(DECIDED, who, ()) == RollForward(DECIDED)
    assert next_abort_step(DECIDED) == RollForward(DECIDED)
    assert next_planning_step(DECIDED) == RollForward(DECIDED)
    assert finished(DECIDED) == Done(QUERY, "7")


def test_the_batch_after_is_decided() -> None:
    step = next_commit_step(Done(QUERY, "6"), caller("7"), OURS)
    assert step == Decide(DECIDED)


def test_the_same_batch_is_there_and_others_are_refused() -> None:
    assert next_commit_step(Done(QUERY, "7"), caller("7"), OURS) == AlreadyDone()
    refused = next_commit_step(Done(QUERY, "7"), caller("7", OTHER), OURS)
    assert refused == Refuse(Refusal.OTHER_QUERY)


def test_a_query_that_takes_over_retires_the_one_before() -> None:
    log = Done(OTHER, "4", ("query-0",))
    step = next_commit_step(log, caller("0", reset=True), OURS)
    assert step == Decide(Decided(QUERY, "0", OURS, ("query-0", OTHER)))
    assert next_commit_step(Done(QUERY, "0", (OTHER,)), caller("1"), ()) == Decide(
        Decided(QUERY, "1", (), (OTHER,))
    )


def test_taking_over_needs_the_option_a_new_query_and_its_first_batch() -> None:
    assert takes_over(DECIDED, caller("0", OTHER, reset=True))
    assert not takes_over(DECIDED, caller("0", OTHER))
    assert not takes_over(DECIDED, caller("1", OTHER, reset=True))
    assert not takes_over(DECIDED, caller("0", reset=True))
    assert not takes_over(Done(QUERY, "0", (OTHER,)), caller("0", OTHER, reset=True))


def test_abort_leaves_what_is_decided() -> None:
    assert never_decided(DECIDED, ["a", "b", "c"]) == {"c"}
    assert never_decided(Done(QUERY, "7"), ["c"]) == {"c"}
    assert next_abort_step(Nothing()) == AbortOurs()
    assert next_abort_step(Done(QUERY, "6")) == AbortOurs()
    assert next_planning_step(Done(QUERY, "6")) is None


def test_only_a_commit_that_may_have_run_makes_abort_fence() -> None:
    assert abort_needs_fence(complete=True)
    assert not abort_needs_fence(complete=False)


def job(query: str | None = None) -> Caller:
    return Caller(query=query, batch="7", single=True)


@pytest.mark.parametrize(
    ("state", "who", "verdict"),
    [
        (Nothing(), job(), Verdict.WRITE),
        (Nothing(), job(QUERY), Verdict.WRITE),
        (Done(None, "7"), job(), Verdict.SKIP),
        (Done(QUERY, "7"), job(QUERY), Verdict.SKIP),
        (Done(QUERY, "7"), job(), Verdict.SKIP),
        (Done(None, "7"), job(QUERY), Verdict.SKIP),
        (DECIDED, job(QUERY), Verdict.SKIP),
        (Done(QUERY, "7"), job("new checkpoint"), Refusal.OTHER_QUERYS_BATCH),
    ],
)
def test_the_one_batch_of_a_batch_job(
    state: Nothing | Decided[Txn] | Done, who: Caller, verdict: Verdict | Refusal
) -> None:
    assert judge(state, who) is verdict
