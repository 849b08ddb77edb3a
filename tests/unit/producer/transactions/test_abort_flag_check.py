"""The decision on a task's producer id from the response about the abort flag."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_kafka_sink.common.errors import DeliveryError, ProtocolError
from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.versions import CLIENT_VERSIONS, ApiKey
from spark_kafka_sink.producer.transactions.abort_flag_check import AbortFlagCheck
from spark_kafka_sink.producer.transactions.find_coordinator import CoordinatorLookup

DESCRIBE = ApiKey.DESCRIBE_TRANSACTIONS
CHECK = AbortFlagCheck(
    flag="flag", transactional_id="t-1", coordinator=cast("CoordinatorLookup", None)
)


def response(*codes: int) -> Any:
    return SimpleNamespace(transaction_states=[SimpleNamespace(error_code=code) for code in codes])


def test_existing_flag_ends_the_task() -> None:
    with pytest.raises(DeliveryError, match="t-1"):
        CHECK.failure_code(response(ErrorCode.none))


def test_missing_flag_allows_the_producer_id() -> None:
    assert CHECK.failure_code(response(ErrorCode.transactional_id_not_found)) == ErrorCode.none


@pytest.mark.parametrize(
    "code", sorted({*ErrorCode} - {ErrorCode.none, ErrorCode.transactional_id_not_found})
)
def test_any_other_error_is_a_failed_check(code: ErrorCode) -> None:
    assert CHECK.failure_code(response(code)) == code


def test_lost_response_is_a_failed_check() -> None:
    assert CHECK.failure_code(None) == ClientErrorCode.disconnected


def test_response_without_the_flag_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="DescribeTransactions"):
        CHECK.failure_code(response())


def test_flag_is_asked_for_if_the_broker_can_answer() -> None:
    request = CHECK.request(NodeApiVersions({DESCRIBE: CLIENT_VERSIONS[DESCRIBE]}), object())
    assert request is not None
    assert request.api is DESCRIBE
    assert b"flag" in b"".join(request.body)
    assert CHECK.request(NodeApiVersions(), object()) is None
