"""A TCP proxy before Redis that can lose the answer to a transaction, or the transaction itself."""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import Enum, auto
from typing import Self


class Loss(Enum):
    """What happens to the next request with the trigger; the connection ends after it."""

    ANSWER = auto()
    REQUEST = auto()
    LATE_REQUEST = auto()
    """Redis gets it when the test says so: see `deliver`."""


class RedisProxy:
    """Stands on a port of its own; `lose` may be set at any time, for one request.

    `trigger` is in the requests that may be lost: those that write a batch, unless a test says so.
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
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def url(self, prefix: str) -> str:
        return f"redis://127.0.0.1:{self.port}/0?prefix={prefix}"

    def deliver(self) -> None:
        """Let Redis have the late request now, and read its answer."""
        assert self._late is not None
        server, data = self._late
        with contextlib.suppress(ConnectionError):  # Redis may have closed it
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
        """Requests are small here: each arrives in one piece, and so does its answer."""
        with contextlib.suppress(OSError), client:
            while data := client.recv(1 << 20):
                loss = self.lose if self.trigger in data else None
                if loss is not None:
                    self.lose = None
                if loss is Loss.LATE_REQUEST:
                    self._late = (server, data)
                elif loss is not Loss.REQUEST:
                    server.sendall(data)
                    answer = server.recv(1 << 20)
                    if loss is None:
                        client.sendall(answer)
                if loss is not None:
                    return
