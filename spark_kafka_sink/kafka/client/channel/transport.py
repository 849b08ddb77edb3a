"""A non-blocking socket: the interface, and the implementation for TCP.

Source: ``TransportLayer``, ``PlaintextTransportLayer``.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.kafka.client.channel.host_names import Address

    Connect = Callable[[Address, int, int], "Transport"]
    """Function that starts to connect, given an address and the buffer sizes in bytes."""

RECEIVE_SIZE = 64 * 1024
MAX_BUFFERS = 1024
"""Maximum buffers per sendmsg (IOV_MAX)."""


class Transport(Protocol):
    """A non-blocking socket, with or without TLS. A lost connection raises OSError."""

    def fileno(self) -> int:
        """Return the descriptor for the selector."""

    @property
    def unsent(self) -> bool:
        """True if the transport has unsent bytes of its own, which `write` sends first."""

    @property
    def wants_read(self) -> bool:
        """True if `write` cannot accept bytes before more bytes are received and read."""

    @property
    def cipher(self) -> str:
        """TLS version and cipher, such as "TLSv1.3 TLS_AES_256_GCM_SHA384", or "" without TLS."""

    def finish_connect(self) -> bool:
        """Return True once connected; raise OSError if the connection was refused."""

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Write as much as the socket accepts; return the number of bytes."""

    def read(self) -> bytes | None:
        """Return received bytes, None if no bytes are available, or b"" at the end of stream."""

    def close(self) -> None:
        """Close the socket."""


class TcpTransport:
    """A TCP socket. The buffer sizes are in bytes; -1 is the system's default."""

    unsent = False
    wants_read = False
    cipher = ""

    def __init__(self, address: Address, send_buffer: int, receive_buffer: int) -> None:
        family, target = address
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._emptied = False
        """True if the last read emptied the socket, so that the next read needs no system call."""
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if send_buffer >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        if receive_buffer >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        code = self._socket.connect_ex(target)
        if code not in {0, errno.EINPROGRESS, errno.EWOULDBLOCK}:
            self._socket.close()
            raise OSError(code, os.strerror(code))

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def finish_connect(self) -> bool:
        """Return True once connected; raise OSError if the connection was refused."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers with one system call."""
        try:
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0

    def read(self) -> bytes | None:
        """Return at most RECEIVE_SIZE received bytes."""
        if self._emptied:
            self._emptied = False
            return None
        try:
            data = self._socket.recv(RECEIVE_SIZE)
        except BlockingIOError:
            return None
        self._emptied = 0 < len(data) < RECEIVE_SIZE
        return data

    def close(self) -> None:
        """Close the socket; unsent bytes are lost."""
        with suppress(OSError):
            self._socket.close()
