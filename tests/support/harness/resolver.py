"""Fake name lookups whose responses are controlled by a test."""

from collections.abc import Callable
from typing import Any

from spark_kafka_sink.kafka.client.channel.background import CallResult
from spark_kafka_sink.kafka.client.channel.host_names import Address


class FakeLookups:
    """Replaces the `BackgroundCalls` that resolve names; the owner is the host and the port."""

    def __init__(self) -> None:
        self.lookups: list[str] = []
        self.known: dict[str, list[Address] | Exception] = {}
        """Addresses or errors by host; a lookup of any other host waits until it is added."""
        self._open: list[Any] = []

    def run(self, owner: Any, _call: Callable[[], Any], wakeup: Callable[[], None]) -> None:
        self.lookups.append(owner[0])
        self._open.append(owner)
        wakeup()

    def cancel(self, owner: Any) -> None:
        self._open = [lookup for lookup in self._open if lookup != owner]

    def take_results(self) -> list[CallResult]:
        call_results = []
        for owner in [lookup for lookup in self._open if lookup[0] in self.known]:
            self._open.remove(owner)
            result = self.known[owner[0]]
            if isinstance(result, Exception):
                call_results.append(CallResult(owner=owner, error=result))
            else:
                call_results.append(CallResult(owner=owner, value=list(result)))
        return call_results
