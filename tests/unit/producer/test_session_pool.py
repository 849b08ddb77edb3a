"""Clients are shared by tasks with equal settings and secrets, also after a transaction."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import NoReturn

import pytest

from spark_kafka_sink.common.errors import ConfigError, DeliveryError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    Mechanism,
    PasswordLogin,
    SaslConfig,
    SecurityConfig,
    SecurityProtocol,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import (
    borrow_session,
    discard_session,
    give_back_session,
    idle_clients,
)
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.harness.fake import FakeCluster
from tests.support.harness.offline import config
from tests.support.harness.world import world

FIRST = TransactionSettings(transactional_id="p-1-aa-0-0", timeout_ms=1_000)
SECOND = TransactionSettings(transactional_id="p-2-bb-0-0", timeout_ms=1_000)


def settings(
    name: str, username: str = "alice", password: str = "pw", mechanism: Mechanism = Mechanism.PLAIN
) -> ProducerConfig:
    """Create settings with a login; `name` separates the clients of different tests."""
    login = PasswordLogin(
        username=Secret(username, "kafka.sasl.username"),
        password=Secret(password, "kafka.sasl.password"),
    )
    security = SecurityConfig(
        protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=SaslConfig(mechanism=mechanism, login=login)
    )
    return replace(config(client_id=name), security=security)


def client_of(producer: ProducerConfig) -> ProducerClient:
    """Return the client that a task with this configuration gets, after releasing it."""
    session = borrow_session(producer)
    give_back_session(session)
    return session.client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return a client id unique to the test; close idle clients afterwards."""
    yield request.node.name
    idle_clients.close()


def test_equal_logins_share_a_client(name: str) -> None:
    assert client_of(settings(name)) is client_of(settings(name))


@pytest.mark.parametrize(
    "other", [{"username": "bob"}, {"password": "other"}, {"mechanism": Mechanism.SCRAM_SHA_256}]
)
def test_other_logins_get_their_own_clients(name: str, other: dict[str, object]) -> None:
    first = client_of(settings(name))
    second = client_of(settings(name, **other))  # type: ignore[arg-type]
    assert first is not second
    assert client_of(settings(name)) is first
    assert client_of(settings(name, **other)) is second  # type: ignore[arg-type]


def test_changed_secret_reference_closes_the_client(name: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("sim")
    first = client_of(settings(name, password=f"file:{file}"))
    assert client_of(settings(name, password=f"file:{file}")) is first
    file.write_text("another")
    second = client_of(settings(name, password=f"file:{file}"))
    assert second is not first
    assert first.is_dead
    assert not second.is_dead


def test_pool_key_contains_no_secret(name: str) -> None:
    secret = "s3nt1nel"
    producer = settings(name, password=secret)
    client = client_of(producer)
    assert secret not in f"{producer!r} {client.config.security!r} {client.credentials!r}"


@pytest.mark.parametrize("end_session", [give_back_session, discard_session])
def test_process_remembers_clusters_that_reject_client_bumps(
    name: str, end_session: Callable[[ProducerSession], None]
) -> None:
    rejecting = replace(settings(name), bootstrap_servers=(f"{end_session.__name__}:9092",))
    session = borrow_session(rejecting)
    session.identity.may_bump_epoch = False
    end_session(session)
    for producer, may_bump in ((replace(rejecting, client_id="2"), False), (settings(name), True)):
        session = borrow_session(producer)
        assert session.identity.may_bump_epoch is may_bump
        give_back_session(session)


def test_tasks_of_two_queries_share_a_client_with_their_own_client_ids() -> None:
    """Quotas and metrics distinguish them by client id; connections stay open."""
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, SessionSettings(client_id="kafkaprod-etl-clicks")) as sim:
        sim.deliver_batches(1)
        opened = len(cluster.peers)
        first = cluster.client_ids.copy()
        sim.settings = SessionSettings(client_id="kafkaprod-etl-orders")
        sim.next_session()
        sim.deliver_batches(1)
        assert len(cluster.peers) == opened
        assert set(first) == {"kafkaprod-etl-clicks"}
        assert set(cluster.client_ids[len(first) :]) == {"kafkaprod-etl-orders"}
        assert dict(sim.report().metrics.settings)["client.id"] == "kafkaprod-etl-orders"


@pytest.mark.parametrize(
    ("of_user", "of_task", "shown"),
    [
        ("mine", "kafkaprod-etl", "mine"),
        ("", "kafkaprod-etl", "kafkaprod-etl"),
        ("", "", "kafkaprod"),
    ],
)
def test_client_id_of_the_user_has_priority(of_user: str, of_task: str, shown: str) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, SessionSettings(client_id=of_task), client_id=of_user) as sim:
        sim.deliver_batches(1)
        assert set(cluster.client_ids) == {shown}


@pytest.mark.parametrize("is_pooled", [False, True])
@pytest.mark.parametrize("part", ["Partitioner", "Sender", "TopicMetadata"])
def test_client_is_closed_if_the_session_cannot_be_created(
    part: str, is_pooled: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[ProducerClient] = []

    class Recorded(ProducerClient):
        def close(self) -> None:
            super().close()
            clients.append(self)

    def fail(*_: object, **__: object) -> NoReturn:
        raise ConfigError("no")

    monkeypatch.setattr("spark_kafka_sink.producer.session_pool.ProducerClient", Recorded)
    if is_pooled:
        client_of(config(client_id=name))
    monkeypatch.setattr(f"spark_kafka_sink.producer.session_assembly.{part}", fail)
    with pytest.raises(ConfigError, match="no"):
        borrow_session(config(client_id=name))
    assert len(clients) == 1
    assert not any(thread.name == "kafkaprod-sender" for thread in enumerate_threads())


def test_transactional_identity_is_never_reused() -> None:
    producer = config(client_id="transactions-pool")
    first = borrow_session(producer, transaction=FIRST)
    assert first.identity.transactional_id == FIRST.transactional_id
    give_back_session(first)
    second = borrow_session(producer, transaction=SECOND)
    assert second.client is first.client
    assert second.identity.transactional_id == SECOND.transactional_id
    give_back_session(second)
    third = borrow_session(producer)
    assert third.client is first.client
    assert third.identity.transactional_id is None
    assert third.transaction_manager is None
    assert third.flush_transaction() is None
    discard_session(third)


def test_transaction_requires_idempotence() -> None:
    producer = config(client_id="plain", enable_idempotence="false")
    with pytest.raises(ConfigError, match="idempotent"):
        borrow_session(producer, transaction=FIRST)


def test_session_without_transaction_has_nothing_to_abort() -> None:
    session = borrow_session(config(client_id="no-transaction"))
    assert session.abort_transaction(1.0)
    session.flush()
    discard_session(session)


def test_unused_session_is_aborted_immediately() -> None:
    session = borrow_session(config(client_id="aborted"), transaction=FIRST)
    assert session.abort_transaction(20.0)
    with pytest.raises(DeliveryError, match="cancelled"):
        session.flush()
    discard_session(session)
