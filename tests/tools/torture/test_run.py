"""At the end of a run, exited brokers are reported and restarted."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tools.torture.harness import Result
from tools.torture.producer import run
from tools.torture.producer.plan import Plan, draw
from tools.torture.producer.run import await_writer


@dataclass
class Node:
    node_id: int
    running: bool = True

    def log_end(self) -> str:
        return "No space left on device"


@dataclass
class Brokers:
    """Brokers of a writer that ends when all of them are running."""

    nodes: list[Node]
    writing: Future[None] = field(default_factory=Future)

    def restart(self, node_id: int) -> None:
        self.nodes[node_id - 1].running = True
        if all(node.running for node in self.nodes):
            self.writing.set_result(None)


def result() -> Result[Plan]:
    return Result(plan=draw(1))


def test_exited_brokers_are_reported_and_restarted() -> None:
    brokers = Brokers([Node(1), Node(2, running=False), Node(3, running=False)])
    found = result()
    await_writer(brokers.writing, cast("Any", brokers), found)
    assert found.wrong == [
        f"broker {number} has exited unexpectedly: No space left on device" for number in (2, 3)
    ]


def test_hanging_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_TIMEOUT_S", 0.05)
    monkeypatch.setattr(run, "_POLL_S", 0.01)
    found = result()
    with pytest.raises(TimeoutError):
        await_writer(Future(), cast("Any", Brokers([Node(1)])), found)
    assert found.wrong == []
