"""Resolve host names to addresses outside the sender thread.

Each name is resolved on a separate daemon thread. In a thread pool, a few unanswered lookups would
block all other lookups, and the pool's threads would prevent the process from exiting. Source:
KIP-302 (use_all_dns_ips), ``ClientUtils.resolve``.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    LookUp = Callable[[str, int], list["Address"]]

Address = tuple[int, tuple[Any, ...]]
"""An address family, and the argument of `socket.connect` for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The result of a DNS lookup: addresses in the order to try, or the error."""

    host: str
    port: int
    addresses: list[Address] = field(default_factory=list)
    error: OSError | None = None


class Resolver(Protocol):
    """Resolves names. Both methods return immediately."""

    def ask(self, host: str, port: int, wakeup: Callable[[], None]) -> None:
        """Start to resolve a name. When the result is available, any thread calls `wakeup`."""

    def resolutions(self) -> list[Resolution]:
        """Return the results since the last call."""


class ThreadResolver:
    """Resolves names with the system's resolver; only the sender thread calls its methods.

    If a lookup of the same name is already in progress, its result is shared by all callers.
    """

    def __init__(self, look_up: LookUp | None = None) -> None:
        self._look_up = look_up or resolve
        self._in_progress: set[tuple[str, int]] = set()
        self._found: SimpleQueue[Resolution] = SimpleQueue()

    def ask(self, host: str, port: int, wakeup: Callable[[], None]) -> None:
        """Start to resolve a name, unless the lookup is already in progress."""
        if (host, port) in self._in_progress:
            return
        self._in_progress.add((host, port))
        thread = Thread(
            target=self._run, args=(host, port, wakeup), name=f"kafkaprod-dns-{host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # The process cannot start more threads.
            self._found.put(Resolution(host=host, port=port, error=OSError(str(error))))
            wakeup()

    def resolutions(self) -> list[Resolution]:
        """Return the results since the last call."""
        found = []
        while not self._found.empty():
            resolution = self._found.get()
            self._in_progress.discard((resolution.host, resolution.port))
            found.append(resolution)
        return found

    def _run(self, host: str, port: int, wakeup: Callable[[], None]) -> None:
        try:
            found = Resolution(host=host, port=port, addresses=self._look_up(host, port))
        except OSError as error:
            found = Resolution(host=host, port=port, error=error)
        self._found.put(found)
        wakeup()


def resolve(host: str, port: int, flags: int = 0) -> list[Address]:
    """Return all addresses of a name (blocks); raise OSError if it has no address."""
    if not 0 < port < 65536:
        raise OSError(f"{port} is not a valid port")
    name: str | bytes = host.strip("[]")
    if host.isascii() and host.isprintable():  # For a str, Python would load the IDNA tables.
        name = host.strip("[]").encode("ascii")
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags)
    # A label is too long, or the name contains a NUL. Brokers can return any name.
    except ValueError as error:
        raise OSError(f"{host!r} is not a valid host name: {error}") from error
    return list(dict.fromkeys((int(entry[0]), entry[4]) for entry in found))


def literal(host: str, port: int) -> list[Address] | None:
    """Return the address if the host is an IP address, or None for a name; does not block.

    Raises:
        OSError: host or port is invalid.
    """
    try:
        return resolve(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return None
