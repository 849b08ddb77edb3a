"""Batches, codecs, exactly once and aborts on kfake, a cluster that is not Apache Kafka.

Another client, librdkafka, reads the records.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.scope_state import Done
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome
from spark_kafka_sink.exactly_once.transactional_id import new_nonce, prefix_pattern
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from tests.integration.exactly_once.simulated_writes import (
    PARTITIONS,
    QUERY,
    Writes,
    rows_of,
    stream,
    transactions_of,
)
from tests.integration.exactly_once.stepped_client import DECIDED, STEPS, CrashError
from tests.integration.exactly_once.stepped_client import crash as crash_driver
from tests.support.producer_writes import numbered, produce
from tools.support.admin import Admin
from tools.support.kfake_cluster import VERSIONS, kfake_cluster
from tools.support.readers import by_confluent


@pytest.fixture(scope="module", params=VERSIONS)
def kfake(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run three nodes; return the bootstrap servers."""
    with kfake_cluster(request.param) as servers:
        yield servers


@pytest.fixture
def query(kfake: str, unique_topic: str) -> Writes:
    """Return a stream with its own topic, prefix and decision log."""
    Admin(kfake).create_topic(unique_topic, PARTITIONS)
    log = {"decisionLogTopic": f"log-{unique_topic}"}
    return stream(kfake, unique_topic, f"p-{unique_topic}", **log)


def open_ids(query: Writes) -> list[str]:
    with borrowed_client(query.config.producer) as client:
        listed = TransactionAdmin(client).list(
            prefix_pattern(query.scope.prefix), client.deadline(20)
        )
    return [transaction.transactional_id for transaction in listed]


@pytest.mark.parametrize("acks", ["all", "1", "0"])
@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_every_codec_is_read_by_another_client(
    kfake: str, unique_topic: str, codec: str, acks: str
) -> None:
    chunk = numbered(unique_topic, 0, 5_000, PARTITIONS)
    options = {"compression_type": codec, "acks": acks, "enable_idempotence": acks == "all"}
    report = produce(kfake, chunk, **options)
    assert report.persisted == (0 if acks == "0" else 5_000)
    counts = Counter(int(record.value or b"-1") for record in by_confluent(kfake, unique_topic))
    assert counts == Counter(range(5_000))


def test_repeated_batch_is_not_written_again(query: Writes) -> None:
    first = query.committer.commit("0", query.tasks("0"))
    again = query.committer.commit("0", query.tasks("0"))
    following = query.committer.commit("1", query.tasks("1"))
    statuses = [outcome.status for outcome in (first, again, following)]
    assert statuses == [
        CommitStatus.COMMITTED,
        CommitStatus.ALREADY_WRITTEN,
        CommitStatus.COMMITTED,
    ]
    assert query.committer.recover() == Done(query_id=QUERY, batch="1")
    assert query.await_visible(rows_of("0", "1"))
    assert open_ids(query) == []


def test_abort_leaves_no_open_transaction(query: Writes) -> None:
    """One task has not reported; its transaction is listed, and fenced."""
    query.committer.recover()  # As in planning, which creates the decision log.
    nonce = new_nonce()
    results = query.tasks("0", nonce=nonce)
    outcome = query.committer.abort("0", results[1:], complete=False, nonce=nonce)
    assert (outcome.status, outcome.aborted) == (CommitStatus.ABORTED, 3)
    assert (outcome.left_open, outcome.problem) == ((), "")
    assert open_ids(query) == []
    query.committer.commit("0", query.tasks("0"))
    assert query.await_visible(rows_of("0"))


@pytest.mark.parametrize("step", STEPS)
def test_no_loss_or_duplicates_after_driver_crash(query: Writes, step: str) -> None:
    query.committer.commit("0", query.tasks("0"))
    results = query.tasks("1")
    crash_driver(query, "1", step, transactions_of(results))
    query.committer.commit("1", query.tasks("1"))
    if step not in DECIDED:
        left = [query.result(TaskOutcome.WRITTEN, "1", result.transaction) for result in results]
        query.committer.abort("1", left, complete=False)
    assert query.await_visible(rows_of("0", "1"))
    assert open_ids(query) == []


def test_open_transaction_of_a_crashed_driver_is_not_overlooked(
    request: pytest.FixtureRequest, query: Writes
) -> None:
    """The driver crashes between the append of its decision and EndTxn."""

    def crash() -> None:
        raise CrashError

    record = DecisionRecord(
        state=Done(query_id=QUERY, batch="0"), at_ms=0, transactions=0, records=0
    )
    with suppress(CrashError), borrowed_client(query.config.producer) as client:
        scope_client = ScopeClient(client, query.config, query.scope)
        scope_client.log.read()
        scope_client.log.append(scope_client.fence(), record, before_commit=crash)
    if request.node.callspec.params["kfake"] == "empty-markers":  # InitProducerId does not end it.
        results = query.tasks("0")
        with pytest.raises(TransactionError, match="contains an open transaction"):
            query.committer.commit("0", results)
        query.committer.abort("0", results, complete=True)
    assert query.committer.commit("0", query.tasks("0")).status is CommitStatus.COMMITTED
    assert query.await_visible(rows_of("0"))
    assert open_ids(query) == []
