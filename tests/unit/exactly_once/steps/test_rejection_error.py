"""The errors for batches that must not be written."""

import pytest

from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.scope_state import Done, NoDecision, Planning
from spark_kafka_sink.exactly_once.steps.rejection_error import rejection_error
from spark_kafka_sink.exactly_once.transactional_id import Scope, WriteDestination
from tests.support.decisions import ORDERS

BATCH_WRITE = BatchWrite(query_id="new", batch="3")


def test_both_writes_of_a_batch_id_are_named() -> None:
    scope = Scope.batch("orders", "7", WriteDestination(name="late"))
    batch_write = BatchWrite(query_id=None, batch="7", is_single_batch=True, rows=10, topics=("c",))
    written = Done(query_id=None, batch="7", rows=10, topics=tuple("abdefgh"))
    text = str(rejection_error(BatchRejection.OTHER_JOBS_ROWS, scope, written, batch_write))
    assert "batch 7 of orders named late to the topics of its rows" in text
    assert "now has" not in text
    assert ", for topics a, b, d, e, f and 2 more, now for c" in text
    assert "--accept-loss 'orders/batch/7/topic-column/name=late'`" in text
    existing = Done(
        query_id="q", batch="7", plannings=(Planning("of another", "m"), Planning("r", "n"))
    )
    batch_write = BatchWrite(
        query_id="q", batch="7", is_single_batch=True, run_id="r", nonces=frozenset({"o"})
    )
    text = str(rejection_error(BatchRejection.ANOTHER_WRITE, scope, existing, batch_write))
    assert "by planning n; this planning is o" in text
    assert "writeName" in text


@pytest.mark.parametrize("rejection", BatchRejection)
def test_every_rejection_has_a_hint(rejection: BatchRejection) -> None:
    error = rejection_error(rejection, ORDERS, Done(query_id="old", batch="17"), BATCH_WRITE)
    assert rejection.problem in error.message
    assert "stream orders: the decision log has batch 17 of query old" in error.message
    assert error.hint


def test_empty_log_has_no_record() -> None:
    error = rejection_error(BatchRejection.LOG_IS_EMPTY, ORDERS, NoDecision(), BATCH_WRITE)
    assert "has no record" in error.message
    assert "resetTransactionalState=3" in str(error)


def test_different_row_counts_are_named() -> None:
    batch_write = BatchWrite(query_id="q", batch="17", rows=2_000)
    error = rejection_error(
        BatchRejection.OTHER_ROWS, ORDERS, Done(query_id="q", batch="17", rows=1_000), batch_write
    )
    assert "batch 17 of query q with 1,000 rows, but now has 2,000" in error.message
    assert "--prefix orders --accept-loss 'orders/stream'`" in str(error)


def test_rows_of_another_batch_are_not_compared() -> None:
    behind = BatchWrite(query_id="q", batch="16", rows=2_000, topics=("a",))
    written = Done(query_id="q", batch="17", rows=1_000, topics=("b",))
    error = rejection_error(BatchRejection.BATCH_IS_BEHIND, ORDERS, written, behind)
    assert "(stream orders: the decision log has batch 17 of query q)" in error.message
