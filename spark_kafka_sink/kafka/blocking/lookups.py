"""Look up the broker that is responsible for a key.

Depending on the API, this broker is a leader, the controller, the broker with a given id, or any
broker; `coordinator_lookup` looks up coordinators. Source: ``PartitionLeaderStrategy``,
``AllBrokersStrategy``; KIP-98.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from spark_kafka_sink.kafka.client.metadata import is_fatal
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node

K = TypeVar("K", bound=Hashable)

MAX_WAIT_S = 1.0
"""Maximum seconds between two steps."""
_CONNECTING_WAIT_S = 0.02
"""Interval in seconds at which a broker is checked while the client connects to it."""


class Lookup(Generic[K]):
    """Looks up the brokers that are responsible for keys."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def node(self, key: K) -> Node | None:
        """Return the broker for a key, or None if it is currently unknown."""
        raise NotImplementedError

    def look_up(self, keys: Sequence[K]) -> None:
        """Start to look up keys for which `node` returned None."""

    def invalidate(self, key: K) -> None:
        """Discard the broker that was found for a key."""

    def step(self, now: float) -> Mapping[K, int]:  # noqa: ARG002
        """Continue the lookup; return the error codes of keys whose lookup cannot succeed."""
        return {}

    def code(self, key: K) -> int | None:  # noqa: ARG002
        """Return the latest error code of the lookup of a key, or None."""
        return None

    def seconds_until_due(self, now: float) -> float:
        """Return the number of seconds within which `step` must be called again."""
        return self._client.metadata.seconds_until_due(now)


class AnyBrokerLookup(Lookup[K]):
    """Looks up the ready broker with the fewest requests in flight."""

    def node(self, key: K) -> Node | None:  # noqa: ARG002
        """Return the ready broker with the fewest requests in flight."""
        return self._client.ready_node()

    def look_up(self, keys: Sequence[K]) -> None:  # noqa: ARG002
        """Connect to any broker."""
        self._client.connect_any()

    def seconds_until_due(self, now: float) -> float:  # noqa: ARG002
        """Return the interval at which the connection is checked."""
        return _CONNECTING_WAIT_S


class ControllerLookup(Lookup[K]):
    """Tries all brokers until the controller is found. With KRaft, any broker forwards requests."""

    def __init__(self, client: BlockingClient) -> None:
        super().__init__(client)
        self._failures = 0

    def node(self, key: K) -> Node | None:  # noqa: ARG002
        """See `Lookup`. The client itself requests metadata."""
        nodes = self._client.cluster.nodes
        return nodes[sorted(nodes)[self._failures % len(nodes)]] if nodes else None

    def invalidate(self, key: K) -> None:  # noqa: ARG002
        """Continue with the next broker."""
        self._failures += 1


class LeaderLookup(Lookup[TopicPartition]):
    """Looks up the leaders of partitions in the metadata.

    Args:
        client: the client whose metadata is used.
        retry_s: seconds for which UNKNOWN_TOPIC_OR_PARTITION is retried, because new topics
            propagate slowly.
    """

    def __init__(self, client: BlockingClient, retry_s: float = MAX_WAIT_S) -> None:
        super().__init__(client)
        self._retry_s = retry_s
        self._unknown: dict[TopicPartition, tuple[float, int]] = {}
        """Keys without a known leader: start time, and number of the last Metadata request."""
        self._stale: dict[TopicPartition, int] = {}
        """Keys with an outdated leader, and the number of the last Metadata request."""

    def node(self, key: TopicPartition) -> Node | None:
        """Return the partition's leader, or None until newer metadata arrives."""
        metadata = self._client.metadata
        if metadata.answered_requests <= self._stale.get(key, -1):
            return None
        return metadata.cluster.nodes.get(metadata.cluster.leader(*key))

    def look_up(self, keys: Sequence[TopicPartition]) -> None:
        """Add the partitions' topics to the metadata."""
        metadata = self._client.metadata
        metadata.add_topics(key.topic for key in keys)
        for key in keys:
            self._unknown.setdefault(key, (self._client.now(), metadata.sent_requests))

    def invalidate(self, key: TopicPartition) -> None:
        """Request newer metadata."""
        metadata = self._client.metadata
        self._stale[key] = metadata.sent_requests
        metadata.request_refresh()

    def step(self, now: float) -> Mapping[TopicPartition, int]:
        """Return the error codes of partitions for which newer metadata has no leader."""
        metadata = self._client.metadata
        failures = {}
        for key in [
            key for key, request in self._stale.items() if metadata.answered_requests > request
        ]:
            del self._stale[key]
        for key, (since, request) in list(self._unknown.items()):
            if self.node(key) is not None:
                del self._unknown[key]
                continue
            if metadata.answered_requests <= request:
                continue
            code = metadata.cluster.errors.get(key.topic, 0)
            is_missing = code == ErrorCode.unknown_topic_or_partition
            is_final = is_missing and now - since >= self._retry_s
            if is_final or is_fatal(metadata.cluster, key.topic):
                failures[key] = code
                del self._unknown[key]
        return failures

    def code(self, key: TopicPartition) -> int | None:
        """See `Lookup`. The code is LEADER_NOT_AVAILABLE if the partition has no leader."""
        metadata, request = self._client.metadata, self._unknown.get(key)
        if request is None or metadata.answered_requests <= request[1]:
            return None
        return metadata.cluster.errors.get(key.topic) or ErrorCode.leader_not_available

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until metadata is due, or `MAX_WAIT_S` if all leaders are known."""
        return super().seconds_until_due(now) if self._unknown or self._stale else MAX_WAIT_S


class BrokerLookup(Lookup[int]):
    """Looks up brokers by their ids."""

    def __init__(self, client: BlockingClient) -> None:
        super().__init__(client)
        self._unknown: dict[int, int] = {}
        """Unknown or failing brokers, and the number of the last Metadata request."""

    def node(self, key: int) -> Node | None:
        """Return the broker, or None until newer metadata arrives."""
        metadata = self._client.metadata
        if metadata.answered_requests <= self._unknown.get(key, -1):
            return None
        return metadata.cluster.nodes.get(key)

    def look_up(self, keys: Sequence[int]) -> None:
        """Request newer metadata for these brokers, unless it is already requested."""
        for key in keys:
            if key not in self._unknown:
                self.invalidate(key)

    def invalidate(self, key: int) -> None:
        """Request newer metadata."""
        metadata = self._client.metadata
        self._unknown[key] = metadata.sent_requests
        metadata.request_refresh()

    def step(self, now: float) -> Mapping[int, int]:  # noqa: ARG002
        """See `Lookup`. The code is BROKER_NOT_AVAILABLE if newer metadata lacks the broker."""
        metadata = self._client.metadata
        missing = {}
        for key, request in list(self._unknown.items()):
            if metadata.answered_requests > request:
                del self._unknown[key]
                if key not in metadata.cluster.nodes:
                    missing[key] = int(ErrorCode.broker_not_available)
        return missing

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until metadata is due, or `MAX_WAIT_S` if all brokers are known."""
        return super().seconds_until_due(now) if self._unknown else MAX_WAIT_S
