"""Outcomes of EndTxn responses."""

import pytest

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, end_txn_outcome, is_ended
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, EndOutcome.COMMITTED),
        (48, EndOutcome.LOST),
        (90, EndOutcome.FENCED),
        (47, EndOutcome.FENCED),
        (49, EndOutcome.FENCED),
        (14, EndOutcome.RETRY),
        (15, EndOutcome.RETRY),
        (16, EndOutcome.RETRY),
        (51, EndOutcome.RETRY),
        (7, EndOutcome.RETRY),
        (13, EndOutcome.RETRY),
        (-2, EndOutcome.RETRY),
        (-3, EndOutcome.RETRY),
        (53, EndOutcome.FAILED),
        (-1, EndOutcome.FAILED),
        (9999, EndOutcome.FAILED),
    ],
)
def test_each_error_code_of_end_txn_has_an_outcome(code: int, outcome: EndOutcome) -> None:
    assert end_txn_outcome(code) is outcome


def test_only_no_error_counts_as_committed() -> None:
    committed = {code for code in ErrorCode if end_txn_outcome(code) is EndOutcome.COMMITTED}
    assert committed == {ErrorCode.none}


def test_abort_is_complete_if_the_transaction_is_not_open() -> None:
    assert all(is_ended(code) for code in (0, 47, 48, 49, 90))
    assert not any(is_ended(code) for code in (14, 51, 53))
