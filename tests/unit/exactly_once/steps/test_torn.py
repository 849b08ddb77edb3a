"""The outcomes of a decided batch's transactions, and the error of a torn batch."""

import pickle
from dataclasses import replace

import pytest

from spark_kafka_sink.exactly_once.decision_record import Fate
from spark_kafka_sink.exactly_once.decision_rules import Decided
from spark_kafka_sink.exactly_once.steps.torn import (
    fates_from_codes,
    resolve_unknown_fates,
    torn_error,
)
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange
from spark_kafka_sink.exactly_once.transactional_id import Scope
from spark_kafka_sink.kafka.admin.transaction_handlers import TransactionDescription
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker, control_batch
from tests.support.harness.scripted import blocking_client
from tests.unit.exactly_once.decisions import ORDERS, task_transactions
from tests.unit.kafka.admin.partition_leader import PartitionLeader
from tools.support.transactions import batch

DECIDED = Decided("q", "17", task_transactions(2, partitions=2))
FIRST, SECOND = (transaction.transactional_id for transaction in DECIDED.transactions)

(TASK,) = task_transactions(1)
OURS, OTHER = TASK.transaction.producer_id, 9
DENIED = 29
NOT_LEADER = 6


def told(state: TransactionState, producer_id: int = 4_001) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=SECOND,
        state=state,
        producer_id=producer_id,
        epoch=1,
        timeout_ms=0,
        started_ms=None,
    )


@pytest.mark.parametrize(
    ("code", "description", "fate"),
    [
        (ErrorCode.none, None, Fate.COMMITTED),
        (ErrorCode.invalid_txn_state, None, Fate.LOST),
        (ErrorCode.invalid_txn_state, told(TransactionState.EMPTY), Fate.LOST),
        (ErrorCode.producer_fenced, None, Fate.UNKNOWN),
        (ErrorCode.producer_fenced, told(TransactionState.COMPLETE_ABORT), Fate.LOST),
        (ErrorCode.producer_fenced, told(TransactionState.PREPARE_ABORT), Fate.LOST),
        (ErrorCode.producer_fenced, told(TransactionState.COMPLETE_COMMIT), Fate.COMMITTED),
        (ErrorCode.producer_fenced, told(TransactionState.COMPLETE_COMMIT, 9), Fate.UNKNOWN),
        (ErrorCode.producer_fenced, told(TransactionState.EMPTY), Fate.UNKNOWN),
        (ErrorCode.invalid_producer_epoch, told(TransactionState.ONGOING), Fate.UNKNOWN),
        (ErrorCode.invalid_producer_id_mapping, None, Fate.UNKNOWN),
    ],
)
def test_error_code_and_description_determine_the_fate(
    code: int, description: TransactionDescription | None, fate: Fate
) -> None:
    descriptions = {} if description is None else {SECOND: description}
    fates = fates_from_codes(DECIDED, {FIRST: 0, SECOND: code}, descriptions)
    assert fates == (Fate.COMMITTED, fate)


def test_unnamed_partitions_are_counted() -> None:
    first, second = DECIDED.transactions
    some = replace(
        second, partitions=second.partitions[:1], unnamed_partitions=1, unnamed_records=10
    )
    many = replace(DECIDED, transactions=(first, some))
    details = torn_error(ORDERS, many, (Fate.COMMITTED, Fate.LOST)).details
    assert "  and 1 more partition: 10 records" in details


def test_error_lists_lost_and_persisted_rows() -> None:
    error = torn_error(ORDERS, DECIDED, (Fate.COMMITTED, Fate.LOST))
    assert error.message == (
        "batch 17 of stream orders is torn: 1 of 2 decided transactions can no longer be committed"
    )
    assert "resetTransactionalState=true" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert str(again).splitlines()[1:] == [
        f"  lost: {SECOND}, 20 records",
        "    events-0: 10 records, offsets 0 to 9",
        "    events-1: 10 records, offsets 0 to 9",
        f"  committed: {FIRST}, 20 records",
    ]


def test_long_list_is_truncated() -> None:
    many = Decided("q", "17", task_transactions(100))
    lines = str(torn_error(ORDERS, many, (Fate.LOST,) * 100)).splitlines()
    assert lines[51] == "  and 150 more lines in the decision log"


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (ORDERS, "--prefix orders --accept-loss 'orders/stream'` lets the query continue"),
        (
            Scope.batch("a", "b c"),
            "--prefix a --accept-loss 'a/batch/b%20c/topic-column'` marks the batch as written",
        ),
        (Scope.run("a"), "removes them. To prevent this, raise transaction.timeout.ms"),
    ],
)
def test_error_explains_how_to_continue(scope: Scope, words: str) -> None:
    assert words in str(torn_error(scope, DECIDED, (Fate.COMMITTED, Fate.LOST)))


def test_topic_is_read_if_brokers_do_not_know_the_transaction() -> None:
    for fate in Fate:
        text = str(torn_error(ORDERS, DECIDED, (Fate.LOST, fate)))
        assert ("a transaction with an unknown outcome" in text) == (fate is Fate.UNKNOWN)


def marker(producer_id: int, *, commit: bool) -> bytes:
    return control_batch(EndTransactionMarker(producer_id=producer_id, epoch=1, commit=commit), 0)


def fate(cluster: PartitionLeader, last_offset: int | None = 1) -> Fate:
    place = PartitionRange(
        topic="t", partition=0, records=2, first_offset=0, last_offset=last_offset
    )
    decided = Decided("q", "17", (replace(TASK, partitions=(place,)),))
    with blocking_client(cluster) as client:
        (outcome,) = resolve_unknown_fates(client, decided, (Fate.UNKNOWN,))
    return outcome


@pytest.mark.parametrize(("commit", "expected"), [(True, Fate.COMMITTED), (False, Fate.LOST)])
def test_first_marker_of_the_producer_after_its_records_decides(
    commit: bool, expected: Fate
) -> None:
    cluster = PartitionLeader()
    others = marker(OTHER, commit=not commit)
    ours = marker(OURS, commit=commit)
    cluster.hold(batch([b"a", b"b"]), others, batch([b"c"]), ours, batch([b"d"]))
    assert fate(cluster) is expected


def test_log_that_starts_after_the_records_may_still_have_the_marker() -> None:
    cluster = PartitionLeader()
    cluster.hold(marker(OURS, commit=True), base=7)
    cluster.start = 7
    assert fate(cluster) is Fate.COMMITTED


def test_outcome_is_unknown_without_a_marker() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"a", b"b"]), marker(OTHER, commit=True))
    assert fate(cluster) is Fate.UNKNOWN
    assert fate(cluster, last_offset=None) is Fate.UNKNOWN
    cluster.fetch_codes.append(DENIED)
    assert fate(cluster) is Fate.UNKNOWN


def test_topic_that_cannot_be_read_is_read_once() -> None:
    """A decision can have many transactions with many partitions."""
    cluster = PartitionLeader()
    cluster.hold(batch([b"a", b"b"]), marker(OURS, commit=True))
    cluster.fetch_codes.extend([DENIED] * 10_000)
    places = tuple(
        PartitionRange(topic="t", partition=0, records=2, first_offset=0, last_offset=last)
        for last in (1, 2)
    )
    tasks = tuple(replace(task, partitions=places) for task in task_transactions(20))
    with blocking_client(cluster) as client:
        resolve_unknown_fates(client, Decided("q", "17", tasks), (Fate.UNKNOWN,) * len(tasks))
    assert len(cluster.fetched()) == 1


def test_no_search_starts_after_the_deadline() -> None:
    """A single search may take as long as all of them may."""
    cluster = PartitionLeader()
    cluster.hold(batch([b"a", b"b"]), marker(OURS, commit=True))
    cluster.fetch_codes.extend([NOT_LEADER] * 10_000)
    place = PartitionRange(topic="t", partition=0, records=2, first_offset=0, last_offset=1)
    tasks = tuple(replace(task, partitions=(place, place)) for task in task_transactions(20))
    unknown = (Fate.UNKNOWN,) * len(tasks)
    with blocking_client(cluster) as client:
        deadline = client.deadline(3)
        assert (
            resolve_unknown_fates(client, Decided("q", "17", tasks), unknown, deadline) == unknown
        )
        assert client.now() < deadline + 1
        fetches = len(cluster.fetched())
        assert (
            resolve_unknown_fates(client, Decided("q", "17", tasks), unknown, client.now())
            == unknown
        )
    assert len(cluster.fetched()) == fetches
