"""Look up the broker that is responsible for a key.

Depending on the API, this broker is a coordinator, a leader, the controller, the broker with a
given id, or any broker. Source: ``PartitionLeaderStrategy``, ``AllBrokersStrategy``; KIP-98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from spark_kafka_sink.admin.api_driver import (
    MANY_KEYS,
    MAX_WAIT_S,
    ApiDriver,
    ApiHandler,
    K,
    KeyResult,
    Lookup,
)
from spark_kafka_sink.client.cluster_snapshot import Node, TopicPartition
from spark_kafka_sink.client.metadata_updater import is_fatal
from spark_kafka_sink.protocol.error_codes import COORDINATOR_UNAVAILABLE, ErrorCode
from spark_kafka_sink.protocol.transactions import find_coordinator
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.admin.blocking_client import BlockingClient, CallOutcome
    from spark_kafka_sink.protocol.messages import Values

_CONNECTING_WAIT_S = 0.02
"""Interval in seconds at which a broker is checked while the client connects to it."""
_FIRST_EXTRA_ID = -1_000_000
_MAX_BROKERS = 1 << 31
"""Offset for the node ids of additional connections. Other node ids do not use this range."""
_MULTIPLE_KEYS = 4
"""The first version of FindCoordinator that supports several keys (KIP-699)."""


class FindCoordinatorHandler(ApiHandler[str, Node]):
    """Finds the coordinators of transactional ids."""

    api = ApiKey.FIND_COORDINATOR
    retried = COORDINATOR_UNAVAILABLE

    def keys_per_request(self, version: int | None) -> int:
        """See `ApiHandler`."""
        return MANY_KEYS if version is not None and version >= _MULTIPLE_KEYS else 1

    def values(self, keys: Sequence[str], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return find_coordinator(keys)

    def results(self, keys: Sequence[str], outcome: CallOutcome) -> Mapping[str, KeyResult[Node]]:
        """See `ApiHandler`."""
        coordinators = getattr(outcome.response, "coordinators", None)
        if coordinators is None:
            return {keys[0]: _coordinator(outcome.response)}
        return {found.key: _coordinator(found) for found in coordinators}


def _coordinator(found: object) -> KeyResult[Node]:
    code = int(getattr(found, "error_code", 0))
    node_id, host, port = (getattr(found, name) for name in ("node_id", "host", "port"))
    return KeyResult(
        code=code,
        message=getattr(found, "error_message", None),
        value=None if code else Node(int(node_id), host, int(port)),
    )


class AnyBrokerLookup(Lookup[K]):
    """Looks up the ready broker with the fewest requests in flight."""

    def node(self, key: K) -> Node | None:  # noqa: ARG002
        """See `Lookup`."""
        return self._client.ready_node()

    def look_up(self, keys: Sequence[K]) -> None:  # noqa: ARG002
        """See `Lookup`."""
        self._client.connect_any()

    def wait(self, now: float) -> float:  # noqa: ARG002
        """See `Lookup`."""
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
        """See `Lookup`."""
        self._failures += 1


class CoordinatorLookup(Lookup[str]):
    """Looks up the coordinators of transactional ids, which the client caches.

    Args:
        client: sends the requests.
        connections: number of connections per coordinator, among which the ids are distributed. A
            broker processes the requests of a connection one after another, and responds to EndTxn
            only after its followers have replicated the new state of the transaction.
    """

    def __init__(self, client: BlockingClient, connections: int = 1) -> None:
        super().__init__(client)
        self._coordinators = client.coordinators
        self._connections = connections
        self._driver = ApiDriver(client, FindCoordinatorHandler(), AnyBrokerLookup(client))

    def node(self, key: str) -> Node | None:
        """See `Lookup`."""
        node = self._coordinators.get(key)
        number = crc32(key.encode()) % self._connections
        if node is None or not number:
            return node
        node_id = _FIRST_EXTRA_ID - number * _MAX_BROKERS - node.node_id
        return Node(node_id, node.host, node.port)

    def look_up(self, keys: Sequence[str]) -> None:
        """See `Lookup`."""
        self._driver.add(keys)
        self._driver.step(self._client.now())

    def invalidate(self, key: str) -> None:
        """See `Lookup`."""
        self._coordinators.remove(key)

    def step(self, now: float) -> Mapping[str, int]:
        """See `Lookup`."""
        self._driver.step(now)
        failures = {}
        for key, result in self._driver.take_results().items():
            if result.value is None:
                failures[key] = result.code
            else:
                self._coordinators.add(key, result.value)
        return failures

    def wait(self, now: float) -> float:
        """See `Lookup`."""
        return MAX_WAIT_S if self._driver.is_done else self._driver.wait(now)


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
        """See `Lookup`."""
        metadata = self._client.metadata
        if metadata.answered <= self._stale.get(key, -1):
            return None
        return metadata.cluster.nodes.get(metadata.cluster.leader(*key))

    def look_up(self, keys: Sequence[TopicPartition]) -> None:
        """See `Lookup`."""
        metadata = self._client.metadata
        metadata.want(key.topic for key in keys)
        for key in keys:
            self._unknown.setdefault(key, (self._client.now(), metadata.requests))

    def invalidate(self, key: TopicPartition) -> None:
        """See `Lookup`."""
        metadata = self._client.metadata
        self._stale[key] = metadata.requests
        metadata.refresh()

    def step(self, now: float) -> Mapping[TopicPartition, int]:
        """See `Lookup`."""
        metadata = self._client.metadata
        failures = {}
        for key in [key for key, request in self._stale.items() if metadata.answered > request]:
            del self._stale[key]
        for key, (since, request) in list(self._unknown.items()):
            if self.node(key) is not None:
                del self._unknown[key]
                continue
            if metadata.answered <= request:
                continue
            code = metadata.cluster.errors.get(key.topic, 0)
            is_missing = code == ErrorCode.unknown_topic_or_partition
            is_final = is_missing and now - since >= self._retry_s
            if is_final or is_fatal(metadata.cluster, key.topic):
                failures[key] = code
                del self._unknown[key]
        return failures

    def wait(self, now: float) -> float:
        """See `Lookup`."""
        return super().wait(now) if self._unknown or self._stale else MAX_WAIT_S


class BrokerLookup(Lookup[int]):
    """Looks up brokers by their ids."""

    def __init__(self, client: BlockingClient) -> None:
        super().__init__(client)
        self._unknown: dict[int, int] = {}
        """Unknown or failing brokers, and the number of the last Metadata request."""

    def node(self, key: int) -> Node | None:
        """See `Lookup`."""
        metadata = self._client.metadata
        if metadata.answered <= self._unknown.get(key, -1):
            return None
        return metadata.cluster.nodes.get(key)

    def look_up(self, keys: Sequence[int]) -> None:
        """See `Lookup`."""
        for key in keys:
            if key not in self._unknown:
                self.invalidate(key)

    def invalidate(self, key: int) -> None:
        """See `Lookup`."""
        metadata = self._client.metadata
        self._unknown[key] = metadata.requests
        metadata.refresh()

    def step(self, now: float) -> Mapping[int, int]:  # noqa: ARG002
        """See `Lookup`. The code is BROKER_NOT_AVAILABLE if newer metadata lacks the broker."""
        metadata = self._client.metadata
        missing = {}
        for key, request in list(self._unknown.items()):
            if metadata.answered > request:
                del self._unknown[key]
                if key not in metadata.cluster.nodes:
                    missing[key] = int(ErrorCode.broker_not_available)
        return missing

    def wait(self, now: float) -> float:
        """See `Lookup`."""
        return super().wait(now) if self._unknown else MAX_WAIT_S
