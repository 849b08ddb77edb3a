"""EndTxn and InitProducerId for many transactions: final responses, retries and coordinators."""

from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ConfigError,
    FencedError,
    KafkaProdError,
    ProtocolError,
    TransactionError,
)
from spark_kafka_sink.kafka.admin.transaction_admin import MAX_CONNECTIONS, TransactionAdmin
from spark_kafka_sink.kafka.admin.transaction_handlers import EndTxnHandler
from spark_kafka_sink.kafka.blocking.api_driver import request_one
from spark_kafka_sink.kafka.blocking.blocking_client import MAX_IN_FLIGHT
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.scripted_coordinator import LOST, ScriptedCoordinator, described, opened


def end(
    cluster: ScriptedCoordinator, *names: str, commit: bool = True, seconds: float | None = 10.0
) -> dict[str, int]:
    with blocking_client(cluster) as client:
        deadline = None if seconds is None else client.deadline(seconds)
        transactions = [opened(name) for name in names]
        return TransactionAdmin(client).end(transactions, commit=commit, deadline=deadline)


def test_one_lookup_for_all_ids_then_one_request_per_coordinator() -> None:
    cluster = ScriptedCoordinator(nodes=3)
    cluster.coordinators = {"a": 1, "b": 2, "c": 3, "d": 2}
    assert end(cluster, "a", "b", "c", "d") == {"a": 0, "b": 0, "c": 0, "d": 0}
    assert sorted(cluster.end_txn_requests()) == [(1, "a"), (2, "b"), (2, "d"), (3, "c")]
    ((_, request),) = cluster.requests_for(ApiKey.FIND_COORDINATOR)
    assert sorted(request.coordinator_keys) == ["a", "b", "c", "d"]
    assert request.key_type == 1


def test_before_version_4_each_coordinator_is_looked_up_separately() -> None:
    cluster = ScriptedCoordinator()
    cluster.limit(ApiKey.FIND_COORDINATOR, VersionRange(0, 3))
    assert end(cluster, "a", "b") == {"a": 0, "b": 0}
    keys = [request.key for _, request in cluster.requests_for(ApiKey.FIND_COORDINATOR)]
    assert sorted(keys) == ["a", "b"]


@pytest.mark.parametrize(
    "code", [ErrorCode.coordinator_load_in_progress, ErrorCode.concurrent_transactions]
)
def test_busy_coordinator_is_retried(cluster: ScriptedCoordinator, code: int) -> None:
    cluster.queue_codes("a", [code, code, code])
    assert end(cluster, "a") == {"a": 0}
    assert len(cluster.end_txn_requests()) == 4
    assert len(cluster.requests_for(ApiKey.FIND_COORDINATOR)) == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.coordinator_not_available, ErrorCode.not_coordinator, LOST]
)
def test_moved_coordinator_is_looked_up_again(code: int) -> None:
    cluster = ScriptedCoordinator(nodes=2)
    cluster.moves["a"].extend([1, 2])
    cluster.queue_codes("a", [code])
    assert end(cluster, "a", seconds=None) == {"a": 0}
    assert cluster.end_txn_requests() == [(1, "a"), (2, "a")]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.producer_fenced,
        ErrorCode.transaction_abortable,
        ErrorCode.unknown_server_error,
    ],
)
def test_final_error_of_one_id_does_not_stop_the_others(code: int) -> None:
    cluster = ScriptedCoordinator()
    cluster.queue_codes("bad", [code])
    cluster.queue_codes("slow", [ErrorCode.concurrent_transactions])
    assert end(cluster, "bad", "slow", "good") == {"bad": code, "slow": 0, "good": 0}
    assert [name for _, name in cluster.end_txn_requests()].count("bad") == 1


def test_missing_coordinator_is_looked_up_again(cluster: ScriptedCoordinator) -> None:
    cluster.find_codes["a"].extend(
        [ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress]
    )
    assert end(cluster, "a") == {"a": 0}
    assert len(cluster.requests_for(ApiKey.FIND_COORDINATOR)) == 3


def test_denied_id_has_its_own_error_code(cluster: ScriptedCoordinator) -> None:
    denied = ErrorCode.transactional_id_authorization_failed
    cluster.find_codes["secret"].append(denied)
    assert end(cluster, "secret", "a") == {"secret": denied, "a": 0}
    assert cluster.end_txn_requests() == [(1, "a")]


def test_timeout_returns_the_latest_error_code(cluster: ScriptedCoordinator) -> None:
    cluster.queue_codes("a", [ErrorCode.concurrent_transactions] * 10_000)
    assert end(cluster, "a", "b", seconds=1) == {"a": ErrorCode.concurrent_transactions, "b": 0}


def test_outcome_is_unknown_without_any_response_in_time(cluster: ScriptedCoordinator) -> None:
    cluster.alive.clear()
    assert end(cluster, "a", seconds=1) == {"a": ClientErrorCode.disconnected}


def test_stopped_coordinator_delays_only_its_own_ids() -> None:
    cluster = ScriptedCoordinator(nodes=2)
    cluster.coordinators = {"a": 1, "b": 2}
    cluster.alive.discard(2)
    assert end(cluster, "a", "b", seconds=1) == {"a": 0, "b": ClientErrorCode.not_sent}


@pytest.mark.parametrize(("version", "expected"), [(1, 4), (2, 5)])
def test_transaction_ends_with_the_protocol_that_it_began_with(version: int, expected: int) -> None:
    cluster = ScriptedCoordinator()
    transaction = opened("a", TransactionVersion(version), epoch=5)
    with blocking_client(cluster) as client:
        handler = EndTxnHandler([transaction], commit=True)
        ended = request_one(client, handler, "a", client.deadline(10), "committing a")
    assert cluster.versions_of(ApiKey.END_TXN) == {expected}
    assert ended.value == opened("a", TransactionVersion(version), epoch=5 if version == 1 else 6)


def test_abort_is_requested(cluster: ScriptedCoordinator) -> None:
    end(cluster, "a", commit=False)
    end(cluster, "a", commit=True)
    ends = cluster.requests_for(ApiKey.END_TXN)
    assert [request.committed for _, request in ends] == [False, True]


def test_requests_in_flight_are_limited_before_the_first_response() -> None:
    cluster = ScriptedCoordinator()
    names = [f"task-{number}" for number in range(5 * MAX_IN_FLIGHT)]
    assert set(end(cluster, *names).values()) == {0}
    assert len(cluster.end_txn_requests()) == len(names)
    cluster.log.clear()
    cluster.unanswered.add(ApiKey.END_TXN)
    assert set(end(cluster, *names, seconds=1).values()) == {ClientErrorCode.disconnected}
    assert len(cluster.end_txn_requests()) <= MAX_IN_FLIGHT * MAX_CONNECTIONS
    assert len(cluster.end_txn_requests()) < len(names)


@pytest.mark.parametrize(("count", "connections"), [(50, 1), (150, 2), (1_000, 4)])
def test_several_connections_per_coordinator(count: int, connections: int) -> None:
    cluster = ScriptedCoordinator()
    names = [f"task-{number}" for number in range(count)]
    with blocking_client(cluster, bootstrap_servers="127.0.0.1:40001") as client:
        transactions = [opened(name) for name in names]
        admin = TransactionAdmin(client)
        assert set(admin.end(transactions, commit=True, deadline=None).values()) == {0}
        assert len(cluster.peers) == 1 + connections
    assert sorted(name for _, name in cluster.end_txn_requests()) == sorted(names)


def test_coordinators_are_cached(cluster: ScriptedCoordinator) -> None:
    with blocking_client(cluster) as client:
        admin = TransactionAdmin(client)
        for _ in range(3):
            assert admin.end([opened("a")], commit=True, deadline=client.deadline(10)) == {"a": 0}
    assert len(cluster.requests_for(ApiKey.FIND_COORDINATOR)) == 1


def test_broker_without_the_api_is_named(cluster: ScriptedCoordinator) -> None:
    cluster.limit(ApiKey.END_TXN, None)
    with pytest.raises(ProtocolError, match="END_TXN") as caught:
        end(cluster, "a")
    assert caught.value.broker == "127.0.0.1:40001"


def init(
    cluster: ScriptedCoordinator,
    current: TransactionalProducer | None = None,
    seconds: float = 10.0,
) -> TransactionalProducer:
    with blocking_client(cluster) as client:
        admin = TransactionAdmin(client, prefix="orders")
        return admin.init_producer_id("orders/stream", 60_000, client.deadline(seconds), current)


@pytest.mark.parametrize(("level", "version"), [(2, 2), (1, 1), (0, 1)])
def test_protocol_follows_the_finalized_features(level: int, version: int) -> None:
    cluster = ScriptedCoordinator()
    cluster.levels = {"transaction.version": level}
    assert init(cluster) == opened("orders/stream", TransactionVersion(version), epoch=3)
    ((_, request),) = cluster.requests_for(ApiKey.INIT_PRODUCER_ID)
    assert request.transaction_timeout.total_seconds() == 60
    assert (request.producer_id, request.producer_epoch) == (-1, -1)


def test_lost_and_retriable_responses_are_retried(cluster: ScriptedCoordinator) -> None:
    cluster.queue_codes(
        "orders/stream",
        [
            LOST,
            ErrorCode.concurrent_transactions,
            ErrorCode.concurrent_transactions,
            ErrorCode.coordinator_load_in_progress,
            ErrorCode.not_coordinator,
            ErrorCode.coordinator_not_available,
        ],
    )
    assert init(cluster).producer_id == 7
    assert len(cluster.requests_for(ApiKey.INIT_PRODUCER_ID)) == 7


def test_producer_continues_from_its_own_epoch(cluster: ScriptedCoordinator) -> None:
    init(cluster, current=opened("orders/stream", epoch=9))
    ((_, request),) = cluster.requests_for(ApiKey.INIT_PRODUCER_ID)
    assert (request.producer_id, request.producer_epoch) == (7, 9)


@pytest.mark.parametrize("code", [ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced])
def test_replaced_producer_is_fenced(cluster: ScriptedCoordinator, code: int) -> None:
    cluster.queue_codes("orders/stream", [code])
    with pytest.raises(FencedError):
        init(cluster, current=opened("orders/stream"))


@pytest.mark.parametrize(
    ("codes", "error", "name", "text"),
    [
        (
            [ErrorCode.transactional_id_authorization_failed],
            AuthorizationError,
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "starts with orders is denied.*--transactional-id orders .*prefixed",
        ),
        (
            [ErrorCode.invalid_transaction_timeout],
            ConfigError,
            "INVALID_TRANSACTION_TIMEOUT",
            "60000",
        ),
        ([ErrorCode.unknown_server_error], TransactionError, "UNKNOWN_SERVER_ERROR", ""),
        (
            [ErrorCode.concurrent_transactions] * 10_000,
            BrokerUnavailableError,
            "CONCURRENT_TRANSACTIONS",
            "InitProducerId of orders/stream exceeded its deadline",
        ),
    ],
)
def test_other_errors_of_init_producer_id(
    cluster: ScriptedCoordinator,
    codes: list[int],
    error: type[KafkaProdError],
    name: str,
    text: str,
) -> None:
    cluster.queue_codes("orders/stream", codes)
    with pytest.raises(error, match=f"(?s){text}") as caught:
        init(cluster, seconds=1)
    assert caught.value.kafka_error == name


@pytest.mark.parametrize(
    ("states", "code", "ends"),
    [
        (["CompleteAbort"], 0, 0),
        (["Ongoing", "CompleteAbort"], 0, 1),
        (["Ongoing", "Ongoing"], ErrorCode.concurrent_transactions, 1),
    ],
)
def test_transaction_that_fencing_leaves_open_is_aborted(
    cluster: ScriptedCoordinator, states: list[str], code: int, ends: int
) -> None:
    """kfake bumps the epoch on InitProducerId without ending the transaction."""
    cluster.queue_codes("b", [ErrorCode.concurrent_transactions])
    cluster.queue_codes("c", [ErrorCode.transactional_id_authorization_failed])
    cluster.scripts[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _, request: {
        "transaction_states": [
            described(name, transaction_state=states[0] if name == "a" else "Empty")
            for name in request.transactional_ids
        ]
    }

    def end(_node: int, request: Any) -> dict[str, Any]:
        assert (request.producer_epoch, request.committed) == (3, False)
        states.pop(0)
        return {"producer_id": 7, "producer_epoch": 4}

    cluster.scripts[ApiKey.END_TXN] = end
    with blocking_client(cluster) as client:
        fenced = TransactionAdmin(client).fence(["a", "b", "c"], client.deadline(10))
    assert fenced == {"a": code, "b": 0, "c": ErrorCode.transactional_id_authorization_failed}
    assert len(cluster.requests_for(ApiKey.END_TXN)) == ends


def test_response_without_a_producer_id_is_an_error(cluster: ScriptedCoordinator) -> None:
    cluster.scripts[ApiKey.INIT_PRODUCER_ID] = lambda *_: {"producer_id": -1, "producer_epoch": -1}
    with pytest.raises(ProtocolError, match="returned no producer id"):
        init(cluster)
