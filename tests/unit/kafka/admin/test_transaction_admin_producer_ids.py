"""InitProducerId: a new epoch, or the reason for its rejection."""

from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ConfigError,
    FencedError,
    ProtocolError,
    TransactionError,
)
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.coordination import LOST, Coordination, described, opened

CONCURRENT, BAD_TIMEOUT, DENIED = 51, 50, 53


def init(
    cluster: Coordination, current: OpenTransaction | None = None, seconds: float = 10.0
) -> OpenTransaction:
    with blocking_client(cluster) as client:
        admin = TransactionAdmin(client, prefix="orders")
        return admin.init_producer_id("orders/stream", 60_000, client.deadline(seconds), current)


@pytest.mark.parametrize(("level", "version"), [(2, 2), (1, 1), (0, 1)])
def test_protocol_follows_the_finalized_features(level: int, version: int) -> None:
    cluster = Coordination()
    cluster.levels = {"transaction.version": level}
    assert init(cluster) == opened("orders/stream", TransactionVersion(version), epoch=3)
    ((_, asked),) = cluster.requests_for(ApiKey.INIT_PRODUCER_ID)
    assert asked.transaction_timeout.total_seconds() == 60
    assert (asked.producer_id, asked.producer_epoch) == (-1, -1)


def test_lost_and_retriable_responses_are_retried() -> None:
    cluster = Coordination()
    cluster.will_answer("orders/stream", [LOST, CONCURRENT, CONCURRENT, 14, 16, 15])
    assert init(cluster).producer_id == 7
    assert len(cluster.requests_for(ApiKey.INIT_PRODUCER_ID)) == 7


def test_producer_continues_from_its_own_epoch() -> None:
    cluster = Coordination()
    init(cluster, current=opened("orders/stream", epoch=9))
    ((_, asked),) = cluster.requests_for(ApiKey.INIT_PRODUCER_ID)
    assert (asked.producer_id, asked.producer_epoch) == (7, 9)


@pytest.mark.parametrize("code", [47, 90])
def test_replaced_producer_is_fenced(code: int) -> None:
    cluster = Coordination()
    cluster.will_answer("orders/stream", [code])
    with pytest.raises(FencedError):
        init(cluster, current=opened("orders/stream"))


def test_missing_permission_is_named_for_the_prefix() -> None:
    cluster = Coordination()
    cluster.will_answer("orders/stream", [DENIED])
    with pytest.raises(AuthorizationError) as caught:
        init(cluster)
    assert caught.value.error == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert "Write on every transactional id that starts with orders is denied" in str(caught.value)
    assert "--transactional-id orders --resource-pattern-type prefixed" in str(caught.value)


def test_timeout_above_the_maximum_is_a_config_error() -> None:
    cluster = Coordination()
    cluster.will_answer("orders/stream", [BAD_TIMEOUT])
    with pytest.raises(ConfigError, match="60000") as caught:
        init(cluster)
    assert caught.value.error == "INVALID_TRANSACTION_TIMEOUT"


def test_other_errors_are_reported_by_name() -> None:
    cluster = Coordination()
    cluster.will_answer("orders/stream", [-1])
    with pytest.raises(TransactionError) as caught:
        init(cluster)
    assert caught.value.error == "UNKNOWN_SERVER_ERROR"


def test_timeout_contains_the_latest_error() -> None:
    cluster = Coordination()
    cluster.will_answer("orders/stream", [CONCURRENT] * 10_000)
    with pytest.raises(BrokerUnavailableError) as caught:
        init(cluster, seconds=1)
    assert caught.value.error == "CONCURRENT_TRANSACTIONS"
    assert "InitProducerId of orders/stream exceeded its deadline" in str(caught.value)


@pytest.mark.parametrize(
    ("states", "code", "ends"),
    [
        (["CompleteAbort"], 0, 0),
        (["Ongoing", "CompleteAbort"], 0, 1),
        (["Ongoing", "Ongoing"], CONCURRENT, 1),
    ],
)
def test_transaction_that_fencing_leaves_open_is_aborted(
    states: list[str], code: int, ends: int
) -> None:
    """kfake bumps the epoch on InitProducerId without ending the transaction."""
    cluster = Coordination()
    cluster.will_answer("b", [CONCURRENT])
    cluster.will_answer("c", [DENIED])
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
    assert fenced == {"a": code, "b": 0, "c": DENIED}
    assert len(cluster.requests_for(ApiKey.END_TXN)) == ends


def test_response_without_a_producer_id_is_an_error() -> None:
    cluster = Coordination()
    cluster.scripts[ApiKey.INIT_PRODUCER_ID] = lambda *_: {"producer_id": -1, "producer_epoch": -1}
    with pytest.raises(ProtocolError, match="returned no producer id"):
        init(cluster)
