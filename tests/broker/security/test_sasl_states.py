"""States of the SASL server over a socket; `test_auth_like_kafka` compares errors with Kafka's."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.security.raw_sasl import authenticate, handshake, log_in, plain
from tools.support.raw_client import RawClient, batch, produce, produce_values

USERS = {"alice": "secret", "bob": "hidden"}
SESSION = timedelta(minutes=5)


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}, sasl=USERS) as broker:
        yield broker


@pytest.fixture(scope="module")
def session_kafka() -> Iterator[EmbeddedBroker]:
    lifetime_ms = SESSION // timedelta(milliseconds=1)
    options: dict[str, Any] = {"sasl": USERS, "connections_max_reauth_ms": lifetime_ms}
    with EmbeddedBroker(topics={"t": 1}, **options) as broker:
        yield broker


def end_sessions(kafka: EmbeddedBroker) -> None:
    """Advance the broker's clock by the lifetime of a session."""
    kafka.run(lambda cluster: cluster.clock.advance(SESSION.total_seconds()))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_authenticate_in_each_version(kafka: EmbeddedBroker, version: int) -> None:
    with RawClient(kafka.bootstrap_servers) as client:
        assert handshake(client).mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        response = authenticate(client, plain("alice", "secret"), version)
        assert (response.error_code, response.error_message) == (ErrorCode.none, None)
        assert produce(client, "t", bytes(batch())).error_code == 0


@pytest.mark.parametrize("steps", [0, 1])
def test_other_requests_close_the_connection(kafka: EmbeddedBroker, steps: int) -> None:
    before = kafka.end_offsets("t")
    with RawClient(kafka.bootstrap_servers) as client:
        if steps:
            handshake(client)
        client.send(ApiKey.PRODUCE, 9, **produce_values("t", bytes(batch())))
        assert client.closed()
    assert kafka.end_offsets("t") == before


def test_failed_login_is_delayed(kafka: EmbeddedBroker) -> None:
    with RawClient(kafka.bootstrap_servers) as client:
        handshake(client)
        started = time.monotonic()
        response = authenticate(client, plain("alice", "guessed"))
        assert time.monotonic() - started > 0.09
        assert response.error_code is ErrorCode.sasl_authentication_failed


def test_silent_connection_is_closed() -> None:
    with (
        EmbeddedBroker(sasl=USERS, handshake_timeout_ms=300) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert client.closed()


def test_sasl_requests_without_sasl_are_rejected() -> None:
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        assert handshake(client).error_code is ErrorCode.illegal_sasl_state


class TestSessions:
    @pytest.fixture
    def client(self, session_kafka: EmbeddedBroker) -> Iterator[RawClient]:
        with RawClient(session_kafka.bootstrap_servers) as client:
            assert log_in(client).session_lifetime == SESSION
            yield client

    def test_request_after_expiration_closes_the_connection(
        self, session_kafka: EmbeddedBroker, client: RawClient
    ) -> None:
        assert produce(client, "t", bytes(batch())).error_code == 0
        end_sessions(session_kafka)
        client.send(ApiKey.PRODUCE, 9, **produce_values("t", bytes(batch())))
        assert client.closed()

    def test_reauthentication_extends_the_session(
        self, session_kafka: EmbeddedBroker, client: RawClient
    ) -> None:
        end_sessions(session_kafka)
        assert log_in(client).error_code is ErrorCode.none
        assert produce(client, "t", bytes(batch())).error_code == 0

    def test_early_reauthentication_is_rejected(self, client: RawClient) -> None:
        assert log_in(client).error_code is ErrorCode.none
        assert handshake(client).error_code is ErrorCode.illegal_sasl_state

    def test_reauthentication_as_another_user_is_rejected(self, client: RawClient) -> None:
        response = log_in(client, "bob", "hidden")
        assert response.error_code is ErrorCode.sasl_authentication_failed
        assert response.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert client.closed()

    def test_reauthentication_with_another_mechanism_is_rejected(self, client: RawClient) -> None:
        assert handshake(client, "SCRAM-SHA-256").error_code is ErrorCode.none
        client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"n,,n=alice,r=abc")
        assert client.closed()

    def test_reauthentication_with_an_old_password_is_rejected(
        self, session_kafka: EmbeddedBroker
    ) -> None:
        with RawClient(session_kafka.bootstrap_servers) as client:
            session_kafka.set_password("carol", "old")
            log_in(client, "carol", "old")
            session_kafka.set_password("carol", "new")
            handshake(client)
            response = authenticate(client, plain("carol", "old"))
            assert response.error_code is ErrorCode.sasl_authentication_failed
