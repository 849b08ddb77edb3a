"""Servers on loopback that are not the Kafka broker that somebody took them for."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tools.support.kafka_node import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"


def closed_port() -> str:
    """An address that refuses connections."""
    return f"127.0.0.1:{free_port()}"


@contextmanager
def listening(
    serve: Callable[[socket.socket], None], host: str = "127.0.0.1", port: int = 0
) -> Iterator[str]:
    """The address of a server that hands each connection to `serve`, in a thread of its own."""
    with socket.create_server((host, port)) as server:
        thread = threading.Thread(target=_accept, args=(server, serve), daemon=True)
        thread.start()
        yield f"{host}:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def _accept(server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    kept = []
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            kept.append(connection)
            with suppress(OSError):
                serve(connection)
    for connection in kept:
        connection.close()


def say_nothing(connection: socket.socket) -> None:
    """Take the connection, and leave it at that."""


def hang_up(connection: socket.socket) -> None:
    """Close the connection when something arrives."""
    connection.recv(1000)
    connection.close()


def speak_tls(connection: socket.socket) -> None:
    """Begin a TLS handshake; what isn't TLS ends it before a certificate is needed."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True)


def answer_with_tls_alert(connection: socket.socket) -> None:
    """What a broker's SSL listener answers to plain bytes before it hangs up."""
    connection.recv(1000)
    connection.sendall(_TLS_ALERT)
    connection.close()


def answer_with_nonsense(connection: socket.socket) -> None:
    """A frame of a plausible length, whose content is no response."""
    connection.recv(1000)
    connection.sendall(b"\x00\x00\x00\x10" + b"\xa5" * 16)


def answer_as_web(connection: socket.socket) -> None:
    """What a web server answers to what is no request."""
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    connection.close()
