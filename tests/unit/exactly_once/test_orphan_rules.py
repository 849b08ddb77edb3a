"""Transactions that no driver can decide any more."""

from dataclasses import dataclass

import pytest

from spark_kafka_sink.exactly_once.orphan_rules import OrphanCandidate, is_orphan
from spark_kafka_sink.exactly_once.scope_state import Decided, Done, NoDecision


@dataclass(frozen=True)
class Txn:
    transactional_id: str


DECIDED = Decided(query_id="query", batch="7", transactions=(Txn("decided"),))


def candidate(batch: str, name: str = "lost", query: str | None = "query") -> OrphanCandidate:
    return OrphanCandidate(transactional_id=name, query_id=query, batch=batch, nonce="nonce")


@pytest.mark.parametrize(
    ("state", "batch", "orphan"),
    [
        (NoDecision(), "0", False),
        (Done(query_id="query", batch="7"), "8", False),
        (Done(query_id="query", batch="7"), "7", True),
        (Done(query_id="query", batch="10"), "9", True),
        (DECIDED, "7", True),
        (DECIDED, "6", True),
        (DECIDED, "8", False),
        (Done(query_id="other", batch="7"), "0", False),  # may replace the other query
        # May follow such a batch 0, if this state is outdated.
        (Done(query_id="other", batch="7"), "1", False),
        (Done(query_id="other", batch="0", retired_query_ids=("query",)), "0", True),
        (Done(query_id="other", batch="0", retired_query_ids=("query",)), "7", True),
        (
            Decided(
                query_id="other",
                batch="0",
                transactions=(Txn("theirs"),),
                retired_query_ids=("query",),
            ),
            "7",
            True,
        ),
    ],
)
def test_only_transactions_that_cannot_be_decided_any_more(
    state: NoDecision | Decided[Txn] | Done, batch: str, orphan: bool
) -> None:
    assert is_orphan(state, candidate(batch)) is orphan


def test_transactions_in_a_decision_are_never_aborted() -> None:
    assert not is_orphan(DECIDED, candidate("7", "decided"))
    assert not is_orphan(DECIDED, candidate("7", "decided"), given_up_nonces={"nonce"})


def test_nonce_that_its_driver_has_given_up() -> None:
    assert is_orphan(Done(query_id="query", batch="6"), candidate("7"), given_up_nonces={"nonce"})
    assert not is_orphan(
        Done(query_id="query", batch="6"), candidate("7"), given_up_nonces={"another"}
    )


def test_batch_job_has_one_batch() -> None:
    job = candidate("2026-11-20", query=None)
    assert is_orphan(Done(query_id=None, batch="2026-11-20"), job)
    assert is_orphan(Done(query_id="of a foreachBatch", batch="2026-11-20"), job)
    assert not is_orphan(NoDecision(), job)
