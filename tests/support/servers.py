"""Loopback servers that are not Kafka brokers."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tools.support.kafka_node import free_port

_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"


def closed_port() -> str:
    """Return an address that refuses connections."""
    return f"127.0.0.1:{free_port()}"


@contextmanager
def listening(
    serve: Callable[[socket.socket], None], host: str = "127.0.0.1", port: int = 0
) -> Iterator[str]:
    """Run a server that calls `serve` in a new thread for each connection; yield its address."""
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


def never_respond(connection: socket.socket) -> None:
    """Accept the connection and do nothing."""


def close_on_request(connection: socket.socket) -> None:
    """Close the connection after the first bytes."""
    connection.recv(1000)
    connection.close()


def start_tls(connection: socket.socket) -> None:
    """Start a TLS handshake, which a plaintext client ends before a certificate is needed."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True)


def respond_with_tls_alert(connection: socket.socket) -> None:
    """Respond to plaintext like an SSL listener of a broker, and close the connection."""
    connection.recv(1000)
    connection.sendall(_TLS_ALERT)
    connection.close()


def respond_with_garbage(connection: socket.socket) -> None:
    """Respond with a frame of a valid length and invalid content."""
    connection.recv(1000)
    connection.sendall(b"\x00\x00\x00\x10" + b"\xa5" * 16)


def respond_with_http(connection: socket.socket) -> None:
    """Respond like a web server to an invalid request."""
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    connection.close()
