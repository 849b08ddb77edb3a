"""The action for each Produce error code, with and without idempotence."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.producer.send import error_policy
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

FATAL_CODES = (
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
)
PERMANENT_CODES = (
    ErrorCode.invalid_record,
    ErrorCode.topic_authorization_failed,
    ErrorCode.invalid_topic_exception,
    ErrorCode.invalid_required_acks,
    ErrorCode.unsupported_for_message_format,
    ErrorCode.unsupported_compression_type,
    ErrorCode.unknown_server_error,
)
TABLE = [
    (ErrorCode.none, BatchAction.COMPLETE, BatchAction.COMPLETE),
    *(
        (code, BatchAction.REFRESH_AND_RETRY, BatchAction.REFRESH_AND_RETRY)
        for code in REFRESH_CODES
    ),
    *((code, BatchAction.RETRY, BatchAction.RETRY) for code in RETRY_CODES),
    (TOO_LARGE, BatchAction.SPLIT, BatchAction.SPLIT),
    (ErrorCode.record_list_too_large, BatchAction.SPLIT, BatchAction.SPLIT),
    (GAP, BatchAction.FAIL, BatchAction.FAIL),
    (ErrorCode.duplicate_sequence_number, BatchAction.COMPLETE, BatchAction.FAIL),
    (ErrorCode.unknown_producer_id, BatchAction.BUMP_AND_RETRY, BatchAction.FAIL),
    (ErrorCode.invalid_producer_epoch, BatchAction.FAIL, BatchAction.FAIL),
    (ErrorCode.invalid_timestamp, BatchAction.FAIL, BatchAction.FAIL),
    *((code, BatchAction.FATAL, BatchAction.FATAL) for code in FATAL_CODES),
    *((code, BatchAction.FAIL, BatchAction.FAIL) for code in (*PERMANENT_CODES, *UNKNOWN_CODES)),
]
TRANSACTIONAL = replace(FACTS, is_transactional=True)
LATE = replace(FACTS, is_expired=True, has_attempts_left=False, is_possibly_persisted=True)
DOUBTFUL, BEHIND = replace(FACTS, is_possibly_persisted=True), replace(FACTS, is_head=False)
SINGLE, GAPLESS = replace(FACTS, records=1), replace(FACTS, is_gapless=True)
RETRY = BatchStep(BatchAction.RETRY)
CASES: dict[str, list[tuple[RejectionFacts, int, BatchStep | BatchAction]]] = {
    "an abortable error is not retried": [
        (TRANSACTIONAL, code, FAIL_NOT)
        for code in (
            GAP,
            ErrorCode.invalid_producer_epoch,
            ErrorCode.invalid_txn_state,
            ErrorCode.unknown_producer_id,
            ErrorCode.transaction_abortable,
        )
    ],
    "a concurrent transaction is waited for": [
        (TRANSACTIONAL, CONCURRENT, RETRY),
        (FACTS, CONCURRENT, FAIL_NOT),
        (replace(TRANSACTIONAL, is_expired=True), CONCURRENT, FAIL_NOT),
    ],
    "a gap after another batch is retried": [
        (replace(TRANSACTIONAL, is_head=False), GAP, RETRY),
        (BEHIND, GAP, BatchAction.RETRY),
        (replace(BEHIND, is_expired=True), GAP, FAIL_NOT),
        (replace(PLAIN, is_head=False), GAP, FAIL_NOT),
    ],
    "a late success counts": [
        (LATE, ErrorCode.none, COMPLETE),
        (LATE, ErrorCode.duplicate_sequence_number, COMPLETE),
    ],
    "a producer id is not replaced if the log may contain the records": [
        (DOUBTFUL, ErrorCode.unknown_producer_id, FAIL_POSSIBLY),
    ],
    "a single record that is too large fails": [
        (SINGLE, TOO_LARGE, FAIL_NOT),
        (replace(SINGLE, is_possibly_persisted=True), TOO_LARGE, FAIL_POSSIBLY),
    ],
    "a split uses no attempt, but time": [
        (replace(FACTS, has_attempts_left=False), TOO_LARGE, BatchAction.SPLIT),
        (replace(FACTS, is_expired=True), TOO_LARGE, FAIL_NOT),
    ],
    # Its splits are rejected then, because they reuse its sequences.
    "a batch too large may be in the log from an earlier attempt": [
        (DOUBTFUL, TOO_LARGE, BatchAction.SPLIT),
        (replace(PLAIN, is_possibly_persisted=True), TOO_LARGE, BatchAction.SPLIT),
    ],
    "rejected records may be in the log from an earlier attempt": [
        (replace(facts, records=records), ErrorCode.invalid_record, step)
        for records in (1, 10)
        for facts, step in ((FACTS, FAIL_NOT), (DOUBTFUL, FAIL_POSSIBLY))
    ],
    "gapless does not remove records from a batch": [
        (GAPLESS, ErrorCode.invalid_record, BatchAction.FATAL),
        (replace(GAPLESS, records=1), TOO_LARGE, BatchAction.FATAL),
        (replace(GAPLESS, records=1, is_expired=True), TOO_LARGE, BatchAction.FAIL),
        (GAPLESS, TOO_LARGE, BatchAction.SPLIT),
    ],
    "gapless allows timeouts, but not exhausted retries": [
        *(
            (replace(GAPLESS, is_expired=True), code, BatchAction.FAIL)
            for code in (*REFRESH_CODES, *RETRY_CODES, TOO_LARGE)
        ),
        *(
            (replace(GAPLESS, has_attempts_left=False), code, BatchAction.FATAL)
            for code in (*REFRESH_CODES, *RETRY_CODES)
        ),
    ],
}

CONDITIONS: dict[str, Callable[[RejectionFacts], bool]] = {
    "idempotent": lambda facts: facts.is_idempotent,
    "several records": lambda facts: facts.records > 1,
    "own epoch": lambda facts: facts.has_client_bumped_epoch,
    "not persisted": lambda facts: not facts.is_possibly_persisted,
    "not head": lambda facts: not facts.is_head,
    "transaction": lambda facts: facts.is_transactional,
    "no transaction": lambda facts: not facts.is_transactional,
}


def described_action(code: int, facts: RejectionFacts) -> str:
    """Return the action of the first row of the docstring's table that fits."""
    table = (error_policy.__doc__ or "").split("  if\n", 1)[1].split("\n\n", 1)[0]
    for row in table.splitlines():
        name, action, *words = row.split()
        conditions = filter(None, " ".join(words).split(", "))
        codes = getattr(error_codes, name, None) or {ErrorCode[name.lower()]}
        if code in codes and all(CONDITIONS[condition](facts) for condition in conditions):
            return action
    return "FAIL"


@pytest.mark.parametrize("code", [*ErrorCode, *ClientErrorCode, *UNKNOWN_CODES])
def test_table_in_the_docstring_is_what_is_done(code: int) -> None:
    names = ("is_idempotent", "is_head", "is_possibly_persisted", "is_transactional",
             "has_client_bumped_epoch")  # fmt: skip
    for values in product((False, True), repeat=len(names)):
        facts = replace(FACTS, **dict(zip(names, values, strict=True)))
        for case in (facts, replace(facts, records=1)):
            assert next_step(code, case).action.name == described_action(code, case), case


@pytest.mark.parametrize(("code", "idempotent", "plain"), TABLE)
def test_action_for_first_response(code: int, idempotent: BatchAction, plain: BatchAction) -> None:
    assert next_step(code, FACTS).action is idempotent
    assert next_step(code, PLAIN).action is plain


@pytest.mark.parametrize(("code", "idempotent"), [(code, action) for code, action, _ in TABLE])
def test_epoch_is_not_bumped_in_transaction(code: int, idempotent: BatchAction) -> None:
    bumps = idempotent is BatchAction.BUMP_AND_RETRY
    assert next_step(code, TRANSACTIONAL).action is (BatchAction.FAIL if bumps else idempotent)


@pytest.mark.parametrize(
    ("facts", "code", "expected"),
    [pytest.param(*case, id=name) for name, cases in CASES.items() for case in cases],
)
def test_step_for_facts_and_code(
    facts: RejectionFacts, code: int, expected: BatchStep | BatchAction
) -> None:
    step = next_step(code, facts)
    assert (step if isinstance(expected, BatchStep) else step.action) == expected


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


def test_errors_after_which_records_may_be_in_the_log() -> None:
    unclear = {code for code in range(-3, 120) if may_be_persisted_after(code)}
    assert unclear >= {*UNCLEAR_CODES} - {*UNKNOWN_CODES}
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


@pytest.mark.parametrize("code", [*PERMANENT_CODES, GAP, ErrorCode.invalid_producer_epoch])
def test_gapless_makes_permanent_failure_fatal(code: int) -> None:
    assert next_step(code, FACTS).action is BatchAction.FAIL
    assert next_step(code, GAPLESS) == BatchStep(BatchAction.FATAL, next_step(code, FACTS).status)
