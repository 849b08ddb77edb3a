"""A partition's state: queries without side effects, producers, and validation of records."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.config.topic_config import DEFAULT_LOG_CONFIG, TopicConfig
from spark_kafka_sink.broker.partition.log_transactions import LogTransactions
from spark_kafka_sink.broker.partition.log_validator import (
    AppendOptions,
    RejectedBatchError,
    check_records,
)
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.replica_states import ReplicaStates
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.varint import varint
from tools.compat.scenarios.produce import Raw
from tools.support.raw_client import batch

NOW = 1_700_000_000_000
HOUR = 3_600_000
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "cleanup.policy": st.sampled_from(["delete", "compact", "compact,delete"]),
        "message.timestamp.type": st.sampled_from(["CreateTime", "LogAppendTime"]),
        "message.timestamp.before.max.ms": st.sampled_from(["0", str(HOUR), str(2**63 - 1)]),
        "compression.type": st.sampled_from(["producer", "uncompressed", "gzip", "lz4"]),
    },
)
TIMES = st.sampled_from([-1 - NOW, -2 * HOUR, -HOUR, -1, 0, 1, HOUR, HOUR + 1, 2 * HOUR])
KEYS = st.sampled_from([varint(-1), varint(0), varint(-2), varint(2) + b"ab", varint(200) + b"ab"])
CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4])
OPTIONS = AppendOptions(config=DEFAULT_LOG_CONFIG, produce_version=12, now_ms=0)


def test_open_transaction_and_unreplicated_marker_limit_the_stable_offset() -> None:
    transactions = LogTransactions()
    transactions.begin(producer_id=1, first_offset=2)
    transactions.end(1, 5, commit=True)
    for _ in range(2):
        assert [transactions.last_stable_offset(mark) for mark in (6, 5)] == [6, 2]
    transactions.drop_replicated(6)
    assert transactions.last_stable_offset(5) == 5


def test_follower_lags_if_it_is_behind_for_too_long() -> None:
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


def transactional(sequence: int) -> bytes:
    """Return a transactional batch of two records."""
    return bytes(batch(2, producer=(7, 0, sequence), is_transactional=True, timestamp=0))


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
    assert caught.value.code is ErrorCode.out_of_order_sequence_number
    assert [partition.append(batch, OPTIONS).base_offset for batch in (first, second)] == [0, 1]


@pytest.mark.parametrize(("deleted", "base"), [(4, 5), (0, None)])
def test_marker_of_a_producer_whose_records_are_deleted(deleted: int, base: int | None) -> None:
    """The next batch can have any sequence, unless the log still contains all its records."""
    partition = Partition(topic="t", index=0, leader=1, replicas=[1], in_sync=[1])
    partition.append(bytes(batch(4, timestamp=0)), OPTIONS)
    partition.log.delete_records(deleted)
    marker = EndTransactionMarker(producer_id=7, epoch=0, is_commit=True)
    partition.end_transaction(marker, 0)
    if base is None:
        with pytest.raises(RejectedBatchError):
            partition.append(transactional(2), OPTIONS)
    else:
        assert partition.append(transactional(2), OPTIONS).base_offset == base


def test_pending_verifications_expire() -> None:
    transactions = LogTransactions()
    for producer_id in (1, 2):
        header = BatchHeader(producer_id=producer_id, producer_epoch=0, base_sequence=0)
        transactions.verify(header, starts_at_zero=False)
        transactions.expire_verifications()
    assert set(transactions.verifying) == {2}


@settings(max_examples=60, deadline=None, database=None)
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("wca")), max_size=30))
def test_stable_offset_and_aborted_list_match_a_model(steps: list[tuple[int, str]]) -> None:
    table, offset = LogTransactions(), 0
    opened_at: dict[int, int] = {}
    log: list[tuple[int, int, int]] = []
    for producer, kind in steps:
        if kind == "w":
            table.begin(producer, offset)
            opened_at.setdefault(producer, offset)
        else:
            table.end(producer, offset, commit=kind == "c")
            first = opened_at.pop(producer, None)
            if first is not None and kind == "a":
                log.append((producer, first, offset))
        offset += 1
    assert table.last_stable_offset(offset) == min([offset, *opened_at.values()])
    for start in range(offset):
        aborted = table.aborted_between(start, offset)
        listed = [(t.producer_id, t.first_offset, t.last_offset) for t in aborted]
        assert listed == [transaction for transaction in log if transaction[2] >= start]


def judged(raws: list[Raw], codec: Codec, options: AppendOptions) -> int | tuple[object, ...]:
    """Return the largest timestamp, or the error with its first message."""
    section = compress(codec, b"".join(raw.bytes() for raw in raws))
    header = BatchHeader(
        attributes=int(codec),
        last_offset_delta=len(raws) - 1,
        base_timestamp=NOW,
        record_count=len(raws),
    )
    batch = header.pack([section]) + section
    try:
        return check_records(batch, BatchHeader.parse(batch), options)
    except RejectedBatchError as error:
        return error.code, error.records.get(0), error.has_public_message, error.is_early


@given(TIMES, st.integers(-1, 2), KEYS, CODECS, CONFIGS)
def test_single_record_is_validated_like_two_equal_ones(
    time: int, delta: int, key: bytes, codec: Codec, config: dict[str, str]
) -> None:
    options = AppendOptions(config=TopicConfig(overrides=config).log, produce_version=9, now_ms=NOW)
    raw = Raw(time=time, delta=delta, key=key)
    alone = judged([raw], codec, options)
    assert alone == judged([raw, replace(raw, delta=delta + 1)], codec, options)
    if isinstance(alone, int):
        assert alone == NOW + time
