"""Names of error codes, and their groups compared with Kafka's."""

import pytest

from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import (
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
def test_retried_errors_are_retriable_in_kafka(code: ErrorCode | ClientErrorCode) -> None:
    assert isinstance(code, ClientErrorCode) or code.retriable


@pytest.mark.parametrize("code", sorted(FATAL_TO_PRODUCER | INVALID_RECORDS), ids=error_name)
def test_permanent_errors_are_not_retriable(code: ErrorCode) -> None:
    assert not code.retriable


def test_names_match_kafka() -> None:
    assert error_name(0) == "NONE"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(87) == error_name(ErrorCode.invalid_record) == "INVALID_RECORD"
    assert error_name(ClientErrorCode.not_sent) == "NOT_SENT"
    assert error_name(ClientErrorCode.disconnected) == "DISCONNECTED"
    assert error_name(9_999) == "UNKNOWN_ERROR_9999"


def test_unknown_code_stays_a_number() -> None:
    assert as_error_code(3) is ErrorCode.unknown_topic_or_partition
    strange = as_error_code(9_999)
    assert isinstance(strange, UnknownErrorCode)
    assert (strange, strange.value) == (9_999, 9_999)
    assert not error_codes.is_known(strange)


def test_client_side_codes_do_not_exist_in_kafka() -> None:
    assert not {int(code) for code in ClientErrorCode} & {int(code) for code in ErrorCode}
