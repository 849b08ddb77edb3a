"""The listening sockets of all nodes."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BACKLOG = 512
"""Maximum number of connections that wait to be accepted."""
_ACCEPT_PAUSE_S = 0.2
"""Seconds without accepting connections after file descriptors have run out."""
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of accept after which the node pauses."""


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket at the first address of the host that this machine has, IPv4 first.

    Raises:
        OSError: the port is in use, or the host is not an address of this machine.
    """
    addresses = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    *others, last = sorted(addresses, key=lambda address: address[0] != socket.AF_INET)
    for family, *_, address in others:
        try:
            return _listen_at(address, family)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return _listen_at(last[4], last[0])


def _listen_at(address: tuple[Any, ...], family: int) -> socket.socket:
    listener = socket.create_server(
        address,
        family=family,
        backlog=_BACKLOG,
        # `::` is also the wildcard of IPv4, by which clients on this machine connect.
        dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6(),
    )
    listener.setblocking(False)
    return listener


@dataclass(slots=True, eq=False)
class Listeners:
    """The listening sockets by node id, which a selector monitors."""

    _selector: selectors.BaseSelector
    _sockets: dict[int, socket.socket]
    """Open, non-blocking sockets."""
    _addresses: Mapping[int, tuple[str, int]]
    """Host and port by node id, used to listen again when a node restarts."""
    _paused_until: dict[int, float] = field(default_factory=dict, init=False)
    """Monotonic times until which nodes accept no connections, after resources have run out."""
    _muted: set[int] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        for node in self._sockets:
            self._monitor(node)

    def accept(self, node: int) -> tuple[socket.socket, str] | None:
        """Return a new connection and the client's host, or None if the node is closed.

        If file descriptors have run out, the node accepts no connections for a while.

        Raises:
            OSError: the connection cannot be accepted.
        """
        listener = self._sockets.get(node)
        if listener is None:
            return None
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in _OUT_OF_RESOURCES:
                self._selector.unregister(listener)
                self._paused_until[node] = time.monotonic() + _ACCEPT_PAUSE_S
            raise
        return client, address[0]

    def resume_paused(self) -> None:
        """Accept connections again where the pause is over."""
        paused = self._paused_until.items()
        for node in [node for node, until in paused if until <= time.monotonic()]:
            del self._paused_until[node]
            self._monitor(node)

    def is_muted(self, node: int) -> bool:
        """Return True if a node does not read or write."""
        return node in self._muted

    def open(self, node: int) -> None:
        """Listen on the node's address."""
        self._sockets[node] = listen(*self._addresses[node])
        self._monitor(node)

    def close(self, node: int) -> None:
        """Stop listening."""
        if node not in self._muted:
            self._stop_monitoring(node)
        self._muted.discard(node)
        self._sockets.pop(node).close()

    def mute(self, node: int) -> None:
        """Stop accepting connections, which then wait in the listener's backlog."""
        self._muted.add(node)
        self._stop_monitoring(node)

    def unmute(self, node: int) -> None:
        """Accept connections again."""
        self._muted.discard(node)
        self._monitor(node)

    def close_all(self) -> None:
        """Close all listening sockets."""
        for listener in self._sockets.values():
            listener.close()

    def _monitor(self, node: int) -> None:
        self._selector.register(self._sockets[node], selectors.EVENT_READ, node)

    def _stop_monitoring(self, node: int) -> None:
        if self._paused_until.pop(node, None) is None:
            self._selector.unregister(self._sockets[node])
