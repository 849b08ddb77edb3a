"""abort() during a commit() of the same driver or of a newer one."""

import pytest

from spark_kafka_sink.common.errors import FencedError, TransactionError
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.scope_state import Decided, Done, NoDecision
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from tests.integration.exactly_once.simulated_writes import QUERY, Writes, rows_of, transactions_of
from tests.integration.exactly_once.stepped_client import stepped_client

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("batch", ["0", "1"])
def test_aborted_batch_is_never_decided(query: Writes, batch: str) -> None:
    before = ["0"] if batch == "1" else []
    for batch_id in before:
        query.committer.commit(batch_id, query.tasks(batch_id))
    results = query.tasks(batch, nonce="0123456789abcdef")
    query.committer.abort(batch, results, complete=True)
    marks = ("0123456789abcdef",)
    marked = (
        Done(query_id=QUERY, batch="0", retired_query_ids=(), given_up_nonces=marks)
        if before
        else NoDecision(marks)
    )
    assert query.committer.recover() == marked
    with pytest.raises(TransactionError, match=r"abort\(\) was called"):
        query.committer.commit(batch, results)
    query.committer.commit(batch, query.tasks(batch))
    assert query.committer.recover() == Done(query_id=QUERY, batch=batch)
    assert query.visible() == rows_of(*before, batch)


def test_fenced_driver_does_not_affect_the_newer_one(query: Writes) -> None:
    older, newer = query.tasks("0"), query.tasks("0")
    with stepped_client(query, "", lambda: None) as scope_client:
        owners: list[TransactionalProducer] = []

        def take_over() -> None:
            owners.append(scope_client.fence())
            assert scope_client.log.read_after_fence() is None

        fenced = stepped_client(query, "before decide", take_over)
        with fenced as other, pytest.raises(FencedError):
            commit_batch(other, BatchWrite(query_id=QUERY, batch="0"), transactions_of(older))
        outcome = query.committer.abort("0", older, complete=True)
        assert (outcome.status, outcome.aborted) == (CommitStatus.ABORTED, 3)
        decided = Decided(query_id=QUERY, batch="0", transactions=transactions_of(newer))
        scope_client.log.append(owners[0], DecisionRecord.of(decided, scope_client.timer.wall_ms()))
    assert query.committer.recover() == Done(query_id=QUERY, batch="0")
    assert query.visible() == rows_of("0")
