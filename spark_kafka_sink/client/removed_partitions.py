"""Partitions that a topic has no more, as it was deleted and made anew with fewer. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.client.cluster import Cluster, TopicInfo

PATIENCE = 5.0
"""Seconds for which every answer must say so: a broker that lags behind may have the old topic."""


@dataclass(slots=True)
class RemovedPartitions:
    """The most partitions that each topic had, held against what the metadata has now.

    A topic that has the same id and fewer partitions has been told by a broker that lags behind;
    so may one that has no id.
    """

    _known: dict[str, TopicInfo] = field(default_factory=dict)
    """The most partitions that each topic had."""
    _since: dict[str, float] = field(default_factory=dict)
    """When a topic was first told of that has fewer, in seconds of a clock."""
    _remaining: dict[str, int] = field(default_factory=dict)
    """How many partitions it has."""

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._since)

    def update(self, cluster: Cluster, now: float) -> None:
        """Take a new snapshot in."""
        for name, told in cluster.topics.items():
            known = self._known.get(name)
            if known is None or told.partition_count >= known.partition_count:
                self._known[name] = told
            elif known.is_other(told.topic_id):
                self._since.setdefault(name, now)
                self._remaining[name] = told.partition_count
                continue
            self._since.pop(name, None)

    def remaining(self, topic: str, partition: int, now: float) -> int | None:
        """How many partitions the topic has now, where this one is gone for good."""
        since = self._since.get(topic)
        if since is None or now - since < PATIENCE or partition < self._remaining[topic]:
            return None
        return self._remaining[topic]
