"""The outcomes of a decided batch's transactions."""

from dataclasses import replace

import pytest

from spark_kafka_sink.exactly_once.decision_record import Fate
from spark_kafka_sink.exactly_once.scope_state import Decided
from spark_kafka_sink.exactly_once.steps.fates import FateReader, fates_from_codes
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange
from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker, encode_control_batch
from tests.support.decisions import task_transactions
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.partition_leader import PartitionLeader
from tools.support.transactions import batch

DECIDED = Decided(query_id="q", batch="17", transactions=task_transactions(2))
FIRST, SECOND = (transaction.transactional_id for transaction in DECIDED.transactions)

(TASK,) = task_transactions(1)
OURS, OTHER = TASK.transaction.producer_id, 9


def described(state: TransactionState, producer_id: int = 4_001) -> TransactionDescription:
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
        (ErrorCode.invalid_txn_state, described(TransactionState.COMPLETE_ABORT), Fate.LOST),
        (ErrorCode.invalid_txn_state, described(TransactionState.COMPLETE_COMMIT), Fate.COMMITTED),
        (ErrorCode.invalid_txn_state, described(TransactionState.COMPLETE_COMMIT, 9), Fate.LOST),
        (ErrorCode.invalid_txn_state, described(TransactionState.EMPTY), Fate.UNKNOWN),
        (ErrorCode.producer_fenced, None, Fate.UNKNOWN),
        (ErrorCode.producer_fenced, described(TransactionState.COMPLETE_ABORT), Fate.LOST),
        (ErrorCode.producer_fenced, described(TransactionState.PREPARE_ABORT), Fate.LOST),
        (ErrorCode.producer_fenced, described(TransactionState.COMPLETE_COMMIT), Fate.COMMITTED),
        (ErrorCode.producer_fenced, described(TransactionState.COMPLETE_COMMIT, 9), Fate.UNKNOWN),
        (ErrorCode.producer_fenced, described(TransactionState.EMPTY), Fate.UNKNOWN),
        (ErrorCode.invalid_producer_epoch, described(TransactionState.ONGOING), Fate.UNKNOWN),
        (ErrorCode.invalid_producer_id_mapping, None, Fate.UNKNOWN),
    ],
)
def test_error_code_and_description_determine_the_fate(
    code: int, description: TransactionDescription | None, fate: Fate
) -> None:
    descriptions = {} if description is None else {SECOND: description}
    fates = fates_from_codes(DECIDED, {FIRST: 0, SECOND: code}, descriptions)
    assert fates == (Fate.COMMITTED, fate)


def marker(producer_id: int, *, commit: bool) -> bytes:
    return encode_control_batch(
        EndTransactionMarker(producer_id=producer_id, epoch=1, is_commit=commit), 0
    )


def fate(cluster: PartitionLeader, last_offset: int | None = 1) -> Fate:
    place = PartitionRange(
        topic="t", partition=0, records=2, first_offset=0, last_offset=last_offset
    )
    decided = Decided(query_id="q", batch="17", transactions=(replace(TASK, partitions=(place,)),))
    with blocking_client(cluster) as client:
        (outcome,) = FateReader(client).resolve_unknown(decided, (Fate.UNKNOWN,))
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
    cluster.fetch_codes.append(ErrorCode.topic_authorization_failed)
    assert fate(cluster) is Fate.UNKNOWN


def test_topic_that_cannot_be_read_is_read_once() -> None:
    """A decision can have many transactions with many partitions."""
    cluster = PartitionLeader()
    cluster.hold(batch([b"a", b"b"]), marker(OURS, commit=True))
    cluster.fetch_codes.extend([ErrorCode.topic_authorization_failed] * 10_000)
    places = tuple(
        PartitionRange(topic="t", partition=0, records=2, first_offset=0, last_offset=last)
        for last in (1, 2)
    )
    tasks = tuple(replace(task, partitions=places) for task in task_transactions(20))
    with blocking_client(cluster) as client:
        FateReader(client).resolve_unknown(
            Decided(query_id="q", batch="17", transactions=tasks), (Fate.UNKNOWN,) * len(tasks)
        )
    assert len(cluster.fetched()) == 1


def test_no_search_starts_after_the_deadline() -> None:
    """A single search may take as long as all of them may."""
    cluster = PartitionLeader()
    cluster.hold(batch([b"a", b"b"]), marker(OURS, commit=True))
    cluster.fetch_codes.extend([ErrorCode.not_leader_or_follower] * 10_000)
    place = PartitionRange(topic="t", partition=0, records=2, first_offset=0, last_offset=1)
    tasks = tuple(replace(task, partitions=(place, place)) for task in task_transactions(20))
    unknown, decided = (
        (Fate.UNKNOWN,) * len(tasks),
        Decided(query_id="q", batch="17", transactions=tasks),
    )
    with blocking_client(cluster) as client:
        deadline = client.deadline(3)
        assert FateReader(client, deadline).resolve_unknown(decided, unknown) == unknown
        assert client.now() < deadline + 1
        fetches = len(cluster.fetched())
        assert FateReader(client, client.now()).resolve_unknown(decided, unknown) == unknown
    assert len(cluster.fetched()) == fetches
