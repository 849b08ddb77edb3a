"""A name server that answers when a test says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.resolver import Resolution

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.client.channel.resolver import Address


class FakeNames:
    """Takes the place of a `Resolver`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.known: dict[str, list[Address] | OSError] = {}
        """Names that are answered at once; others when they have been put here."""
        self._open: list[tuple[str, int]] = []

    def ask(self, host: str, port: int, wakeup: Callable[[], None]) -> None:
        self.asked.append(host)
        self._open.append((host, port))
        wakeup()

    def resolutions(self) -> list[Resolution]:
        found = []
        for host, port in [place for place in self._open if place[0] in self.known]:
            self._open.remove((host, port))
            answer = self.known[host]
            if isinstance(answer, OSError):
                found.append(Resolution(host=host, port=port, error=answer))
            else:
                found.append(Resolution(host=host, port=port, addresses=list(answer)))
        return found
