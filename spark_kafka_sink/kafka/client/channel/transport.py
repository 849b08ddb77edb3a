"""One non-blocking TCP socket, the resolution of host names, and the states of a connection.

    DISCONNECTED -> [LOADING_STORES] -> [RESOLVING] -> CONNECTING -> [TLS_HANDSHAKE]
        -> NEGOTIATING (ApiVersions) -> [SASL_HANDSHAKE -> AUTHENTICATING] -> READY

Before a SASL session expires, the connection authenticates again (KIP-368):

    READY -> DRAINING -> SASL_HANDSHAKE -> AUTHENTICATING -> READY

Source: ``ConnectionState``, ``ChannelState``, ``SaslClientAuthenticator.SaslState``, KIP-302
(use_all_dns_ips), ``ClientUtils.resolve``.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    Connect = Callable[["Address", int, int], "Transport"]
    """Function that starts to connect, given an address and the buffer sizes in bytes."""


Address = tuple[int, tuple[Any, ...]]
"""An address family, and the argument of `socket.connect` for it."""

RECEIVE_SIZE = 64 * 1024
MAX_BUFFERS = 1024
"""Maximum buffers per sendmsg (IOV_MAX)."""


class ChannelState(Enum):
    """The state of a connection."""

    DISCONNECTED = auto()
    LOADING_STORES = auto()
    """The truststore and the keystore are reloaded if their files have changed."""
    RESOLVING = auto()
    CONNECTING = auto()
    TLS_HANDSHAKE = auto()
    NEGOTIATING = auto()
    SASL_HANDSHAKE = auto()
    """The mechanism's first message is created; SaslHandshake then negotiates the mechanism."""
    AUTHENTICATING = auto()
    """The mechanism's messages are exchanged in SaslAuthenticate requests."""
    READY = auto()
    DRAINING = auto()
    """No new requests are sent; after the responses to the requests in flight, the connection logs
    in again.
    """


_STATE = ChannelState
NEXT_STATES: dict[ChannelState, frozenset[ChannelState]] = {
    _STATE.DISCONNECTED: frozenset({_STATE.LOADING_STORES, _STATE.RESOLVING, _STATE.CONNECTING}),
    _STATE.LOADING_STORES: frozenset({_STATE.RESOLVING, _STATE.CONNECTING}),
    _STATE.RESOLVING: frozenset({_STATE.CONNECTING}),
    _STATE.CONNECTING: frozenset({_STATE.TLS_HANDSHAKE, _STATE.NEGOTIATING}),
    _STATE.TLS_HANDSHAKE: frozenset({_STATE.NEGOTIATING}),
    _STATE.NEGOTIATING: frozenset({_STATE.SASL_HANDSHAKE, _STATE.READY}),
    _STATE.SASL_HANDSHAKE: frozenset({_STATE.AUTHENTICATING}),
    _STATE.AUTHENTICATING: frozenset({_STATE.READY}),
    _STATE.READY: frozenset({_STATE.DRAINING}),
    _STATE.DRAINING: frozenset({_STATE.SASL_HANDSHAKE}),
}
"""A closed connection is replaced by a new one, which is DISCONNECTED."""

OPENING = frozenset(ChannelState) - {_STATE.DISCONNECTED, _STATE.READY, _STATE.DRAINING}
"""States of a connection attempt, before READY."""


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


def resolve(host: str, port: int, flags: int = 0) -> list[Address]:
    """Return all addresses of a name (blocks); raise OSError if it has no address."""
    if not 0 < port < 65536:
        raise OSError(f"{port} is not a valid port")
    name: str | bytes = host.strip("[]")
    if host.isascii() and host.isprintable():  # For a str, Python would load the IDNA tables.
        name = host.strip("[]").encode("ascii")
    try:
        entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags)
    # A label is too long, or the name contains a NUL. Brokers can return any name.
    except ValueError as error:
        raise OSError(f"{host!r} is not a valid host name: {error}") from error
    return list(dict.fromkeys((int(entry[0]), entry[4]) for entry in entries))


def literal(host: str, port: int) -> list[Address] | None:
    """Return the address if the host is an IP address, or None for a name; does not block.

    Raises:
        OSError: host or port is invalid.
    """
    try:
        return resolve(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return None
