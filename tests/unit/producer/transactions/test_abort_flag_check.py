"""The check of the abort flag: its response, and a session that checks it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from spark_kafka_sink.common.errors import DeliveryError, ProtocolError
from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.versions import CLIENT_VERSIONS, ApiKey
from spark_kafka_sink.producer.transactions.abort_flag_check import (
    flag_failure_code,
    flag_request,
)
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.harness.coordinator import CoordinatorFault, FakeTransaction
from tests.support.harness.world import World, world
from tests.unit.producer.transactions.transactional_session import (
    FIND,
    INIT,
    LOST,
    UNAVAILABLE,
    cluster,
)

DESCRIBE = ApiKey.DESCRIBE_TRANSACTIONS
SETTINGS = TransactionSettings(transactional_id="t-1", timeout_ms=60_000, abort_flag="flag")


def response(*codes: int) -> Any:
    return SimpleNamespace(transaction_states=[SimpleNamespace(error_code=code) for code in codes])


def test_existing_flag_ends_the_task() -> None:
    with pytest.raises(DeliveryError, match="t-1"):
        flag_failure_code(response(ErrorCode.none), SETTINGS)


def test_missing_flag_allows_the_producer_id() -> None:
    assert (
        flag_failure_code(response(ErrorCode.transactional_id_not_found), SETTINGS)
        == ErrorCode.none
    )


@pytest.mark.parametrize(
    "code", sorted({*ErrorCode} - {ErrorCode.none, ErrorCode.transactional_id_not_found})
)
def test_any_other_error_is_a_failed_check(code: ErrorCode) -> None:
    assert flag_failure_code(response(code), SETTINGS) == code


def test_lost_response_is_a_failed_check() -> None:
    assert flag_failure_code(None, SETTINGS) == ClientErrorCode.disconnected


def test_response_without_the_flag_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="DescribeTransactions"):
        flag_failure_code(response(), SETTINGS)


def test_flag_is_asked_for_if_the_broker_can_answer() -> None:
    versions = NodeApiVersions({DESCRIBE: CLIENT_VERSIONS[DESCRIBE]})
    request = flag_request(versions, SETTINGS, object())
    assert request is not None
    assert request.api is DESCRIBE
    assert b"flag" in b"".join(request.body)
    assert flag_request(NodeApiVersions(), SETTINGS, object()) is None


@pytest.fixture
def flag_sim() -> Iterator[World]:
    with world(cluster(2), transaction=SETTINGS) as open_world:
        yield open_world


@pytest.mark.parametrize("trouble", [LOST, *(CoordinatorFault(error=code) for code in UNAVAILABLE)])
def test_rows_wait_until_the_flag_is_not_found(flag_sim: World, trouble: CoordinatorFault) -> None:
    coordinator = flag_sim.cluster.coordinator
    coordinator.faults[DESCRIBE].append(trouble)
    values = flag_sim.deliver_batches(2)
    looked_up = {request.coordinator_keys[0] for request in coordinator.requests_for(FIND)}
    assert looked_up == {"t-1", "flag"}
    assert len(coordinator.requests_for(DESCRIBE)) == 2
    assert [api for api, _ in coordinator.requests][-1] is DESCRIBE
    assert flag_sim.cluster.logs["t", 0].values() == values


def test_no_row_is_sent_if_the_flag_exists(flag_sim: World) -> None:
    flag_sim.cluster.coordinator.transactions["flag"] = FakeTransaction(producer_id=1)
    flag_sim.send_batches(1)
    assert "aborted this write" in str(flag_sim.await_failure())
    assert flag_sim.cluster.seen == []


@pytest.mark.parametrize("api", [INIT, DESCRIBE])
def test_session_that_fails_before_the_response_sends_nothing(flag_sim: World, api: ApiKey) -> None:
    requests = flag_sim.cluster.coordinator.requests
    flag_sim.send_batches(1)
    flag_sim.run(lambda: bool(requests) and requests[-1][0] is api)
    flag_sim.sender.completer.abandon(DeliveryError("failed"))
    assert flag_sim.run_while_stepping(lambda: flag_sim.session.abort_transaction(5.0))
    assert requests[-1][0] is api
    assert flag_sim.cluster.seen == []
