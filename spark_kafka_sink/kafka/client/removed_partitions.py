"""Partitions of topics that were recreated with fewer partitions during a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot, ClusterTopic

_REMOVED_AFTER_S = 5.0
"""Seconds for which all responses must agree, because lagging brokers might return the old topic.
"""


@dataclass(slots=True)
class RemovedPartitions:
    """Detects partitions that were removed during a session.

    Partitions count as removed only if the topic has a new id. A response with fewer partitions and
    the same id, or without an id, might come from a lagging broker.
    """

    _largest: dict[str, ClusterTopic] = field(default_factory=dict)
    """The metadata of each topic when it had its highest partition count."""
    _since: dict[str, float] = field(default_factory=dict)
    """Time at which each recreated topic was first seen with fewer partitions, in seconds of the
    clock.
    """
    _remaining: dict[str, int] = field(default_factory=dict)
    """The new partition counts of these topics."""

    def __bool__(self) -> bool:
        """Return True if partitions might have been removed."""
        return bool(self._since)

    def update(self, cluster: ClusterSnapshot, now: float) -> None:
        """Compare a new snapshot with the known topics."""
        for name, topic in cluster.topics.items():
            largest = self._largest.get(name)
            if largest is None or topic.partition_count >= largest.partition_count:
                self._largest[name] = topic
            elif largest.is_recreated(topic.topic_id):
                self._since.setdefault(name, now)
                self._remaining[name] = topic.partition_count
                continue
            self._since.pop(name, None)

    def remaining(self, topic: str, partition: int, now: float) -> int | None:
        """Return the topic's partition count if `partition` was removed, or else None.

        A partition counts as removed if responses have not contained it for `_REMOVED_AFTER_S` s.
        """
        since = self._since.get(topic)
        if since is None or now - since < _REMOVED_AFTER_S or partition < self._remaining[topic]:
            return None
        return self._remaining[topic]
