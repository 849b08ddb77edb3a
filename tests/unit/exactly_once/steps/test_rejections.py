"""The errors of rejected batches, and their hints."""

import pytest

from spark_kafka_sink.exactly_once.decision_rules import (
    BatchRejection,
    Caller,
    Done,
    Nothing,
    Planning,
)
from spark_kafka_sink.exactly_once.steps.rejections import rejection_error
from spark_kafka_sink.exactly_once.transactional_id import Scope, WriteTarget
from tests.unit.exactly_once.decisions import ORDERS

CALLER = Caller(query="new", batch="3")


def test_both_writes_of_a_batch_id_are_named() -> None:
    scope = Scope.batch("orders", "7", WriteTarget(name="late"))
    caller = Caller(query=None, batch="7", single=True, rows=10, topics=("c",))
    written = Done(None, "7", rows=10, topics=tuple("abdefgh"))
    text = str(rejection_error(BatchRejection.OTHER_JOBS_ROWS, scope, written, caller))
    assert "batch 7 of orders named late to the topics of its rows" in text
    assert "10 rows, but now has 10, for topics a, b, d, e, f and 2 more, now for c" in text
    assert "--accept-loss 'orders/batch/7/topic-column/name=late'`" in text
    existing = Done("q", "7", plannings=(Planning("of another", "m"), Planning("r", "n")))
    caller = Caller(query="q", batch="7", single=True, run="r", nonces=frozenset({"o"}))
    text = str(rejection_error(BatchRejection.ANOTHER_WRITE, scope, existing, caller))
    assert "by planning n; this planning is o" in text
    assert "writeName" in text


@pytest.mark.parametrize("refusal", BatchRejection)
def test_every_rejection_has_a_hint(refusal: BatchRejection) -> None:
    error = rejection_error(refusal, ORDERS, Done("old", "17"), CALLER)
    assert refusal.value in error.message
    assert "stream orders: the decision log has batch 17 of query old" in error.message
    assert error.hint


def test_empty_log_has_no_record() -> None:
    error = rejection_error(BatchRejection.LOG_IS_EMPTY, ORDERS, Nothing(), CALLER)
    assert "has no record" in error.message
    assert "resetTransactionalState=3" in str(error)


def test_different_row_counts_are_named() -> None:
    caller = Caller(query="q", batch="17", rows=2_000)
    error = rejection_error(BatchRejection.OTHER_ROWS, ORDERS, Done("q", "17", rows=1_000), caller)
    assert "batch 17 of query q with 1,000 rows, but now has 2,000" in error.message
    assert "--prefix orders --accept-loss 'orders/stream'`" in str(error)
