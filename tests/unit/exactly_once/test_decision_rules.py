"""The decisions of drivers and tasks, case by case."""

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.decision_rules import (
    MAX_GIVEN_UP,
    AbortTasks,
    AlreadyDone,
    BatchVerdict,
    BatchWrite,
    Decide,
    GiveUp,
    RejectBatch,
    RollForward,
    batch_verdict,
    never_decided,
    next_abort_step,
    next_commit_step,
    next_planning_step,
    replaces_query,
)
from spark_kafka_sink.exactly_once.scope_state import (
    Decided,
    Done,
    NoDecision,
    Planning,
    ScopeStateOf,
)

QUERY, OTHER = "query-1", "query-2"
AFTER_7 = Done(query_id=QUERY, batch="7", rows=10)
FUNCTION = Done(query_id=QUERY, batch="7", rows=10, plannings=(Planning("r", "n"),))
TO_A = Done(query_id=None, batch="7", rows=10, topics=("a",))
FOUND = Done(query_id=QUERY, batch="7", plannings=(Planning("r", "n"), Planning("of a rival", "o")))


@dataclass(frozen=True)
class Txn:
    transactional_id: str


OURS = (Txn("a"), Txn("b"))
DECIDED = Decided(query_id=QUERY, batch="7", transactions=OURS)


def done(batch: str, query: str | None = QUERY, **more: Any) -> Done:
    return Done(query_id=query, batch=batch, **more)


def batch_write(
    batch: str, query: str | None = QUERY, *, reset: bool = False, nonce: str = "", **more: Any
) -> BatchWrite:
    nonces = frozenset(nonce)
    return BatchWrite(query_id=query, batch=batch, resets_state=reset, nonces=nonces, **more)


def job(query: str | None = None, **more: Any) -> BatchWrite:
    return batch_write("7", query, is_single_batch=True, **more)


TABLE: tuple[tuple[str, str, NoDecision | Done, BatchWrite], ...] = (
    ("nothing", "batch 0, or a batch job", NoDecision(), batch_write("0")),
    ("nothing", "a later batch", NoDecision(), batch_write("3")),
    (
        "nothing",
        "the batch of resetTransactionalState",
        NoDecision(),
        batch_write("3", reset_batch="3"),
    ),
    ("the previous batch", "the next batch of the query", AFTER_7, batch_write("8", rows=20)),
    ("the same batch", "the same rows", AFTER_7, batch_write("7", rows=10)),
    ("the same batch", "different rows", AFTER_7, batch_write("7", rows=20)),
    ("a later batch", "an earlier batch of the query", AFTER_7, batch_write("6")),
    ("an earlier batch", "a batch of the query after the next", AFTER_7, batch_write("9")),
    (
        "an earlier batch",
        "the batch of resetTransactionalState",
        AFTER_7,
        batch_write("9", reset_batch="9"),
    ),
    ("another query", "any batch", AFTER_7, batch_write("8", OTHER)),
    (
        "another query",
        "batch 0, resetTransactionalState=true",
        AFTER_7,
        batch_write("0", OTHER, reset=True),
    ),
    (
        "a query that has replaced it",
        "any batch of the replaced query",
        done("0", OTHER, retired_query_ids=(QUERY,)),
        batch_write("0", reset=True),
    ),
    ("the one batch of a job", "the same rows", done("7", None, rows=10), job(rows=10)),
    ("the one batch of a job", "different rows", done("7", None, rows=10), job(rows=20)),
    ("a batch of foreachBatch", "another query", FUNCTION, job(OTHER, rows=10)),
    (
        "a batch of foreachBatch",
        "a different write in the same run",
        FUNCTION,
        job(QUERY, rows=10, run_id="r", nonce="m"),
    ),
    (
        "a batch of foreachBatch",
        "a later batch, and no query id",
        FUNCTION,
        job(rows=10, run_id="s", nonce="m", has_later_batch=True),
    ),
    (
        "plannings given up by abort()",
        "one of these plannings",
        NoDecision(("n",)),
        batch_write("0", nonce="n"),
    ),
    (
        "not this batch",
        "tasks that skipped the batch",
        done("7"),
        batch_write("8", has_skipped=True),
    ),
)


def abort_step(
    state: ScopeStateOf[Txn], write: BatchWrite
) -> RollForward[Txn] | GiveUp | AbortTasks:
    return next_abort_step(state, write)


@pytest.mark.parametrize(
    ("state", "write", "verdict"),
    [
        (NoDecision(), batch_write("3", reset=True), BatchRejection.LOG_IS_EMPTY),
        (NoDecision(), batch_write("4", reset_batch="3"), BatchRejection.LOG_IS_EMPTY),
        (NoDecision(), batch_write("2026-11-20", None), BatchVerdict.WRITE),
        (done("2026-11-20", None), batch_write("2026-11-20", None), BatchVerdict.SKIP),
        (done("7"), batch_write("8"), BatchVerdict.WRITE),
        (done("7"), batch_write("7"), BatchVerdict.SKIP),
        (done("7"), batch_write("7", reset=True), BatchVerdict.SKIP),
        (DECIDED, batch_write("7"), BatchVerdict.SKIP),
        (DECIDED, batch_write("8"), BatchVerdict.WRITE),
        (done("7"), batch_write("6"), BatchRejection.BATCH_IS_BEHIND),
        (done("7"), batch_write("6", reset=True), BatchRejection.BATCH_IS_BEHIND),
        (done("9"), batch_write("10"), BatchVerdict.WRITE),
        (done("7"), batch_write("9"), BatchRejection.BATCH_IS_AHEAD),
        (done("7"), batch_write("9", reset=True), BatchRejection.BATCH_IS_AHEAD),
        (done("7"), batch_write("9", reset_batch="9"), BatchVerdict.WRITE),
        (done("9"), batch_write("9", reset_batch="9"), BatchVerdict.SKIP),
        (done("9"), batch_write("8", reset_batch="8"), BatchRejection.BATCH_IS_BEHIND),
        (done("7"), batch_write("9", OTHER, reset_batch="9"), BatchRejection.OTHER_QUERY),
        (done("7", rows=0), batch_write("7", rows=1), BatchRejection.OTHER_ROWS),
        (done("7", rows=10), batch_write("7", reset=True, rows=20), BatchRejection.OTHER_ROWS),
        (done("7", rows=10), batch_write("7"), BatchVerdict.SKIP),
        (done("7"), batch_write("7", rows=20), BatchVerdict.SKIP),
        (done("7"), batch_write("7", OTHER), BatchRejection.OTHER_QUERY),
        (done("7"), batch_write("0", OTHER), BatchRejection.OTHER_QUERY),
        (done("7"), batch_write("0", OTHER, reset=True), BatchVerdict.WRITE),
        (done("7"), batch_write("8", OTHER, reset=True), BatchRejection.OTHER_QUERY),
        (
            done("0", OTHER, retired_query_ids=(QUERY,)),
            batch_write("1"),
            BatchRejection.RETIRED_QUERY,
        ),
        (NoDecision(), job(), BatchVerdict.WRITE),
        (NoDecision(), job(QUERY), BatchVerdict.WRITE),
        (done("7", None), job(), BatchVerdict.SKIP),
        (done("7"), job(QUERY), BatchVerdict.SKIP),
        (done("7"), job(), BatchVerdict.SKIP),
        (done("7", None), job(QUERY), BatchVerdict.SKIP),
        (DECIDED, job(QUERY), BatchVerdict.SKIP),
        (done("7"), job("new checkpoint"), BatchRejection.OTHER_QUERYS_BATCH),
        (done("7", rows=10), job(rows=20), BatchRejection.OTHER_JOBS_ROWS),
        (done("7", rows=10), job(QUERY, rows=20), BatchRejection.OTHER_JOBS_ROWS),
        (done("7", rows=10), job(QUERY, rows=10), BatchVerdict.SKIP),
        (TO_A, job(rows=10, topics=("a",)), BatchVerdict.SKIP),
        (TO_A, job(rows=10, topics=("a", "b")), BatchRejection.OTHER_JOBS_ROWS),
        (TO_A, job(rows=10), BatchVerdict.SKIP),
        (FOUND, job(QUERY, run_id="r", nonce="n"), BatchVerdict.SKIP),
        (FOUND, job(QUERY, run_id="r", nonce="m"), BatchRejection.ANOTHER_WRITE),
        (FOUND, job(QUERY, run_id="r"), BatchRejection.ANOTHER_WRITE),
        (FOUND, job(QUERY, run_id="s", nonce="m"), BatchVerdict.SKIP),
        (FOUND, job(QUERY, nonce="m"), BatchVerdict.SKIP),
    ],
)
def test_each_state_has_a_verdict_for_a_batch(
    state: NoDecision | Decided[Txn] | Done,
    write: BatchWrite,
    verdict: BatchVerdict | BatchRejection,
) -> None:
    assert batch_verdict(state, write) is verdict


def documented_rows() -> list[list[str]]:
    """Return the rows of the table in the module's docstring, as lists of columns."""
    table = (decision_rules.__doc__ or "").split("verdict\n\n", 1)[1].split("\n\n", 1)[0]
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


def test_documented_table_is_complete() -> None:
    rows = documented_rows()
    assert [row[:2] for row in rows] == [[log, batch] for log, batch, *_ in TABLE]
    verdicts = {verdict for _, _, verdict in rows}
    assert verdicts == {*BatchVerdict.__members__, *BatchRejection.__members__}


@pytest.mark.parametrize(
    ("row", "case"),
    list(zip(documented_rows(), TABLE, strict=True)),
    ids=[f"{log}; {batch}" for log, batch, *_ in TABLE],
)
def test_each_row_of_the_documented_table(
    row: list[str], case: tuple[str, str, NoDecision | Done, BatchWrite]
) -> None:
    _, _, state, write = case
    step = next_commit_step(state, write, OURS)
    if isinstance(step, RejectBatch):
        assert step.rejection.name == row[2]
    else:
        expected = {"WRITE": Decide, "SKIP": AlreadyDone}[row[2]]
        assert isinstance(step, expected)


def test_existing_decision_is_completed_first() -> None:
    for write in (
        batch_write("7"),
        batch_write("8"),
        batch_write("3"),
        batch_write("0", OTHER, reset=True),
    ):
        assert next_commit_step(DECIDED, write, ()) == RollForward(DECIDED)
    assert next_abort_step(DECIDED, batch_write("7")) == RollForward(DECIDED)
    assert next_planning_step(DECIDED) == RollForward(DECIDED)
    assert DECIDED.to_done() == done("7")


def test_query_that_takes_over_retires_the_previous_one() -> None:
    log = done("4", OTHER, retired_query_ids=("query-0",))
    step = next_commit_step(log, batch_write("0", reset=True), OURS)
    assert step == Decide(
        Decided(query_id=QUERY, batch="0", transactions=OURS, retired_query_ids=("query-0", OTHER))
    )
    assert next_commit_step(done("0", retired_query_ids=(OTHER,)), batch_write("1"), ()) == Decide(
        Decided(query_id=QUERY, batch="1", transactions=(), retired_query_ids=(OTHER,))
    )


def test_takeover_requires_the_option_a_new_query_and_its_first_batch() -> None:
    assert replaces_query(DECIDED, batch_write("0", OTHER, reset=True))
    assert not replaces_query(DECIDED, batch_write("0", OTHER))
    assert not replaces_query(DECIDED, batch_write("1", OTHER, reset=True))
    assert not replaces_query(DECIDED, batch_write("0", reset=True))
    assert not replaces_query(
        done("0", retired_query_ids=(OTHER,)), batch_write("0", OTHER, reset=True)
    )


def test_abort_keeps_decided_transactions() -> None:
    assert never_decided(DECIDED, ["a", "b", "c"]) == {"c"}
    assert never_decided(done("7"), ["c"]) == {"c"}
    assert next_abort_step(NoDecision(), batch_write("0")) == AbortTasks()
    assert next_planning_step(done("6")) is None


def test_abort_marks_abandoned_writes_and_commit_rejects_them() -> None:
    ours = batch_write("7", nonce="n")
    states: tuple[NoDecision | Done, ...] = (
        NoDecision(("m",)),
        done("6", retired_query_ids=(OTHER,), given_up_nonces=("m",)),
        done("3", OTHER),
    )
    for state in states:
        step = abort_step(state, ours)
        assert isinstance(step, GiveUp)
        assert step.state == replace(state, given_up_nonces=(*state.given_up_nonces, "n"))
        assert next_abort_step(step.state, ours) == AbortTasks()
    marked = done("6", retired_query_ids=(), given_up_nonces=("n", "m"))
    assert next_commit_step(marked, ours, OURS) == RejectBatch(BatchRejection.GIVEN_UP)


def test_decision_clears_the_marks_of_its_batch() -> None:
    another = batch_write("7", nonce="o")
    step = next_commit_step(done("6", retired_query_ids=(), given_up_nonces=("n",)), another, OURS)
    assert step == Decide(DECIDED)
    late = batch_write("7", nonce="n")
    assert next_commit_step(DECIDED.to_done(), late, ()) == AlreadyDone()
    assert next_abort_step(DECIDED.to_done(), late) == AbortTasks()


def test_batch_with_other_rows_is_rejected_and_aborted_without_a_mark() -> None:
    log = replace(DECIDED, rows=10).to_done()
    late = batch_write("7", nonce="n", rows=20, has_skipped=True)
    assert next_commit_step(log, late, ()) == RejectBatch(BatchRejection.OTHER_ROWS)
    assert next_abort_step(log, late) == AbortTasks()
    step = next_commit_step(log, replace(late, batch="8", has_skipped=False), OURS)
    assert step == Decide(Decided(query_id=QUERY, batch="8", transactions=OURS, rows=20))


def test_number_of_marks_is_limited() -> None:
    state = NoDecision(tuple(f"{number}" for number in range(MAX_GIVEN_UP)))
    step = abort_step(state, batch_write("0", nonce="n"))
    assert isinstance(step, GiveUp)
    assert step.state.given_up_nonces == (*state.given_up_nonces[1:], "n")


def test_existing_write_belongs_to_the_run_that_found_it() -> None:
    """Another write of the same run is rejected, even if the first run has ended."""
    first, again, other = (
        job(QUERY, rows=10, run_id=run, nonce=nonce)
        for run, nonce in (("r", "n"), ("s", "o"), ("s", "p"))
    )
    step = next_commit_step(NoDecision(), first, OURS)
    assert isinstance(step, Decide)
    done = step.decided.to_done()
    assert done.plannings == (Planning("r", "n"),)
    assert next_commit_step(done, first, OURS) == AlreadyDone()
    existing = replace(done, plannings=(Planning("r", "n"), Planning("s", "o")))
    assert next_commit_step(done, again, ()) == AlreadyDone(existing)
    assert next_commit_step(existing, again, ()) == AlreadyDone()
    assert next_commit_step(existing, other, ()) == RejectBatch(BatchRejection.ANOTHER_WRITE)
    assert abort_step(existing, other) == AbortTasks()


@pytest.mark.parametrize(
    ("written_by", "rows", "query", "run", "verdict"),
    [
        (None, 10, None, "s", BatchRejection.EARLIER_BATCH),
        (QUERY, 10, None, "s", BatchRejection.EARLIER_BATCH),
        (None, 10, QUERY, "s", BatchRejection.EARLIER_BATCH),
        (QUERY, 10, QUERY, "s", BatchVerdict.SKIP),
        (QUERY, 10, OTHER, "s", BatchRejection.OTHER_QUERYS_BATCH),
        (None, 10, None, None, BatchVerdict.SKIP),
        (None, None, None, "s", BatchVerdict.SKIP),
    ],
)
def test_batch_before_the_latest_of_an_unknown_query_is_rejected(
    written_by: str | None,
    rows: int | None,
    query: str | None,
    run: str | None,
    verdict: BatchVerdict | BatchRejection,
) -> None:
    """A restarted query repeats only its latest batch; None rows are confirmed by an operator."""
    state = done("7", written_by, rows=rows, plannings=(Planning("r", "n"),))
    latest = job(query, run_id=run, nonce="m")
    earlier = replace(latest, has_later_batch=True)
    assert batch_verdict(state, earlier) is verdict
    if verdict is BatchRejection.EARLIER_BATCH:
        assert batch_verdict(state, latest) is BatchVerdict.SKIP
        assert abort_step(state, earlier) == AbortTasks()
    assert batch_verdict(NoDecision(), earlier) is BatchVerdict.WRITE
