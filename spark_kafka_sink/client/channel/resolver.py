"""Names to addresses, looked up beside the sender's loop: a slow name server delays nobody else.

Each name has a daemon thread of its own while it is looked up: threads that many names share are
used up by a few that get no answer, and an executor's threads keep the process from ending.
Source: KIP-302 (use_all_dns_ips), ``ClientUtils.resolve``.
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
"""An address family, and what `socket.connect` takes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What became of a look-up: addresses in the order to be tried, or the error."""

    host: str
    port: int
    addresses: list[Address] = field(default_factory=list)
    error: OSError | None = None


class Resolver(Protocol):
    """Looks names up; both calls return at once."""

    def ask(self, host: str, port: int, wakeup: Callable[[], None]) -> None:
        """Look a name up; `wakeup` is called, from any thread, when there is a resolution."""

    def resolutions(self) -> list[Resolution]:
        """Those that have come since the last call."""


class ThreadResolver:
    """Asks the system; owned by the sender thread, which alone calls its methods.

    A name that is being looked up is not asked for a second time: the first answer serves all.
    """

    def __init__(self, look_up: LookUp | None = None) -> None:
        self._look_up = look_up or resolve
        self._under_way: set[tuple[str, int]] = set()
        self._found: SimpleQueue[Resolution] = SimpleQueue()

    def ask(self, host: str, port: int, wakeup: Callable[[], None]) -> None:
        """Begin to look a name up, unless that is under way."""
        if (host, port) in self._under_way:
            return
        self._under_way.add((host, port))
        thread = Thread(
            target=self._run, args=(host, port, wakeup), name=f"kafkaprod-dns-{host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the process may have no more threads
            self._found.put(Resolution(host=host, port=port, error=OSError(str(error))))
            wakeup()

    def resolutions(self) -> list[Resolution]:
        """Those that have come since the last call."""
        found = []
        while not self._found.empty():
            resolution = self._found.get()
            self._under_way.discard((resolution.host, resolution.port))
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
    """Every address of a name; blocks. Raises OSError when there is none."""
    if not 0 < port < 65536:
        raise OSError(f"{port} is no port")
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=flags)
    except ValueError as error:  # too long a label, a NUL: brokers may announce anything
        raise OSError(f"{host!r} is no host name: {error}") from error
    return list(dict.fromkeys((int(entry[0]), entry[4]) for entry in found))


def literal(host: str, port: int) -> list[Address] | None:
    """The address that a host is written as, None where it is a name; never blocks.

    Raises:
        OSError: nothing can be at such a place.
    """
    try:
        return resolve(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return None
