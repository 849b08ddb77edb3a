"""Names of error codes, and that their groups agree with what Kafka says of each."""

from __future__ import annotations

import pytest

from spark_kafka_sink.protocol import error_codes
from spark_kafka_sink.protocol.error_codes import (
    COORDINATOR_UNAVAILABLE,
    FATAL_TO_PRODUCER,
    INVALID_METADATA,
    INVALID_RECORDS,
    LEADER_BUSY,
    TRANSIENT_TOPIC_ERRORS,
    ClientErrorCode,
    ErrorCode,
    UnknownErrorCode,
    as_error_code,
    error_name,
)

RETRIED = INVALID_METADATA | TRANSIENT_TOPIC_ERRORS | COORDINATOR_UNAVAILABLE | LEADER_BUSY


@pytest.mark.parametrize("code", sorted(RETRIED), ids=error_name)
def test_what_is_retried_is_retriable_to_kafka(code: ErrorCode) -> None:
    assert code.retriable


@pytest.mark.parametrize("code", sorted(FATAL_TO_PRODUCER | INVALID_RECORDS), ids=error_name)
def test_what_ends_a_batch_is_not(code: ErrorCode) -> None:
    assert not code.retriable


def test_names_are_kafkas() -> None:
    assert error_name(0) == "NONE"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(87) == error_name(ErrorCode.invalid_record) == "INVALID_RECORD"
    assert error_name(ClientErrorCode.not_sent) == "NOT_SENT"
    assert error_name(9_999) == "UNKNOWN_ERROR_9999"


def test_a_code_without_a_name_stays_a_number() -> None:
    assert as_error_code(3) is ErrorCode.unknown_topic_or_partition
    strange = as_error_code(9_999)
    assert isinstance(strange, UnknownErrorCode)
    assert (strange, strange.value) == (9_999, 9_999)
    assert not error_codes.is_known(strange)


def test_our_own_codes_are_no_brokers() -> None:
    assert not {int(code) for code in ClientErrorCode} & {int(code) for code in ErrorCode}
