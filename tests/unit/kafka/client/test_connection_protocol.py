"""The protocol and the login of one connection, byte by byte and without a socket."""

import struct
from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from math import inf
from random import Random
from typing import Any

import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.security.security_config import Mechanism
from spark_kafka_sink.kafka.client.channel.authenticator import SaslLogin
from spark_kafka_sink.kafka.client.channel.channel_state import NEXT_STATES, ChannelState
from spark_kafka_sink.kafka.client.connection_protocol import (
    MAX_HANDSHAKE_FRAME,
    ConnectionProtocol,
    CorrelationError,
)
from spark_kafka_sink.kafka.client.request import Request
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.frame import FrameReader
from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.messages import build, read_request_header
from spark_kafka_sink.kafka.protocol.transactions import TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import (
    ApiKey,
    VersionRange,
    request_type,
    response_type,
)
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from tools.support.frames import response_frame

NOW = 100.0
METADATA = {"brokers": [{"node_id": 1, "host": "h", "port": 9}], "topics": []}
UNREADABLE = bytes.fromhex("0023 01 0012 0000 0002 00 00000000")
"""The body that librdkafka's mock broker sends with UNSUPPORTED_VERSION."""


def reply(api: ApiKey, version: int, correlation_id: int, values: dict[str, Any]) -> bytes:
    return response_frame(build(response_type(api, version), values), correlation_id)


def ranges_of(**ranges: tuple[int, int]) -> list[dict[str, int]]:
    return [
        {"api_key": int(ApiKey[name.upper()]), "min_version": low, "max_version": high}
        for name, (low, high) in ranges.items()
    ]


def versions(correlation_id: int, version: int = 4, **ranges: tuple[int, int]) -> bytes:
    keys = ranges_of(**ranges)
    return reply(ApiKey.API_VERSIONS, version, correlation_id, {"api_keys": keys})


def rejection(correlation_id: int, highest: int | None) -> bytes:
    keys = [{"api_key": 18, "min_version": 0, "max_version": highest}]
    values = {
        "error_code": ErrorCode.unsupported_version,
        "api_keys": [] if highest is None else keys,
    }
    return reply(ApiKey.API_VERSIONS, 0, correlation_id, values)


def queued(connection: ConnectionProtocol) -> bytes:
    return b"".join(map(bytes, connection.send_queue))


def written(connection: ConnectionProtocol) -> list[tuple[ApiKey, int, int]]:
    """Take the queued requests as (api, version, correlation id)."""
    data = queued(connection)
    connection.record_written(len(data))
    assert not connection.send_queue
    headers = [read_request_header(frame) for frame in FrameReader().feed(data)]
    return [(ApiKey(h.api_key), h.version, h.correlation_id) for h in headers]


def connecting() -> ConnectionProtocol:
    connection = ConnectionProtocol("me")
    connection.change_state(ChannelState.CONNECTING)
    connection.start_handshake(1.0)
    return connection


def ready() -> ConnectionProtocol:
    connection = connecting()
    written(connection)
    assert list(connection.receive_data(versions(1, produce=(3, 9), metadata=(0, 5)), 1.0)) == []
    assert connection.state is ChannelState.READY
    return connection


def metadata_request(context: object = "mine") -> Request:
    return Request(api=ApiKey.METADATA, version=5, body=[b"\0\0\0\0\0"], context=context)


def test_rejection_in_another_format_is_followed_by_version_0() -> None:
    connection = connecting()
    written(connection)
    body = struct.pack(">i", 1) + UNREADABLE
    assert list(connection.receive_data(struct.pack(">i", len(body)) + body, 1.0)) == []
    assert written(connection) == [(ApiKey.API_VERSIONS, 0, 2)]


def test_versions_are_requested_first() -> None:
    data = queued(connecting())
    (frame,) = FrameReader().feed(data)
    header = read_request_header(frame)
    request, _ = decode(request_type(18, 4), frame, header.body_offset)
    assert (header.version, header.client_id) == (4, "me")
    assert request.client_software_name == "spark-kafka-sink"


def test_feature_level_of_the_cluster() -> None:
    level = {"name": "transaction.version", "max_version_level": 2, "min_version_level": 2}
    values = {
        "api_keys": ranges_of(produce=(3, 13), metadata=(0, 13), end_txn=(0, 5)),
        "finalized_features": [level],
        "finalized_features_epoch": 4,
    }
    connection = connecting()
    before = connection.versions.transaction_version
    answer = reply(ApiKey.API_VERSIONS, 4, 1, values)
    assert list(connection.receive_data(answer, 1.0)) == []
    assert connection.versions.feature_levels["transaction.version"] == 2
    after = connection.versions.transaction_version
    assert (before, after) == (TransactionVersion.V1, TransactionVersion.V2)


def test_highest_common_versions_are_used() -> None:
    connection = ready()
    assert connection.versions.ranges[ApiKey.PRODUCE] == VersionRange(3, 9)
    assert connection.versions.latest_usable(ApiKey.PRODUCE) == 9
    assert connection.versions.latest_usable(ApiKey.PRODUCE, max_version=8) == 8
    with pytest.raises(ProtocolError) as caught:
        connection.versions.latest_usable(ApiKey.INIT_PRODUCER_ID)
    assert caught.value.kafka_error == "UNSUPPORTED_VERSION"


@pytest.mark.parametrize(("highest", "retried"), [(2, 2), (0, 0), (None, 0), (9, 3), (-5, 0)])
def test_older_broker_gets_an_older_version(highest: int | None, retried: int) -> None:
    connection = connecting()
    written(connection)
    assert list(connection.receive_data(rejection(1, highest), 1.0)) == []
    assert written(connection) == [(ApiKey.API_VERSIONS, retried, 2)]
    answer = versions(2, retried, produce=(3, 7), metadata=(0, 5))
    assert list(connection.receive_data(answer, 1.0)) == []
    assert connection.state is ChannelState.READY


@pytest.mark.parametrize(
    "ranges", [{"api_versions": (0, 4)}, {"metadata": (500, 600)}, {"metadata": (5, 4)}]
)
def test_server_without_metadata_is_not_a_broker(ranges: dict[str, Any]) -> None:
    connection = connecting()
    with pytest.raises(ProtocolError, match="METADATA"):
        list(connection.receive_data(versions(1, **ranges), 1.0))


def test_broker_that_rejects_version_0_is_an_error() -> None:
    connection = connecting()
    list(connection.receive_data(rejection(1, 0), 1.0))
    with pytest.raises(ProtocolError, match="ApiVersions with UNSUPPORTED_VERSION"):
        list(connection.receive_data(rejection(2, 0), 1.0))


@pytest.mark.parametrize("piece", [1, 3, 1_000])
def test_responses_arrive_in_any_chunks_and_in_order(piece: int) -> None:
    connection = ready()
    for context in "ab":
        connection.enqueue(metadata_request(context), 2.0)
    assert [version for _, version, _ in written(connection)] == [5, 5]
    data = b"".join(reply(ApiKey.METADATA, 5, number, METADATA) for number in (2, 3))
    responses = []
    for at in range(0, len(data), piece):
        responses += list(connection.receive_data(data[at : at + piece], 3.0))
    assert [(flight.request.context, r.brokers[0].host) for flight, r in responses] == [
        ("a", "h"),
        ("b", "h"),
    ]
    assert connection.oldest_request_sent_at() is None


@pytest.mark.parametrize(
    "data", [reply(ApiKey.METADATA, 5, 77, METADATA), reply(ApiKey.METADATA, 5, 2, METADATA)[:10]]
)
def test_request_with_invalid_response_stays_in_flight(data: bytes) -> None:
    connection = ready()
    connection.enqueue(metadata_request(), 2.0)
    broken = (len(data) - 4).to_bytes(4, "big") + data[4:]
    with pytest.raises(ProtocolError):
        list(connection.receive_data(broken, 3.0))
    assert [flight.request.context for flight in connection.in_flight] == ["mine"]


def test_responses_before_an_invalid_one_count() -> None:
    connection = ready()
    for context in "ab":
        connection.enqueue(metadata_request(context), 2.0)
    data = reply(ApiKey.METADATA, 5, 2, METADATA) + reply(ApiKey.METADATA, 5, 99, METADATA)
    answers = connection.receive_data(data, 3.0)
    assert next(answers)[0].request.context == "a"
    with pytest.raises(CorrelationError, match="out of order"):
        next(answers)
    assert [flight.request.context for flight in connection.in_flight] == ["b"]


def test_response_without_request() -> None:
    with pytest.raises(CorrelationError, match="without a request"):
        list(ready().receive_data(reply(ApiKey.METADATA, 5, 2, METADATA), 1.0))


def test_partial_writes_keep_the_rest() -> None:
    connection = ready()
    connection.enqueue(metadata_request(), 2.0)
    whole = queued(connection)
    for size in range(1, len(whole)):
        connection.record_written(1)
        assert queued(connection) == whole[size:]
    connection.record_written(1)
    assert not connection.send_queue


@pytest.mark.parametrize("answered", [True, False])
def test_request_is_written_with_its_last_byte(answered: bool) -> None:
    connection = ready()
    requests = [replace(metadata_request(), expects_response=answered) for _ in range(2)]
    first, second = [connection.enqueue(request, 2.0) for request in requests]
    size = sum(part.nbytes for part in connection.send_queue) // 2
    connection.record_written(size - 1)
    assert not connection.has_written(first)
    assert connection.take_fire_and_forget() == []
    connection.record_written(1)
    assert (connection.has_written(first), connection.has_written(second)) == (True, False)
    assert connection.take_fire_and_forget() == ([] if answered else [first])
    connection.record_written(size)
    assert connection.has_written(second)
    assert connection.take_fire_and_forget() == ([] if answered else [second])


def test_request_without_response_is_complete_when_written() -> None:
    connection = ready()
    silent = Request(
        api=ApiKey.PRODUCE, version=9, body=[b"x" * 9], context=1, expects_response=False
    )
    connection.enqueue(silent, 2.0)
    assert connection.take_fire_and_forget() == []
    written(connection)
    assert [flight.request.context for flight in connection.take_fire_and_forget()] == [1]
    assert connection.take_fire_and_forget() == []


@pytest.mark.parametrize(
    "state", [ChannelState.READY, ChannelState.NEGOTIATING, ChannelState.DISCONNECTED]
)
def test_only_listed_state_transitions(state: ChannelState) -> None:
    assert set(NEXT_STATES) == set(ChannelState)
    with pytest.raises(AssertionError):
        ConnectionProtocol("me").change_state(state)


def two_messages() -> SaslExchange:
    """Return an exchange with one challenge."""

    def messages() -> Generator[bytes, bytes, None]:
        yield b"name"
        yield b"proof"

    return SaslExchange("SCRAM-SHA-256", messages())


def sasl_versions() -> bytes:
    return versions(1, metadata=(0, 5), sasl_handshake=(0, 1), sasl_authenticate=(0, 1))


def authenticated(number: int, lifetime: timedelta | None = None) -> bytes:
    values = {"auth_bytes": b"challenge"} | ({"session_lifetime": lifetime} if lifetime else {})
    return reply(ApiKey.SASL_AUTHENTICATE, 1, number, values)


def feed(connection: ConnectionProtocol, data: bytes) -> None:
    """Feed the data byte by byte and check that no responses reach the sender."""
    for at in range(len(data)):
        assert list(connection.receive_data(data[at : at + 1], NOW)) == []


def state_of(connection: ConnectionProtocol) -> ChannelState:
    """Read the state again, so that type checkers do not narrow it."""
    return connection.state


def complete_step(connection: ConnectionProtocol) -> None:
    step = connection.take_step()
    assert step is not None
    assert connection.take_step() is None
    connection.resume_login(step(), NOW)


def negotiating(seed: int = 1) -> ConnectionProtocol:
    login = SaslLogin(Mechanism.SCRAM_SHA_256, two_messages)
    connection = ConnectionProtocol("me", login, Random(seed))
    connection.change_state(ChannelState.CONNECTING)
    connection.start_handshake(NOW)
    assert written(connection) == [(ApiKey.API_VERSIONS, 4, 1)]
    return connection


def log_in(connection: ConnectionProtocol, lifetime: timedelta | None = None) -> None:
    """Go from the state after ApiVersions to READY."""
    complete_step(connection)
    ((api, _, number),) = written(connection)
    assert api is ApiKey.SASL_HANDSHAKE
    feed(connection, reply(ApiKey.SASL_HANDSHAKE, 1, number, {"mechanisms": []}))
    assert state_of(connection) is ChannelState.AUTHENTICATING
    for _ in range(2):
        ((api, _, number),) = written(connection)
        assert api is ApiKey.SASL_AUTHENTICATE
        feed(connection, authenticated(number, lifetime))
        assert state_of(connection) is ChannelState.AUTHENTICATING
        complete_step(connection)
    assert state_of(connection) is ChannelState.READY


def test_every_login_state_byte_by_byte() -> None:
    connection = negotiating()
    feed(connection, sasl_versions())
    assert state_of(connection) is ChannelState.SASL_HANDSHAKE
    assert not connection.send_queue  # a thread creates the first message
    log_in(connection)
    assert connection.login_due == inf
    assert not connection.has_responded
    assert connection.oldest_request_sent_at() is None


def test_login_is_due_before_the_session_ends() -> None:
    due = set()
    for seed in range(50):
        connection = negotiating(seed)
        feed(connection, sasl_versions())
        log_in(connection, timedelta(seconds=100))
        assert connection.login_due < inf
        due.add(connection.login_due - NOW)
    assert 85 <= min(due) < 87
    assert 93 < max(due) <= 95


def test_large_frames_are_accepted_only_after_login() -> None:
    large = (MAX_HANDSHAKE_FRAME + 1).to_bytes(4, "big")
    connection = negotiating()
    with pytest.raises(ProtocolError, match="524,288"):
        list(connection.receive_data(large, NOW))
    connection = negotiating()
    feed(connection, sasl_versions())
    with pytest.raises(ProtocolError) as caught:
        list(connection.receive_data(large, NOW))
    assert caught.value.hint == "Check that this is the address of a Kafka broker."
    connection = negotiating()
    feed(connection, sasl_versions())
    log_in(connection)
    assert list(connection.receive_data(large, NOW)) == []


def test_response_during_a_step_is_an_error() -> None:
    connection = negotiating()
    feed(connection, sasl_versions())
    with pytest.raises(CorrelationError):
        list(connection.receive_data(authenticated(2), NOW))
