"""Transitions of a transaction, and the actions for its coordinator's errors."""

from itertools import product

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions.coordinator_errors import CoordinatorAction, action_for
from spark_kafka_sink.producer.transactions.producer_transaction_state import (
    ENDED,
    FAILED,
    ProducerTransactionState,
    next_state,
)
from spark_kafka_sink.producer.transactions.transaction_partitions import (
    AddState,
    TransactionPartitions,
)

STATE = ProducerTransactionState
ALLOWED = {
    (STATE.UNINITIALIZED, STATE.INITIALIZING),
    (STATE.INITIALIZING, STATE.CHECKING_FLAG),
    (STATE.INITIALIZING, STATE.READY),
    (STATE.INITIALIZING, STATE.UNINITIALIZED),
    (STATE.CHECKING_FLAG, STATE.READY),
    (STATE.READY, STATE.IN_TRANSACTION),
    *((alive, STATE.ABORTABLE_ERROR) for alive in STATE if alive not in FAILED),
    *((alive, STATE.FATAL_ERROR) for alive in STATE if alive not in ENDED),
    (STATE.ABORTABLE_ERROR, STATE.ABORTING),
    (STATE.ABORTABLE_ERROR, STATE.ABORTED),
    (STATE.ABORTING, STATE.ABORTED),
}
FIRST, SECOND, OTHER = (
    TopicPartition("t", 0),
    TopicPartition("t", 1),
    TopicPartition("u", 0),
)

FIND, INIT = ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID
ADD, END = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN
ALWAYS = {
    ErrorCode.none: CoordinatorAction.DONE,
    **dict.fromkeys(
        (
            ErrorCode.request_timed_out,
            ErrorCode.coordinator_load_in_progress,
            ErrorCode.concurrent_transactions,
        ),
        CoordinatorAction.RETRY,
    ),
    **dict.fromkeys(
        (
            ErrorCode.network_exception,
            ErrorCode.coordinator_not_available,
            ErrorCode.not_coordinator,
            *ClientErrorCode,
        ),
        CoordinatorAction.FIND_COORDINATOR,
    ),
    ErrorCode.transaction_abortable: CoordinatorAction.ABORT,
}
TO_PARTITIONS = {
    ErrorCode.unknown_topic_or_partition: CoordinatorAction.RETRY,
    ErrorCode.operation_not_attempted: CoordinatorAction.RETRY,
    ErrorCode.topic_authorization_failed: CoordinatorAction.DENIED,
}


@pytest.mark.parametrize(("before", "after"), list(product(STATE, repeat=2)))
def test_only_allowed_transitions(before: STATE, after: STATE) -> None:
    if (before, after) in ALLOWED:
        assert next_state(before, after) is after
        return
    with pytest.raises(AssertionError):
        next_state(before, after)


def test_final_states_have_no_successors_and_failures_do_not_recover() -> None:
    assert not [pair for pair in ALLOWED if pair[0] in ENDED]
    assert not [pair for pair in ALLOWED if pair[0] in FAILED and pair[1] not in FAILED]


def test_partition_is_added_once() -> None:
    partitions = TransactionPartitions()
    partitions.request([FIRST, FIRST, OTHER])
    assert partitions.in_state(AddState.NEW) == [FIRST, OTHER]
    assert partitions.take_new() == [FIRST, OTHER]
    partitions.request([FIRST, SECOND])
    assert partitions.take_new() == [SECOND]
    assert not partitions.is_added(FIRST)
    partitions.mark_added(FIRST)
    assert partitions.is_added(FIRST)
    assert (partitions.pending("t"), partitions.pending("u")) == (1, 1)


def test_pending_additions_are_requested_again_after_a_loss() -> None:
    partitions = TransactionPartitions()
    partitions.request([FIRST, SECOND])
    partitions.take_new()
    partitions.mark_added(FIRST)
    partitions.retry_adding()
    assert partitions.take_new() == [SECOND]


def test_rejected_partition_can_be_requested_again() -> None:
    partitions = TransactionPartitions()
    partitions.request([FIRST])
    partitions.take_new()
    partitions.drop(FIRST)
    partitions.request([FIRST])
    assert partitions.take_new() == [FIRST]


@pytest.mark.parametrize("api", [FIND, INIT, ADD, END])
def test_action_for_every_error(api: ApiKey) -> None:
    expected = ALWAYS | (TO_PARTITIONS if api is ADD else {})
    for code in (*map(int, ErrorCode), *ClientErrorCode, 9_999):
        assert action_for(api, code) is expected.get(code, CoordinatorAction.FAIL)
