"""A part of the benchmarks, what parts have in common, and what they share."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tools.benchmarks.topics import measured_kafka
from tools.support.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.tables import Table
    from tools.benchmarks.targets import Target


class Figures(Protocol):
    """What a part has measured."""

    def tables(self) -> Sequence[Table]:
        """For people."""

    def targets(self) -> Sequence[Target]:
        """Judged by the medians."""

    def to_dict(self) -> object:
        """Every sample, for JSON."""


class Workbench:
    """What the parts work with: a real Kafka, started when one asks for it, and a log."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._running = ExitStack()
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """The address of the Kafka, another one where it has ended."""
        if self._bootstrap_servers and not Admin(self._bootstrap_servers).broker_ids():
            self.tell("Kafka does not answer any more")
            self.stop()
        if not self._bootstrap_servers:
            self.tell("starting Kafka")
            kafka = self._running.enter_context(measured_kafka())
            self._bootstrap_servers = kafka.bootstrap_servers
        return self._bootstrap_servers

    def stop(self) -> None:
        """End the Kafka; the next part that asks gets another."""
        self._bootstrap_servers = ""
        self._running.close()


@dataclass(frozen=True, slots=True)
class Part:
    """Its name, and how it is measured."""

    name: str
    measure: Callable[[Workbench], Figures]
