"""Queries of a partition's state have no side effects."""

from unittest.mock import Mock

import crc32c
import pytest
from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.partition.high_watermark import ReplicaStates
from spark_kafka_sink.broker.partition.log_validator import AppendOptions, RejectedBatchError
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.producer_state import PartitionTransactions
from spark_kafka_sink.broker.topic_config import DEFAULT_LOG_CONFIG
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tools.support.raw_client import batch


def test_last_stable_offset() -> None:
    transactions = PartitionTransactions()
    transactions.begin(producer_id=1, first_offset=2)
    transactions.end(1, 5, commit=True)
    for _ in range(2):
        assert [transactions.stable_offset(mark) for mark in (6, 5)] == [6, 2]
    transactions.drop_replicated(6)
    assert transactions.stable_offset(5) == 5


def test_follower_lag() -> None:
    states = ReplicaStates()
    states.record_append(10, now=0.0)
    assert not any(states.is_lagging(2, now, allowed=1.0) for now in (1.0, 50.0))
    states.track(2, now=50.0)
    assert [states.is_lagging(2, now, allowed=1.0) for now in (51.0, 51.5)] == [False, True]
    states.ends[2] = 10
    assert not states.is_lagging(2, 99.0, allowed=1.0)


def test_leader_epoch_starts_with_its_leader() -> None:
    partition = Partition(topic="t", index=0, leader=1, replicas=[1], in_sync=[1])
    assert partition.log.epochs.latest == -1
    for _ in range(2):
        partition.begin_leader_epoch()
        assert [tuple(start) for start in partition.log.epochs.starts] == [(0, 0)]
    partition.leader_epoch = 3
    partition.begin_leader_epoch()
    assert [tuple(start) for start in partition.log.epochs.starts] == [(3, 0)]


OPTIONS = AppendOptions(config=DEFAULT_LOG_CONFIG, produce_version=12, now_ms=0)


def transactional(sequence: int) -> bytes:
    """Return a transactional batch of two records."""
    data = batch(2, producer=(7, 0, sequence), timestamp=0)
    data[22] |= 0x10
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def test_last_stable_offset_is_at_least_the_log_start_offset() -> None:
    """The start of an open transaction might have been deleted."""
    partition = Partition(topic="t", index=0, leader=1, replicas=[1], in_sync=[1])
    for sequence in (0, 2):
        partition.append(transactional(sequence), OPTIONS)
    assert partition.last_stable_offset == 0
    partition.log.delete_records(2)
    assert partition.last_stable_offset == 2
    partition.log.delete_records(4)
    assert partition.last_stable_offset == 4


def test_first_batch_that_the_storage_could_not_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer's later batches must not be appended before it, even if it is not yet known."""
    partition = Partition(topic="t", index=0, leader=1, replicas=[1], in_sync=[1])
    first, second = (bytes(batch(1, producer=(7, 0, number), timestamp=0)) for number in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(partition.log.storage, "append", Mock(side_effect=OSError("no space")))
        with pytest.raises(RejectedBatchError):
            partition.append(first, OPTIONS)
    with pytest.raises(RejectedBatchError) as caught:
        partition.append(second, OPTIONS)
    assert caught.value.error is ErrorCode.out_of_order_sequence_number
    assert [partition.append(batch, OPTIONS).base_offset for batch in (first, second)] == [0, 1]


@pytest.mark.parametrize(("deleted", "base"), [(4, 5), (0, None)])
def test_marker_of_a_producer_whose_records_are_deleted(deleted: int, base: int | None) -> None:
    """The next batch can have any sequence, unless the log still contains all its records."""
    partition = Partition(topic="t", index=0, leader=1, replicas=[1], in_sync=[1])
    partition.append(bytes(batch(4, timestamp=0)), OPTIONS)
    partition.log.delete_records(deleted)
    marker = EndTransactionMarker(producer_id=7, epoch=0, commit=True)
    partition.end_transaction(marker, 0)
    if base is None:
        with pytest.raises(RejectedBatchError):
            partition.append(transactional(2), OPTIONS)
    else:
        assert partition.append(transactional(2), OPTIONS).base_offset == base


def test_pending_verifications_expire() -> None:
    transactions = PartitionTransactions()
    for producer_id in (1, 2):
        header = BatchHeader(producer_id=producer_id, producer_epoch=0, base_sequence=0)
        transactions.verify(header, starts_at_zero=False)
        transactions.expire_verifications()
    assert set(transactions.verifying) == {2}
