"""Hostile servers before the login: the client fails within limits of time and memory."""

import socket
import time
from typing import Any

import pytest

from spark_kafka_sink.common.errors import KafkaProdError
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


def connection_error(address: str, options: dict[str, Any]) -> KafkaProdError:
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        produce(address, rows("t", [b"a"]), **options)
    assert time.monotonic() - started < FAILURE_LIMIT_S
    return caught.value


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
