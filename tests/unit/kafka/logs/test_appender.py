"""Appending records in a transaction: requests, retries and timeouts."""

from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    FencedError,
    KafkaProdError,
    RecordTooLargeError,
    TransactionError,
)
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.logs.appender import (
    BATCH_BYTES,
    TransactionalAppender,
    UnclearFenceError,
)
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.kafka.records.record_batch import BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.partition_leader import PartitionLeader
from tests.unit.kafka.admin.scripted_coordinator import LOST, opened

V1, V2 = TransactionVersion.V1, TransactionVersion.V2
RECORDS = [(b"k", b"v"), (b"l", None)]
Records = list[tuple[bytes, bytes | None]]


def append(
    cluster: PartitionLeader,
    *appends: Records,
    version: TransactionVersion = V2,
    seconds: float = 10.0,
) -> TransactionalProducer:
    """Append the records and return the state for the next transaction."""
    owner = opened("d", version)
    with blocking_client(cluster) as client:
        appender = TransactionalAppender(client, TransactionAdmin(client))
        for records in appends:
            owner = appender.append(owner, "t", records, client.deadline(seconds))
    return owner


def produced(cluster: PartitionLeader) -> list[tuple[Any, bytes]]:
    """Return each Produce request with its batch."""
    return [
        (request, bytes(request.topic_data[0].partition_data[0].records))
        for _, request in cluster.requests_for(ApiKey.PRODUCE)
    ]


def apis(cluster: PartitionLeader) -> list[ApiKey]:
    """Return the requested APIs in order, without discovery requests."""
    ways = {ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR}
    return [api for _, api, _, _ in cluster.log if api not in ways]


@pytest.fixture
def cluster() -> PartitionLeader:
    return PartitionLeader()


def test_v2_produces_and_ends(cluster: PartitionLeader) -> None:
    assert append(cluster, RECORDS) == opened("d", epoch=1)
    assert apis(cluster) == [ApiKey.PRODUCE, ApiKey.END_TXN]
    ((request, data),) = produced(cluster)
    header = BatchHeader.parse(data)
    assert (request.transactional_id, request.acks) == ("d", -1)
    assert header.is_transactional
    assert header.crc == checksum(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)
    assert [(record.key, record.value) for record in decode_batch(data)] == RECORDS
    assert min(cluster.versions_of(ApiKey.PRODUCE)) >= 12


def test_v1_adds_the_partition_before_it_produces(cluster: PartitionLeader) -> None:
    assert append(cluster, RECORDS, version=V1) == opened("d", V1)
    assert apis(cluster) == [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN]
    assert cluster.versions_of(ApiKey.PRODUCE) == {11}
    assert cluster.versions_of(ApiKey.ADD_PARTITIONS_TO_TXN) == {3}
    assert cluster.versions_of(ApiKey.END_TXN) == {4}


@pytest.mark.parametrize(("version", "expected"), [(V2, [(0, 0), (1, 0)]), (V1, [(0, 0), (0, 2)])])
def test_next_transaction_continues_in_the_same_epoch(
    cluster: PartitionLeader, version: TransactionVersion, expected: list[tuple[int, int]]
) -> None:
    append(cluster, RECORDS, RECORDS, version=version)
    headers = [BatchHeader.parse(data) for _, data in produced(cluster)]
    assert [(header.producer_epoch, header.base_sequence) for header in headers] == expected


def test_many_records_use_batches_with_consecutive_sequences(cluster: PartitionLeader) -> None:
    half = bytes(BATCH_BYTES // 2 - 1)
    append(cluster, [(b"k", half)] * 5)
    headers = [BatchHeader.parse(data) for _, data in produced(cluster)]
    assert [(header.base_sequence, header.record_count) for header in headers] == [
        (0, 2),
        (2, 2),
        (4, 1),
    ]


@pytest.mark.parametrize(
    "codes",
    [
        [LOST],
        [LOST, ErrorCode.duplicate_sequence_number],
        [ErrorCode.not_leader_or_follower],
        [
            ErrorCode.concurrent_transactions,
            ErrorCode.not_coordinator,
            ErrorCode.coordinator_load_in_progress,
        ],
        [ErrorCode.request_timed_out, ErrorCode.not_enough_replicas],
    ],
)
def test_batch_is_resent_unchanged(cluster: PartitionLeader, codes: list[int]) -> None:
    cluster.produce_codes.extend(codes)
    append(cluster, RECORDS)
    batches = {data for _, data in produced(cluster)}
    assert len(produced(cluster)) == len(codes) + (ErrorCode.duplicate_sequence_number not in codes)
    assert len(batches) == 1


def test_end_is_retried_until_a_response(cluster: PartitionLeader) -> None:
    cluster.queue_codes(
        "d", [LOST, ErrorCode.concurrent_transactions, ErrorCode.coordinator_load_in_progress, LOST]
    )
    assert append(cluster, RECORDS) == opened("d", epoch=1)
    assert apis(cluster).count(ApiKey.END_TXN) == 5


def test_v1_bumps_the_epoch_if_a_late_end_could_affect_the_next_transaction() -> None:
    cluster = PartitionLeader()
    cluster.queue_codes("d", [LOST])
    cluster.levels = {}
    assert append(cluster, RECORDS, version=V1) == opened("d", V1, epoch=3)
    ((_, request),) = cluster.requests_for(ApiKey.INIT_PRODUCER_ID)
    assert (request.producer_id, request.producer_epoch) == (7, 0)


def test_outcome_is_unknown_if_the_epoch_cannot_be_bumped() -> None:
    """Kafka before 2.5; the caller fences and reads the log, instead of failing a decided batch."""
    cluster = PartitionLeader()
    cluster.queue_codes("d", [LOST])
    cluster.levels = {}
    cluster.limit(ApiKey.INIT_PRODUCER_ID, VersionRange(0, 2))
    with pytest.raises(BrokerUnavailableError, match="cannot bump the epoch"):
        append(cluster, RECORDS, version=V1)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.producer_fenced,
    ],
)
@pytest.mark.parametrize("where", ["add", "produce", "end"])
def test_replaced_producer_is_fenced(cluster: PartitionLeader, code: int, where: str) -> None:
    codes = {"add": cluster.add_codes, "produce": cluster.produce_codes, "end": cluster.codes["d"]}
    codes[where].append(code)
    with pytest.raises(FencedError):
        append(cluster, RECORDS, version=V1)
    assert apis(cluster).count(ApiKey.END_TXN) == (where == "end")


@pytest.mark.parametrize(
    "codes",
    [[LOST, ErrorCode.producer_fenced], [ErrorCode.not_coordinator, ErrorCode.producer_fenced]],
)
def test_fenced_producer_may_have_appended_before(codes: list[int]) -> None:
    cluster = PartitionLeader()
    cluster.queue_codes("d", codes)
    with pytest.raises(UnclearFenceError):
        append(cluster, RECORDS)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.invalid_record, TransactionError),
        (ErrorCode.transaction_abortable, TransactionError),
        (ErrorCode.out_of_order_sequence_number, TransactionError),
        (ErrorCode.message_too_large, RecordTooLargeError),
        (ErrorCode.topic_authorization_failed, AuthorizationError),
        (ErrorCode.transactional_id_authorization_failed, AuthorizationError),
    ],
)
def test_rejected_batch_is_aborted(code: int, error: type[KafkaProdError]) -> None:
    cluster = PartitionLeader()
    cluster.produce_codes.append(code)
    with pytest.raises(error):
        append(cluster, RECORDS)
    ((_, ended),) = cluster.requests_for(ApiKey.END_TXN)
    assert not ended.committed


def test_outcome_is_unknown_without_a_response_in_time(cluster: PartitionLeader) -> None:
    cluster.queue_codes("d", [ErrorCode.concurrent_transactions] * 10_000)
    with pytest.raises(BrokerUnavailableError, match="may have succeeded"):
        append(cluster, RECORDS, seconds=1)


def test_empty_transaction_is_rejected() -> None:
    with pytest.raises(ValueError, match="empty transaction"):
        append(PartitionLeader(), [])
