"""Loopback servers that are not Kafka brokers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tools.support.kafka_node import free_port


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


def respond_with_http(connection: socket.socket) -> None:
    """Respond like a web server to an invalid request."""
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    connection.close()
