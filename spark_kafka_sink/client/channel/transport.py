"""One non-blocking TCP connection, and the states of a connection.

Where a connection stands, and what may follow.

    DISCONNECTED -> [LOADING_STORES] -> [RESOLVING] -> CONNECTING -> [TLS_HANDSHAKE]
        -> NEGOTIATING (ApiVersions) -> [SASL_HANDSHAKE -> AUTHENTICATING] -> READY -> DISCONNECTED

A session whose end is near is authenticated again on the connection (KIP-368):
READY -> DRAINING -> SASL_HANDSHAKE -> AUTHENTICATING -> READY. Each may end in DISCONNECTED.
Source: ``ConnectionState``, ``ChannelState``, ``SaslClientAuthenticator.SaslState``.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.client.channel.resolver import Address


class State(Enum):
    """Where a connection stands."""

    DISCONNECTED = auto()
    LOADING_STORES = auto()
    """Truststore and keystore are read, where their files have changed."""
    RESOLVING = auto()
    CONNECTING = auto()
    TLS_HANDSHAKE = auto()
    NEGOTIATING = auto()
    SASL_HANDSHAKE = auto()
    """The first message is made, then the mechanism is agreed on."""
    AUTHENTICATING = auto()
    """The mechanism's messages are exchanged, in SaslAuthenticate."""
    READY = auto()
    DRAINING = auto()
    """Nothing new is sent; once what is in flight is answered, the authentication begins anew."""


NEXT_STATES: dict[State, frozenset[State]] = {
    State.DISCONNECTED: frozenset({State.LOADING_STORES, State.RESOLVING, State.CONNECTING}),
    State.LOADING_STORES: frozenset({State.RESOLVING, State.CONNECTING, State.DISCONNECTED}),
    State.RESOLVING: frozenset({State.CONNECTING, State.DISCONNECTED}),
    State.CONNECTING: frozenset({State.TLS_HANDSHAKE, State.NEGOTIATING, State.DISCONNECTED}),
    State.TLS_HANDSHAKE: frozenset({State.NEGOTIATING, State.DISCONNECTED}),
    State.NEGOTIATING: frozenset({State.SASL_HANDSHAKE, State.READY, State.DISCONNECTED}),
    State.SASL_HANDSHAKE: frozenset({State.AUTHENTICATING, State.DISCONNECTED}),
    State.AUTHENTICATING: frozenset({State.READY, State.DISCONNECTED}),
    State.READY: frozenset({State.DRAINING, State.DISCONNECTED}),
    State.DRAINING: frozenset({State.SASL_HANDSHAKE, State.DISCONNECTED}),
}

OPENING = frozenset(
    {
        State.LOADING_STORES,
        State.RESOLVING,
        State.CONNECTING,
        State.TLS_HANDSHAKE,
        State.NEGOTIATING,
        State.SASL_HANDSHAKE,
        State.AUTHENTICATING,
    }
)
"""On the way to READY."""


RECEIVE_SIZE = 64 * 1024
MAX_BUFFERS = 1024
"""Buffers that one sendmsg takes (IOV_MAX)."""


class Transport(Protocol):
    """What a connection needs of a socket; all calls return at once, OSError means it is gone."""

    def fileno(self) -> int:
        """The descriptor to select on."""

    @property
    def unsent(self) -> bool:
        """Whether bytes of the transport's own wait for the socket; `write` sends them first."""

    @property
    def wants_read(self) -> bool:
        """Whether `write` takes nothing before `read` has been called, and more has arrived."""

    @property
    def cipher(self) -> str:
        """What encrypts the bytes, such as "TLSv1.3 TLS_AES_256_GCM_SHA384"; "" for nothing."""

    def finish_connect(self) -> bool:
        """True once connected; raises OSError when the connection was refused."""

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Write what fits; returns the number of bytes taken."""

    def read(self) -> bytes | None:
        """Bytes that have arrived: None if there are none yet, empty at the end of the stream."""

    def close(self) -> None:
        """Close the socket."""


class TcpTransport:
    """A plain socket; `send_buffer` and `receive_buffer` in bytes, -1 leaves them to the system."""

    unsent = False
    wants_read = False
    cipher = ""

    def __init__(self, address: Address, send_buffer: int, receive_buffer: int) -> None:
        family, target = address
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._emptied = False
        """The last read has left nothing, so the next one need not ask the system."""
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
        """The socket's descriptor."""
        return self._socket.fileno()

    def finish_connect(self) -> bool:
        """True once connected; raises OSError when the connection was refused."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Gather the buffers into one system call."""
        try:
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0

    def read(self) -> bytes | None:
        """At most RECEIVE_SIZE bytes."""
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
        """Close the socket; what it still held is lost."""
        with suppress(OSError):
            self._socket.close()
