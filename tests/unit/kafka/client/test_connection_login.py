"""The states of a connection during login, byte by byte."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.security.security_config import Mechanism
from spark_kafka_sink.kafka.client.channel.authenticator import SaslLogin
from spark_kafka_sink.kafka.client.channel.transport import NEXT_STATES, State
from spark_kafka_sink.kafka.client.connection import (
    MAX_HANDSHAKE_FRAME,
    Connection,
    CorrelationError,
)
from spark_kafka_sink.kafka.protocol.frame import FrameReader
from spark_kafka_sink.kafka.protocol.messages import build, read_request_header, response_frame
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.security.sasl.exchange import Messages

NOW = 100.0


def two_messages() -> SaslExchange:
    """Return an exchange with one challenge."""

    def messages() -> Messages:
        yield b"name"
        yield b"proof"

    return SaslExchange("SCRAM-SHA-256", messages())


def reply(api: ApiKey, version: int, number: int, values: dict[str, Any]) -> bytes:
    return response_frame(build(response_type(api, version), values), number)


def versions(number: int) -> bytes:
    ranges = {ApiKey.METADATA: 5, ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 1}
    keys = [
        {"api_key": int(api), "min_version": 0, "max_version": highest}
        for api, highest in ranges.items()
    ]
    return reply(ApiKey.API_VERSIONS, 4, number, {"api_keys": keys})


def authenticated(number: int, lifetime: timedelta | None = None) -> bytes:
    told = {"auth_bytes": b"challenge"} | ({"session_lifetime": lifetime} if lifetime else {})
    return reply(ApiKey.SASL_AUTHENTICATE, 1, number, told)


def sent(connection: Connection) -> list[tuple[ApiKey, int]]:
    """Take the queued requests as (API, correlation id)."""
    data = b"".join(bytes(part) for part in connection.out)
    connection.wrote(len(data))
    headers = [read_request_header(frame) for frame in FrameReader().feed(data)]
    return [(ApiKey(header.api_key), header.correlation_id) for header in headers]


def feed(connection: Connection, data: bytes) -> None:
    """Feed the data byte by byte and check that no responses reach the sender."""
    for at in range(len(data)):
        assert list(connection.received(data[at : at + 1], NOW)) == []


def state_of(connection: Connection) -> State:
    """Read the state anew, so that type checkers do not narrow it."""
    return connection.state


def complete_step(connection: Connection) -> None:
    step = connection.take_step()
    assert step is not None
    assert connection.take_step() is None
    connection.resume_login(step(), NOW)


def negotiating() -> Connection:
    login = SaslLogin(Mechanism.SCRAM_SHA_256, two_messages)
    connection = Connection("me", login, Random(1))
    connection.move(State.CONNECTING)
    connection.start_handshake(NOW)
    assert sent(connection) == [(ApiKey.API_VERSIONS, 1)]
    return connection


def log_in(connection: Connection, lifetime: timedelta | None = None) -> None:
    """Go from the state after ApiVersions to READY."""
    complete_step(connection)
    ((api, number),) = sent(connection)
    assert api is ApiKey.SASL_HANDSHAKE
    feed(connection, reply(ApiKey.SASL_HANDSHAKE, 1, number, {"mechanisms": []}))
    assert state_of(connection) is State.AUTHENTICATING
    for _ in range(2):
        ((api, number),) = sent(connection)
        assert api is ApiKey.SASL_AUTHENTICATE
        feed(connection, authenticated(number, lifetime))
        assert state_of(connection) is State.AUTHENTICATING
        complete_step(connection)
    assert state_of(connection) is State.READY


def test_every_login_state_byte_by_byte() -> None:
    connection = negotiating()
    feed(connection, versions(1))
    assert state_of(connection) is State.SASL_HANDSHAKE
    assert not connection.out  # a thread creates the first message
    log_in(connection)
    assert connection.login_due is None
    assert not connection.has_answered
    assert connection.oldest_sent() is None


def test_login_is_due_before_the_session_ends() -> None:
    due = set()
    for seed in range(50):
        login = SaslLogin(Mechanism.SCRAM_SHA_256, two_messages)
        connection = Connection("me", login, Random(seed))
        connection.move(State.CONNECTING)
        connection.start_handshake(NOW)
        sent(connection)
        feed(connection, versions(1))
        log_in(connection, timedelta(seconds=100))
        assert connection.login_due is not None
        due.add(connection.login_due - NOW)
    assert 85 <= min(due) < 87
    assert 93 < max(due) <= 95


def test_large_frames_are_accepted_only_after_login() -> None:
    large = (MAX_HANDSHAKE_FRAME + 1).to_bytes(4, "big")
    connection = negotiating()
    with pytest.raises(ProtocolError, match="524,288"):
        list(connection.received(large, NOW))
    connection = negotiating()
    feed(connection, versions(1))
    with pytest.raises(ProtocolError) as caught:
        list(connection.received(large, NOW))
    assert caught.value.hint == "Check that this is the address of a Kafka broker."
    connection = negotiating()
    feed(connection, versions(1))
    log_in(connection)
    assert list(connection.received(large, NOW)) == []


def test_response_during_a_step_is_an_error() -> None:
    connection = negotiating()
    feed(connection, versions(1))
    with pytest.raises(CorrelationError):
        list(connection.received(authenticated(2), NOW))


def test_every_state_can_disconnect_and_other_transitions_are_rejected() -> None:
    for state, following in NEXT_STATES.items():
        assert state is State.DISCONNECTED or State.DISCONNECTED in following
    assert set(NEXT_STATES) == set(State)
    connection = Connection("me")
    with pytest.raises(AssertionError):
        connection.move(State.READY)
