"""The action for each Produce error code, with and without idempotence."""

from dataclasses import replace

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.producer.send.error_policy import (
    BatchAction,
    BatchStep,
    RejectionFacts,
    may_be_persisted_after,
    next_step,
)

DISCONNECTED, NOT_SENT = ClientErrorCode.disconnected, ClientErrorCode.not_sent
NOT, POSSIBLY = DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED
FACTS = RejectionFacts(
    is_idempotent=True,
    is_head=True,
    records=10,
    is_possibly_persisted=False,
    is_expired=False,
    has_attempts_left=True,
)
PLAIN = replace(FACTS, is_idempotent=False)
COMPLETE = BatchStep(BatchAction.COMPLETE, DeliveryStatus.PERSISTED)
FAIL_NOT, FAIL_POSSIBLY = BatchStep(BatchAction.FAIL, NOT), BatchStep(BatchAction.FAIL, POSSIBLY)
REFRESH_CODES = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.leader_not_available,
    ErrorCode.not_leader_or_follower,
    ErrorCode.replica_not_available,
    ErrorCode.network_exception,
    ErrorCode.kafka_storage_error,
    ErrorCode.listener_not_found,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_topic_id,
    ErrorCode.inconsistent_topic_id,
    DISCONNECTED,
    NOT_SENT,
)
RETRY_CODES = (
    ErrorCode.corrupt_message,
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
)
CONCURRENT = ErrorCode.concurrent_transactions
TOO_LARGE = ErrorCode.message_too_large
GAP = ErrorCode.out_of_order_sequence_number
UNKNOWN_CODES = (9_999, -300, 32_767)
UNCLEAR_CODES = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_leader_or_follower,
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.kafka_storage_error,
    ErrorCode.unknown_server_error,
    DISCONNECTED,
    *UNKNOWN_CODES,
)

TABLE = [
    (ErrorCode.none, BatchAction.COMPLETE, BatchAction.COMPLETE),
    *[
        (code, BatchAction.REFRESH_AND_RETRY, BatchAction.REFRESH_AND_RETRY)
        for code in REFRESH_CODES
    ],
    *[(code, BatchAction.RETRY, BatchAction.RETRY) for code in RETRY_CODES],
    (ErrorCode.message_too_large, BatchAction.SPLIT, BatchAction.SPLIT),
    (ErrorCode.record_list_too_large, BatchAction.FAIL, BatchAction.FAIL),
    (ErrorCode.out_of_order_sequence_number, BatchAction.FAIL, BatchAction.FAIL),
    (ErrorCode.duplicate_sequence_number, BatchAction.COMPLETE, BatchAction.FAIL),
    (ErrorCode.unknown_producer_id, BatchAction.BUMP_AND_RETRY, BatchAction.FAIL),
    (ErrorCode.invalid_producer_epoch, BatchAction.FAIL, BatchAction.FAIL),
    *[
        (code, BatchAction.FATAL, BatchAction.FATAL)
        for code in (
            ErrorCode.producer_fenced,
            ErrorCode.invalid_producer_id_mapping,
            ErrorCode.cluster_authorization_failed,
            ErrorCode.transactional_id_authorization_failed,
        )
    ],
    *[
        (code, BatchAction.FAIL, BatchAction.FAIL)
        for code in (
            ErrorCode.invalid_record,
            ErrorCode.invalid_timestamp,
            ErrorCode.topic_authorization_failed,
            ErrorCode.invalid_topic_exception,
            ErrorCode.invalid_required_acks,
            ErrorCode.unsupported_for_message_format,
            ErrorCode.unsupported_compression_type,
        )
    ],
    *[
        (code, BatchAction.FAIL, BatchAction.FAIL)
        for code in (ErrorCode.unknown_server_error, *UNKNOWN_CODES)
    ],
]


@pytest.mark.parametrize(("code", "idempotent", "plain"), TABLE)
def test_action_for_first_response(code: int, idempotent: BatchAction, plain: BatchAction) -> None:
    assert next_step(code, FACTS).action is idempotent
    assert next_step(code, PLAIN).action is plain


TRANSACTIONAL = replace(FACTS, is_transactional=True)


@pytest.mark.parametrize(("code", "idempotent"), [(code, action) for code, action, _ in TABLE])
def test_epoch_is_not_bumped_in_transaction(code: int, idempotent: BatchAction) -> None:
    bumps = idempotent is BatchAction.BUMP_AND_RETRY
    assert next_step(code, TRANSACTIONAL).action is (BatchAction.FAIL if bumps else idempotent)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.unknown_producer_id,
        ErrorCode.transaction_abortable,
    ],
)
def test_abortable_error_is_not_retried(code: int) -> None:
    assert next_step(code, TRANSACTIONAL) == FAIL_NOT


def test_concurrent_transactions_error_is_retried() -> None:
    assert next_step(CONCURRENT, TRANSACTIONAL) == BatchStep(BatchAction.RETRY)
    assert next_step(CONCURRENT, FACTS) == FAIL_NOT
    assert next_step(CONCURRENT, replace(TRANSACTIONAL, is_expired=True)) == FAIL_NOT


def test_sequence_gap_after_another_batch_is_retried_in_transaction() -> None:
    assert next_step(GAP, replace(TRANSACTIONAL, is_head=False)) == BatchStep(BatchAction.RETRY)


def test_every_action_is_reached() -> None:
    reached = {next_step(code, FACTS).action for code, _, _ in TABLE}
    assert reached == set(BatchAction)


@pytest.mark.parametrize("code", [*REFRESH_CODES, *RETRY_CODES])
@pytest.mark.parametrize("facts", [FACTS, PLAIN])
@pytest.mark.parametrize("end", [{"is_expired": True}, {"has_attempts_left": False}])
def test_retries_end_by_time_or_attempts(
    code: int, facts: RejectionFacts, end: dict[str, bool]
) -> None:
    expected = FAIL_POSSIBLY if code in UNCLEAR_CODES else FAIL_NOT
    assert next_step(code, replace(facts, **end)) == expected


@pytest.mark.parametrize("code", [code for code, action, _ in TABLE if action is BatchAction.FAIL])
def test_status_after_permanent_error(code: int) -> None:
    assert next_step(code, FACTS) == (FAIL_POSSIBLY if code in UNCLEAR_CODES else FAIL_NOT)


@pytest.mark.parametrize(
    "code",
    [code for code, action, _ in TABLE if action not in (BatchAction.COMPLETE, BatchAction.SPLIT)],
)
def test_lost_response_leaves_doubt_permanently(code: int) -> None:
    late = replace(FACTS, is_possibly_persisted=True, is_expired=True)
    assert next_step(code, late).status is POSSIBLY


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.duplicate_sequence_number])
def test_late_success_counts(code: int) -> None:
    late = replace(FACTS, is_expired=True, has_attempts_left=False, is_possibly_persisted=True)
    assert next_step(code, late) == COMPLETE


def test_sequence_gap_after_unsettled_batch_is_retried() -> None:
    assert next_step(GAP, replace(FACTS, is_head=False)).action is BatchAction.RETRY
    assert next_step(GAP, replace(FACTS, is_head=False, is_expired=True)) == FAIL_NOT
    assert next_step(GAP, replace(PLAIN, is_head=False)) == FAIL_NOT


def test_unknown_producer_id_is_not_retried_if_records_may_be_in_the_log() -> None:
    assert (
        next_step(ErrorCode.unknown_producer_id, replace(FACTS, is_possibly_persisted=True))
        == FAIL_POSSIBLY
    )


def test_single_record_too_large_fails() -> None:
    assert next_step(TOO_LARGE, replace(FACTS, records=1)) == FAIL_NOT


def test_split_uses_no_attempt_but_time() -> None:
    assert next_step(TOO_LARGE, replace(FACTS, has_attempts_left=False)).action is BatchAction.SPLIT
    assert next_step(TOO_LARGE, replace(FACTS, is_expired=True)) == FAIL_NOT


def test_batch_too_large_may_be_in_the_log_from_an_earlier_attempt() -> None:
    """Its splits are rejected then, because they reuse its sequences. A single record cannot be
    split.
    """
    assert (
        next_step(TOO_LARGE, replace(FACTS, records=1, is_possibly_persisted=True)) == FAIL_POSSIBLY
    )
    for facts in (FACTS, PLAIN):
        assert (
            next_step(TOO_LARGE, replace(facts, is_possibly_persisted=True)).action
            is BatchAction.SPLIT
        )


def test_rejected_records_may_be_in_the_log_from_an_earlier_attempt() -> None:
    for records in (1, 10):
        facts = replace(FACTS, records=records)
        assert next_step(ErrorCode.invalid_record, facts) == FAIL_NOT
        assert (
            next_step(ErrorCode.invalid_record, replace(facts, is_possibly_persisted=True))
            == FAIL_POSSIBLY
        )


def test_errors_after_which_records_may_be_in_the_log() -> None:
    unclear = {code for code in range(-3, 120) if may_be_persisted_after(code)}
    assert unclear >= {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_server_error,
        DISCONNECTED,
    }
    assert not any(
        may_be_persisted_after(code)
        for code in (
            ErrorCode.corrupt_message,
            ErrorCode.leader_not_available,
            ErrorCode.message_too_large,
            ErrorCode.not_enough_replicas,
            ErrorCode.out_of_order_sequence_number,
            ErrorCode.unknown_producer_id,
            NOT_SENT,
        )
    )


GAPLESS = replace(FACTS, is_gapless=True)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.topic_authorization_failed,
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_required_acks,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_compression_type,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unknown_server_error,
        ErrorCode.invalid_record,
    ],
)
def test_gapless_makes_permanent_failure_fatal(code: int) -> None:
    assert next_step(code, FACTS).action is BatchAction.FAIL
    assert next_step(code, GAPLESS) == BatchStep(BatchAction.FATAL, next_step(code, FACTS).status)


def test_gapless_does_not_remove_records_from_batch() -> None:
    assert next_step(ErrorCode.invalid_record, GAPLESS).action is BatchAction.FATAL
    assert next_step(TOO_LARGE, replace(GAPLESS, records=1)).action is BatchAction.FATAL
    assert next_step(TOO_LARGE, GAPLESS).action is BatchAction.SPLIT


@pytest.mark.parametrize("code", [*REFRESH_CODES, *RETRY_CODES, ErrorCode.message_too_large])
def test_gapless_allows_timeouts(code: int) -> None:
    assert next_step(code, replace(GAPLESS, is_expired=True)).action is BatchAction.FAIL


@pytest.mark.parametrize("code", [*REFRESH_CODES, *RETRY_CODES])
def test_gapless_does_not_allow_exhausted_retries(code: int) -> None:
    assert next_step(code, replace(GAPLESS, has_attempts_left=False)).action is BatchAction.FATAL
