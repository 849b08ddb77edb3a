"""Which broker coordinates a transactional id, as far as it has been asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.client.cluster import Node

MAX_KEPT = 10_000
"""Ids: most are used once, and then never again."""


class Coordinators:
    """The answers to FindCoordinator, those asked for longest ago dropped first."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def get(self, transactional_id: str) -> Node | None:
        """The coordinator, None where nobody has asked yet or it has moved."""
        return self._nodes.get(transactional_id)

    def found(self, transactional_id: str, node: Node) -> None:
        """A broker has named it."""
        self._nodes.pop(transactional_id, None)
        self._nodes[transactional_id] = node
        if len(self._nodes) > MAX_KEPT:
            del self._nodes[next(iter(self._nodes))]

    def forget(self, transactional_id: str) -> None:
        """The broker is no longer the coordinator, or does not answer."""
        self._nodes.pop(transactional_id, None)
