"""Decision logs that are deleted, or have no compaction."""

import time
from dataclasses import replace

import pytest

from spark_kafka_sink.common.errors import ConfigError, TransactionError, UnknownTopicError
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from spark_kafka_sink.exactly_once.scope_state import Done, NoDecision
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.transactional_id import new_nonce
from tests.integration.exactly_once.simulated_writes import (
    NOTHING,
    QUERY,
    Writes,
    rows_of,
    transactions_of,
)
from tests.integration.exactly_once.stepped_client import stepped_client
from tools.support.admin import Admin


def test_decision_log_without_compaction_is_rejected(query: Writes) -> None:
    log, admin = f"log-{query.topic}", Admin(query.bootstrap_servers)
    admin.create_topic(log, configs={"cleanup.policy": "delete"})
    stream = replace(query, options={"decisionLogTopic": log})
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"cleanup\.policy"):
            stream.committer.recover()
    other = f"{log}-2"
    admin.create_topic(other, configs={"cleanup.policy": "compact"})
    compacted = replace(query, options={"decisionLogTopic": other})
    for batch in ("0", "1"):
        assert compacted.committer.recover() == (
            Done(query_id=QUERY, batch="0") if batch == "1" else NoDecision()
        )
        compacted.committer.commit(batch, compacted.tasks(batch))
    assert query.visible() == rows_of("0", "1")


def test_commit_does_not_wait_for_a_decision_log_deleted_after_the_decision(query: Writes) -> None:
    log = f"log-{query.topic}"
    stream = replace(query, options={"decisionLogTopic": log})
    tasks = transactions_of(stream.tasks("0"))
    assert stream.committer.recover() == NoDecision()

    def delete() -> None:
        Admin(query.bootstrap_servers).delete_topics(log)

    with stepped_client(stream, "after commit", delete) as scope_client:
        began = time.monotonic()
        outcome = commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="0"), tasks)
        seconds = time.monotonic() - began
    assert outcome.status is CommitStatus.COMMITTED
    assert seconds < scope_client.timer.max_block_s
    assert query.visible() == rows_of("0")


def test_decision_that_was_deleted_before_it_is_read_back_stops_the_write(query: Writes) -> None:
    """A later driver would find no decision, and write the batch again."""
    log = f"log-{query.topic}"
    stream = replace(query, options={"decisionLogTopic": log})
    stream.committer.recover()
    tasks = transactions_of(stream.tasks("0"))

    def delete() -> None:
        Admin(query.bootstrap_servers).delete_topics(log)

    with (
        stepped_client(stream, "after decide", delete) as scope_client,
        pytest.raises(TransactionError, match="decision log does not exist"),
    ):
        commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="0"), tasks)
    assert query.visible() == NOTHING
    stream.committer.recover()
    stream.committer.commit("0", stream.tasks("0"))
    assert query.visible() == rows_of("0")


@pytest.mark.parametrize("step", ["before fence", "after decide"])
def test_decision_log_deleted_after_planning_stops_the_write(query: Writes, step: str) -> None:
    """A new, empty log would hide that the decisions of other batches are lost."""
    log, admin = f"log-{query.topic}", Admin(query.bootstrap_servers)
    write = replace(query, options={"decisionLogTopic": log})
    write.committer.recover()
    tasks = transactions_of(write.tasks("0"))
    deleting = stepped_client(write, step, lambda: admin.delete_topics(log))
    with deleting as scope_client, pytest.raises((UnknownTopicError, TransactionError)) as caught:
        commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="0"), tasks)
    assert "decision log does not exist" in str(caught.value)
    assert log not in admin.client().list_topics(timeout=20).topics
    assert query.visible() == NOTHING


@pytest.mark.parametrize("complete", [False, True])
def test_abort_does_not_recreate_a_deleted_decision_log(query: Writes, complete: bool) -> None:
    log, admin = f"log-{query.topic}", Admin(query.bootstrap_servers)
    write = replace(query, options={"decisionLogTopic": log})
    write.committer.recover()
    tasks = write.tasks("0")
    admin.delete_topics(log)
    if complete:
        with pytest.raises(UnknownTopicError, match="decision log does not exist"):
            write.committer.commit("0", tasks)
        with pytest.raises(UnknownTopicError, match="decision log does not exist"):
            write.committer.abort("0", tasks, complete=True)
    else:
        write.committer.abort("0", tasks[:1], complete=False)
    assert log not in admin.client().list_topics(timeout=20).topics
    assert query.visible() == NOTHING


def test_missing_decision_log_is_not_an_empty_one(query: Writes) -> None:
    """The transactions of a decided batch must not be aborted with the wrong log."""
    stream = replace(query, options={"decisionLogTopic": f"log-{query.topic}"})
    stream.committer.recover()
    tasks = stream.tasks("0")
    wrong = replace(query, options={"decisionLogTopic": f"other-{query.topic}"})
    operator = TransactionOperator(wrong.config)
    for call in (operator.overview, operator.records, operator.commit):
        with pytest.raises(
            UnknownTopicError, match=f"decision log does not exist.*other-{query.topic}"
        ):
            call()
    with pytest.raises(UnknownTopicError):
        operator.abort((), undecided=True)
    outcome = wrong.committer.abort("0", [], complete=False, nonce=new_nonce())
    assert "decision log does not exist" in str(outcome)
    assert stream.committer.commit("0", tasks).status is CommitStatus.COMMITTED
    assert query.visible() == rows_of("0")
