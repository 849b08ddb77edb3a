"""A TCP proxy for Redis that can drop requests and responses."""

import contextlib
import socket
import threading
from enum import Enum, auto
from typing import Self


class Loss(Enum):
    """What is lost of the next request with the trigger; the connection is closed afterwards."""

    RESPONSE = auto()
    REQUEST = auto()
    LATE_REQUEST = auto()
    """Redis receives the request when the test calls `deliver`."""


class RedisProxy:
    """A proxy on its own port; set `lose` at any time to affect one request.

    Only requests that contain `trigger` are affected; by default those that write a batch.
    """

    trigger = b"XADD"

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.lose: Loss | None = None
        self._sockets: list[socket.socket] = []
        self._late: tuple[socket.socket, bytes] | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for endpoint in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                endpoint.shutdown(socket.SHUT_RDWR)
            endpoint.close()

    def url(self, prefix: str) -> str:
        return f"redis://127.0.0.1:{self.port}/0?prefix={prefix}"

    def deliver(self) -> None:
        """Send the late request to Redis and read the response."""
        assert self._late is not None
        server, data = self._late
        with contextlib.suppress(ConnectionError):  # Redis may have closed the connection
            server.sendall(data)
            server.recv(1 << 20)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += (client, server)
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """Forward requests; each request and response fits into one `recv` call."""
        with contextlib.suppress(OSError), client:
            while data := client.recv(1 << 20):
                loss = self.lose if self.trigger in data else None
                if loss is not None:
                    self.lose = None
                if loss is Loss.LATE_REQUEST:
                    self._late = (server, data)
                elif loss is not Loss.REQUEST:
                    server.sendall(data)
                    response = server.recv(1 << 20)
                    if loss is None:
                        client.sendall(response)
                if loss is not None:
                    return
