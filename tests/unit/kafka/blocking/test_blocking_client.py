"""A client that connects, logs in and waits in the caller's thread."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ConfigError,
    KafkaProdError,
)
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import (
    BlockingClient,
    borrowed_client,
    idle_blocking_clients,
)
from spark_kafka_sink.kafka.client.client_pool import MAX_IDLE
from spark_kafka_sink.kafka.logs.log_reader import LogReader
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.offline import config
from tests.support.harness.sasl import FakeSasl, ManualCalls, password_login
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.scripted_coordinator import ScriptedCoordinator, opened


def end(client: BlockingClient, name: str, seconds: float = 10.0) -> int:
    admin = TransactionAdmin(client)
    return admin.end([opened(name)], commit=True, deadline=client.deadline(seconds))[name]


def test_unreachable_brokers_are_listed_with_their_addresses(cluster: ScriptedCoordinator) -> None:
    cluster.alive.clear()
    with (
        blocking_client(cluster, bootstrap_servers="127.0.0.1:40000,127.0.0.1:40001") as client,
        pytest.raises(BrokerUnavailableError) as caught,
    ):
        TransactionAdmin(client).list(None, client.deadline(1))
    assert "Tried 127.0.0.1:40000: Connection refused" in str(caught.value)
    assert "127.0.0.1:40001: Connection refused" in str(caught.value)


def test_wrong_password_fails_immediately(cluster: ScriptedCoordinator) -> None:
    cluster.sasl = FakeSasl(password="another")
    settings = config(bootstrap_servers="127.0.0.1:40000")
    settings = replace(settings, security=password_login())
    with BlockingClient(settings, connect=cluster.connect, logins=ManualCalls()) as client:
        with pytest.raises(AuthenticationError) as caught:
            TransactionAdmin(client).list(None, client.deadline(60))
        assert caught.value.kafka_error == "SASL_AUTHENTICATION_FAILED"


def throttle(cluster: ScriptedCoordinator, api: ApiKey, milliseconds: int) -> None:
    """Set the throttle time of each response of an API."""
    usual = cluster.scripts[api]

    def throttled(node: int, request: Any) -> dict[str, Any]:
        answer = usual(node, request)
        assert answer is not None
        return answer | {"throttle_time": timedelta(milliseconds=milliseconds)}

    cluster.scripts[api] = throttled


def test_timeout_caused_by_throttling_is_explained(cluster: ScriptedCoordinator) -> None:
    throttle(cluster, ApiKey.INIT_PRODUCER_ID, 60_000)
    with blocking_client(cluster) as client:
        admin = TransactionAdmin(client)
        admin.init_producer_id("orders/stream", 15_000, client.deadline(10))
        with pytest.raises(BrokerUnavailableError) as caught:
            admin.init_producer_id("orders/stream", 15_000, client.deadline(1))
        client.forget_topics()
        later = client.unavailable_error("InitProducerId")
    assert "a quota throttles this client (127.0.0.1:4000" in str(caught.value)
    assert " for 60.0 s" in str(caught.value)
    assert "request_percentage" in (caught.value.hint or "")
    assert "quota" not in str(later)


def test_timeout_without_a_coordinator_is_explained(cluster: ScriptedCoordinator) -> None:
    """A cluster with fewer brokers than transaction.state.log.replication.factor has none."""
    cluster.find_codes["a"].extend([ErrorCode.coordinator_not_available] * 10_000)
    with blocking_client(cluster) as client:
        with pytest.raises(BrokerUnavailableError) as caught:
            TransactionAdmin(client).init_producer_id("a", 1_000, client.deadline(0.5))
        assert end(client, "a", seconds=0.1) == ErrorCode.coordinator_not_available
    assert caught.value.kafka_error == "COORDINATOR_NOT_AVAILABLE"
    assert "transaction.state.log.replication.factor" in (caught.value.hint or "")


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.leader_not_available])
def test_timeout_without_a_leader_is_explained(code: ErrorCode) -> None:
    cluster = ScriptedCoordinator(topics={"t": 1})
    cluster.move("t", 0, NO_LEADER)
    cluster.metadata_errors["t"] = code
    with blocking_client(cluster) as client, pytest.raises(BrokerUnavailableError) as caught:
        LogReader(client, "t").read(None, client.deadline(0.5))
    assert caught.value.kafka_error == "LEADER_NOT_AVAILABLE"


def test_metadata_requests_create_no_topics(cluster: ScriptedCoordinator) -> None:
    cluster.creates_topics = True
    with blocking_client(cluster) as client:
        client.metadata.add_topics(["t"])
        client.await_metadata(client.deadline(10))
    assert cluster.requested_topics == [{"t"}]
    assert "t" not in cluster.ids
    assert set(cluster.client_ids) == {"kafkaprod-admin"}


def test_closed_connection_is_reopened(cluster: ScriptedCoordinator) -> None:
    with blocking_client(cluster) as client:
        assert end(client, "a") == 0
        cluster.close()
        assert end(client, "a") == 0


def test_throttled_broker_gets_no_requests_until_its_pause_ends() -> None:
    cluster = ScriptedCoordinator()
    throttle(cluster, ApiKey.END_TXN, 150)
    with blocking_client(cluster) as client:
        assert end(client, "a") == 0
        begun = time.monotonic()
        assert end(client, "b") == 0
    assert time.monotonic() - begun > 0.1


def test_abandoned_requests_do_not_affect_later_ones(cluster: ScriptedCoordinator) -> None:
    with blocking_client(cluster) as client:
        cluster.unanswered.add(ApiKey.END_TXN)
        assert end(client, "a", seconds=0.05) < 0
        assert client.is_reusable
        cluster.unanswered.clear()
        cluster.close()  # so that responses of the muted broker do not count
        assert end(client, "b") == 0


def test_healthy_client_is_kept_with_its_connections() -> None:
    settings = config(bootstrap_servers="127.0.0.1:1")
    with borrowed_client(settings) as first, borrowed_client(settings) as beside:
        assert beside is not first
    with borrowed_client(settings) as again:
        assert again is first
    idle_blocking_clients.close()


def test_client_is_closed_after_an_error() -> None:
    settings = config(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaProdError), borrowed_client(settings) as first:
        raise ConfigError("it failed")
    with borrowed_client(settings) as again:
        assert again is not first
    idle_blocking_clients.close()


def test_least_recently_used_client_is_closed_first() -> None:
    everyone = [config(bootstrap_servers=f"127.0.0.1:{1 + i}") for i in range(MAX_IDLE + 1)]
    clients = []
    for settings in everyone:
        with borrowed_client(settings) as client:
            clients.append(client)
    with borrowed_client(everyone[1]) as kept, borrowed_client(everyone[0]) as created:
        assert kept is clients[1]
        assert created is not clients[0]
    idle_blocking_clients.close()
