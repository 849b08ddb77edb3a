"""Two relays with their encrypted sides together: bytes and ends come through, both ways."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from tools.support.certificates import CertificateAuthority
from tools.torture.proxy import TlsRelay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """The plain sides of a client's and a server's relay."""
    authority = CertificateAuthority()
    trusting = ssl.create_default_context(cafile=str(authority.write(tmp_path)))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(authority.server("localhost").write(tmp_path))
    ours, theirs = socket.socketpair()
    client = TlsRelay(ours, trusting, "localhost").plain
    server = TlsRelay(theirs, serving).plain
    for end in (client, server):
        end.settimeout(10)
    with client, server:
        yield client, server


def _read_to_the_end(end: socket.socket) -> bytes:
    data = bytearray()
    while chunk := end.recv(65_536):
        data += chunk
    return bytes(data)


def test_what_is_written_comes_out_on_the_other_side(ends: Ends) -> None:
    client, server = ends
    client.sendall(b"asked")
    assert server.recv(100) == b"asked"
    server.sendall(b"answered")
    assert client.recv(100) == b"answered"


def test_a_side_that_is_shut_can_still_read(ends: Ends) -> None:
    client, server = ends
    sent = b"x" * 100_000
    client.sendall(sent)
    client.shutdown(socket.SHUT_WR)
    assert _read_to_the_end(server) == sent
    server.sendall(b"still here")
    server.shutdown(socket.SHUT_WR)
    assert _read_to_the_end(client) == b"still here"


def test_a_peer_without_tls_ends_the_connection(tmp_path: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(CertificateAuthority().server("localhost").write(tmp_path))
    ours, theirs = socket.socketpair()
    with TlsRelay(theirs, serving).plain as plain, ours:
        plain.settimeout(10)
        ours.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert plain.recv(100) == b""
