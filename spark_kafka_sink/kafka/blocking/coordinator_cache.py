"""The coordinators of transactional ids, as the brokers last returned them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node

_MAX_CACHED_COORDINATORS = 10_000
"""Maximum number of cached transactional ids, most of which are used only once."""


class CoordinatorCache:
    """A cache of FindCoordinator results; if it is full, the oldest entry is dropped."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def get(self, transactional_id: str) -> Node | None:
        """Return the coordinator, or None if it is unknown."""
        return self._nodes.get(transactional_id)

    def add(self, transactional_id: str, node: Node) -> None:
        """Store a coordinator that a broker has returned."""
        self._nodes.pop(transactional_id, None)
        self._nodes[transactional_id] = node
        if len(self._nodes) > _MAX_CACHED_COORDINATORS:
            del self._nodes[next(iter(self._nodes))]

    def remove(self, transactional_id: str) -> None:
        """Remove a coordinator that has changed or does not respond."""
        self._nodes.pop(transactional_id, None)
