"""Hostile servers before the login: the client fails within limits of time and memory."""

import base64
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.integration.security.scripted_broker import scripted_broker
from tests.support.producer_writes import produce, rows
from tests.support.servers import listening

FAILURE_LIMIT_S = 30
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_username": "alice",
    "sasl_password": "open sesame",
    "max_block_ms": 2_000,
    "socket_connection_setup_timeout_ms": 500,
}
PLAIN = {**LOGIN, "sasl_mechanism": "PLAIN"}
SCRAM = {**LOGIN, "sasl_mechanism": "SCRAM-SHA-256"}


@contextmanager
def flooding_server(data: bytes) -> Iterator[str]:
    """Run a server that ignores requests and sends `data` repeatedly."""

    def serve(connection: socket.socket) -> None:
        while True:
            connection.sendall(data)

    with listening(serve) as address:
        yield address


def connection_error(address: str, options: dict[str, Any]) -> KafkaProdError:
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        produce(address, rows("t", [b"a"]), **options)
    assert time.monotonic() - started < FAILURE_LIMIT_S
    return caught.value


@pytest.mark.parametrize("options", [PLAIN, {"max_block_ms": 2_000}], ids=["sasl", "plain"])
@pytest.mark.parametrize("size", [512 * 1024 + 1, 100 << 20, (1 << 31) - 1])
def test_oversized_frame_during_handshake(size: int, options: dict[str, Any]) -> None:
    with flooding_server(size.to_bytes(4, "big") + bytes(60_000)) as address:
        error = connection_error(address, options)
    assert f"a frame has {size:,} bytes, but the limit is 524,288" in str(error)


def test_frame_that_never_completes() -> None:
    size = (400_000).to_bytes(4, "big")
    with listening(lambda connection: trickle(connection, size)) as address:
        assert "timeout while waiting for the response to ApiVersions" in str(
            connection_error(address, PLAIN)
        )


def test_tls_handshake_that_never_completes() -> None:
    """The server sends a handshake record byte by byte."""
    options = {"security_protocol": "SSL", **{name: PLAIN[name] for name in list(PLAIN)[3:5]}}
    with listening(lambda connection: trickle(connection, b"\x16\x03\x03\x40\x00")) as address:
        assert "timeout during the TLS handshake" in str(connection_error(address, options))


def trickle(connection: socket.socket, start: bytes) -> None:
    connection.sendall(start)
    while True:
        connection.sendall(b"\0")
        time.sleep(0.02)


def test_unsolicited_frames_close_the_connection() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with flooding_server((4).to_bytes(4, "big") + bytes(4)) as address:
        assert "the broker's responses are out of order" in str(connection_error(address, PLAIN))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def server_first(nonce: str, iterations: int) -> bytes:
    salt = base64.b64encode(b"salt").decode()
    return f"r={nonce},s={salt},i={iterations}".encode()


def scram_server(
    nonce: Callable[[str], str], iterations: int = 4096, final: bytes = b"v=AAAA"
) -> Callable[[socket.socket], None]:
    """Return a broker with the given server nonce and final message."""

    def respond(api: ApiKey, request: Any) -> dict[str, Any]:
        if api is ApiKey.SASL_HANDSHAKE:
            return {"mechanisms": ["SCRAM-SHA-256"]}
        message = bytes(request.auth_bytes).decode()
        if message.startswith("n,,"):
            return {"auth_bytes": server_first(nonce(message.split("r=")[1]), iterations)}
        return {"auth_bytes": final}

    return scripted_broker(respond)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (scram_server(lambda nonce: nonce + "x"), "signature is wrong"),
        (scram_server(lambda nonce: nonce + "x", final=b""), "SCRAM-SHA-256"),
        (scram_server(lambda nonce: nonce + "x", final=b"e=other-error"), "other-error"),
        (scram_server(lambda _: "another"), "nonce"),
        (scram_server(lambda nonce: nonce + "x", iterations=1), "iteration"),
        (scram_server(lambda nonce: nonce + "x", iterations=1 << 40), "iteration"),
    ],
    ids=["bad proof", "no proof", "error", "other nonce", "few iterations", "many iterations"],
)
def test_broker_without_the_password(
    server: Callable[[socket.socket], None], expected: str
) -> None:
    with listening(server) as address:
        error = connection_error(address, SCRAM)
    assert isinstance(error, AuthenticationError)
    assert expected in str(error)
    assert f"broker={address}" in str(error)
    assert "open sesame" not in str(error)


def test_login_that_never_completes() -> None:
    """The broker responds to the proof with its first message, repeatedly."""
    first: list[bytes] = []

    def respond(api: ApiKey, request: Any) -> dict[str, Any]:
        if api is ApiKey.SASL_HANDSHAKE:
            return {"mechanisms": ["SCRAM-SHA-256"]}
        if not first:
            nonce = bytes(request.auth_bytes).decode().split("r=")[1]
            first.append(server_first(nonce + "x", 4096))
        return {"auth_bytes": first[0]}

    with listening(scripted_broker(respond)) as address:
        assert isinstance(connection_error(address, SCRAM), AuthenticationError)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.unknown_server_error,
        ErrorCode.unsupported_sasl_mechanism,
        ErrorCode.illegal_sasl_state,
        ErrorCode.unsupported_version,
        ErrorCode.sasl_authentication_failed,
        29_999,
    ],
)
def test_error_code_in_handshake(code: int) -> None:
    with listening(scripted_broker(lambda *_: code.to_bytes(2, "big", signed=True))) as address:
        assert address in str(connection_error(address, PLAIN))
