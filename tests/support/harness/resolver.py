"""A fake resolver whose responses are controlled by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.resolver import Resolution

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.client.channel.resolver import Address


class FakeResolver:
    """Replaces a `Resolver`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.known: dict[str, list[Address] | OSError] = {}
        """Addresses or errors by host; a lookup of any other host waits until it is added."""
        self._open: list[tuple[str, int]] = []

    def ask(self, host: str, port: int, wakeup: Callable[[], None]) -> None:
        self.asked.append(host)
        self._open.append((host, port))
        wakeup()

    def resolutions(self) -> list[Resolution]:
        found = []
        for host, port in [each for each in self._open if each[0] in self.known]:
            self._open.remove((host, port))
            result = self.known[host]
            if isinstance(result, OSError):
                found.append(Resolution(host=host, port=port, error=result))
            else:
                found.append(Resolution(host=host, port=port, addresses=list(result)))
        return found
