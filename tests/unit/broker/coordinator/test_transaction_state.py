"""The coordinator's decisions that a real Kafka would reach only after minutes."""

from itertools import count
from typing import Any

import pytest

from spark_kafka_sink.broker.coordinator import transaction_state as transitions
from spark_kafka_sink.broker.coordinator.transaction_state import (
    LAST_EPOCH,
    MAX_EPOCH,
    PREVIOUS_STATES,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionState

ids = count(100)
NOW = transitions.Now(ms=1_000, new_producer_id=ids.__next__)
PLACE = TopicPartition("t", 0)


def known(epoch: int = 0, **changes: Any) -> TransactionMetadata:
    return TransactionMetadata(id="x", producer_id=1, timeout_ms=1, epoch=epoch, **changes)


def opened(epoch: int = 0) -> TransactionMetadata:
    return transitions.add(known(epoch), [PLACE], NOW)


def ended(txn: TransactionMetadata, *, commit: bool = True) -> TransactionMetadata:
    ended = transitions.end_v2(
        txn, ProducerIdAndEpoch(txn.producer_id, txn.epoch), NOW, commit=commit
    )
    assert isinstance(ended, TransactionMetadata)
    return ended


@pytest.mark.parametrize("after", TransactionState)
@pytest.mark.parametrize("before", TransactionState)
def test_only_allowed_transitions(before: TransactionState, after: TransactionState) -> None:
    txn = known(state=before)
    if before in PREVIOUS_STATES[after]:
        assert txn.transition_to(after).state is after
    else:
        with pytest.raises(ValueError, match=f"{before} to {after}"):
            txn.transition_to(after)


class TestTheLastEpochs:
    """As observed with Kafka 4.3.1 after 32,766 epochs."""

    def test_v2_end_assigns_a_new_producer_id(self) -> None:
        prepared = ended(opened(LAST_EPOCH))
        assert (prepared.producer_id, prepared.epoch) == (1, MAX_EPOCH)
        done = transitions.complete(prepared, NOW)
        assert done.producer_id == prepared.next_producer_id > 1
        assert (done.epoch, done.previous_producer_id, done.next_producer_id) == (0, 1, -1)
        again = transitions.end_v2(done, ProducerIdAndEpoch(1, LAST_EPOCH), NOW, commit=True)
        assert again is ErrorCode.none
        later = transitions.complete(ended(transitions.add(done, [PLACE], NOW)), NOW)
        late = transitions.end_v2(later, ProducerIdAndEpoch(1, LAST_EPOCH), NOW, commit=True)
        assert late is ErrorCode.invalid_producer_id_mapping

    def test_epoch_before_the_last_is_ordinary(self) -> None:
        done = transitions.complete(ended(opened(LAST_EPOCH - 1)), NOW)
        assert (done.producer_id, done.epoch) == (1, LAST_EPOCH)

    @pytest.mark.parametrize("expected", [None, ProducerIdAndEpoch(1, LAST_EPOCH)])
    def test_init_assigns_a_new_producer_id(self, expected: ProducerIdAndEpoch | None) -> None:
        fresh = transitions.initialize(known(LAST_EPOCH), expected, 1, NOW)
        assert isinstance(fresh, TransactionMetadata)
        assert (fresh.previous_producer_id, fresh.epoch) == (1, 0)
        repeated = ProducerIdAndEpoch(1, LAST_EPOCH)
        assert transitions.may_initialize(fresh, repeated) is ErrorCode.none
        again = transitions.initialize(fresh, repeated, 1, NOW)
        expected_result = ErrorCode.producer_fenced if expected is None else fresh
        assert again == expected_result
        older = ProducerIdAndEpoch(1, LAST_EPOCH - 1)
        assert transitions.may_initialize(fresh, older) is ErrorCode.producer_fenced

    def test_v2_fence_assigns_a_new_producer_id(self) -> None:
        done = transitions.complete(
            transitions.fence(opened(LAST_EPOCH), NOW, bumps_epoch=True), NOW
        )
        assert (done.producer_id != 1, done.epoch) == (True, 0)

    def test_v1_fence_uses_the_reserved_epoch(self) -> None:
        done = transitions.complete(
            transitions.fence(opened(LAST_EPOCH), NOW, bumps_epoch=False), NOW
        )
        assert (done.producer_id, done.epoch) == (1, MAX_EPOCH)
        fresh = transitions.initialize(done, None, 1, NOW)
        assert isinstance(fresh, TransactionMetadata)
        assert (fresh.producer_id != 1, fresh.epoch) == (True, 0)


class TestPendingMarkers:
    """Kafka's responses while partitions without a leader lack their markers."""

    @pytest.mark.parametrize("commit", [True, False])
    def test_v2_rejects_requests_while_markers_are_pending(self, commit: bool) -> None:
        prepared = ended(opened(), commit=commit)
        claims = {
            (0, commit): ErrorCode.concurrent_transactions,
            (0, not commit): ErrorCode.invalid_txn_state,
            (1, commit): ErrorCode.producer_fenced,
        }
        for (epoch, wish), error in claims.items():
            assert (
                transitions.end_v2(prepared, ProducerIdAndEpoch(1, epoch), NOW, commit=wish)
                is error
            )
        assert (
            transitions.check_producer(prepared, ProducerIdAndEpoch(1, 1))
            is ErrorCode.concurrent_transactions
        )
        assert transitions.may_initialize(prepared, None) is ErrorCode.concurrent_transactions

    def test_v1_rejects_requests_while_markers_are_pending(self) -> None:
        prepared = transitions.end_v1(opened(), ProducerIdAndEpoch(1, 0), NOW, commit=True)
        assert isinstance(prepared, TransactionMetadata)
        again = transitions.end_v1(prepared, ProducerIdAndEpoch(1, 0), NOW, commit=True)
        other = transitions.end_v1(prepared, ProducerIdAndEpoch(1, 0), NOW, commit=False)
        assert (again, other) == (ErrorCode.concurrent_transactions, ErrorCode.invalid_txn_state)
