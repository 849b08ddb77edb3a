"""Outcomes of EndTxn responses."""

import pytest

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, end_txn_outcome
from spark_kafka_sink.kafka.protocol.error_codes import (
    TRANSACTION_ENDED,
    ClientErrorCode,
    ErrorCode,
)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.none, EndOutcome.COMMITTED),
        (ErrorCode.invalid_txn_state, EndOutcome.LOST),
        (ErrorCode.producer_fenced, EndOutcome.FENCED),
        (ErrorCode.invalid_producer_epoch, EndOutcome.FENCED),
        (ErrorCode.invalid_producer_id_mapping, EndOutcome.FENCED),
        (ErrorCode.coordinator_load_in_progress, EndOutcome.RETRY),
        (ErrorCode.coordinator_not_available, EndOutcome.RETRY),
        (ErrorCode.not_coordinator, EndOutcome.RETRY),
        (ErrorCode.concurrent_transactions, EndOutcome.RETRY),
        (ErrorCode.request_timed_out, EndOutcome.RETRY),
        (ErrorCode.network_exception, EndOutcome.RETRY),
        (ClientErrorCode.disconnected, EndOutcome.RETRY),
        (ClientErrorCode.not_sent, EndOutcome.RETRY),
        (ErrorCode.transactional_id_authorization_failed, EndOutcome.FAILED),
        (ErrorCode.unknown_server_error, EndOutcome.FAILED),
        (9999, EndOutcome.FAILED),
    ],
)
def test_each_error_code_of_end_txn_has_an_outcome(code: int, outcome: EndOutcome) -> None:
    assert end_txn_outcome(code) is outcome


def test_only_no_error_counts_as_committed() -> None:
    committed = {code for code in ErrorCode if end_txn_outcome(code) is EndOutcome.COMMITTED}
    assert committed == {ErrorCode.none}


def test_ended_transaction_is_committed_lost_or_fenced() -> None:
    ended = {EndOutcome.COMMITTED, EndOutcome.LOST, EndOutcome.FENCED}
    assert {code for code in ErrorCode if end_txn_outcome(code) in ended} == TRANSACTION_ENDED
