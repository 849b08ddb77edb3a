"""The broker that is responsible for a key.

It is a coordinator, a leader, the controller, the broker with a given id, or any broker.
Source: ``PartitionLeaderStrategy``, ``AllBrokersStrategy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic
from zlib import crc32

from spark_kafka_sink.admin.api_driver import LONGEST_WAIT, ApiDriver, K
from spark_kafka_sink.admin.handlers.actions import FindCoordinatorHandler
from spark_kafka_sink.client.cluster import Node
from spark_kafka_sink.client.metadata import is_fatal
from spark_kafka_sink.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.client.cluster import TopicPartition

_SOON = 0.02
"""Seconds between two checks of a broker that is being connected."""
_FIRST_LANE = -1_000_000
_MOST_BROKERS = 1 << 31
"""Offset of node ids for additional connections, which no broker and no bootstrap server has."""


class AnyBrokerLookup(Generic[K]):
    """Looks up the ready broker with the fewest requests in flight."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def node(self, key: K) -> Node | None:  # noqa: ARG002
        """See `Lookup`."""
        return self._client.any_node()

    def ask(self, keys: Sequence[K]) -> None:
        """See `Lookup`: the client connects."""

    def forget(self, key: K) -> None:
        """See `Lookup`."""

    def step(self, now: float) -> Mapping[K, int]:  # noqa: ARG002
        """See `Lookup`."""
        return {}

    def wait(self, now: float) -> float:  # noqa: ARG002
        """See `Lookup`."""
        return _SOON


class ControllerLookup(Generic[K]):
    """Tries each broker until one is the controller; with KRaft, any broker forwards requests."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._turn = 0

    def node(self, key: K) -> Node | None:  # noqa: ARG002
        """See `Lookup`."""
        nodes = self._client.cluster.nodes
        return nodes[sorted(nodes)[self._turn % len(nodes)]] if nodes else None

    def ask(self, keys: Sequence[K]) -> None:
        """See `Lookup`: the client requests metadata by itself."""

    def forget(self, key: K) -> None:  # noqa: ARG002
        """See `Lookup`."""
        self._turn += 1

    def step(self, now: float) -> Mapping[K, int]:  # noqa: ARG002
        """See `Lookup`."""
        return {}

    def wait(self, now: float) -> float:
        """See `Lookup`."""
        return self._client.metadata.wait(now)


class CoordinatorLookup:
    """Looks up the coordinators of transactional ids, which the client caches.

    Args:
        client: sends the requests.
        lanes: number of connections per coordinator, among which the ids are distributed. A broker
            processes a connection's requests one after another, and answers EndTxn only after
            its followers have replicated the transaction's new state.
    """

    def __init__(self, client: BlockingClient, lanes: int = 1) -> None:
        self._client = client
        self._coordinators = client.coordinators
        self._lanes = lanes
        any_broker: AnyBrokerLookup[str] = AnyBrokerLookup(client)
        self._driver = ApiDriver(client, FindCoordinatorHandler(), any_broker)

    def node(self, key: str) -> Node | None:
        """See `Lookup`."""
        node = self._coordinators.get(key)
        lane = crc32(key.encode()) % self._lanes
        if node is None or not lane:
            return node
        return Node(_FIRST_LANE - lane * _MOST_BROKERS - node.node_id, node.host, node.port)

    def ask(self, keys: Sequence[str]) -> None:
        """See `Lookup`."""
        self._driver.add(keys)
        self._driver.step(self._client.now())

    def forget(self, key: str) -> None:
        """See `Lookup`."""
        self._coordinators.forget(key)

    def step(self, now: float) -> Mapping[str, int]:
        """See `Lookup`."""
        self._driver.step(now)
        failures = {}
        for key, result in self._driver.take_results().items():
            if result.value is None:
                failures[key] = result.code
            else:
                self._coordinators.found(key, result.value)
        return failures

    def wait(self, now: float) -> float:
        """See `Lookup`."""
        return LONGEST_WAIT if self._driver.is_done else self._driver.wait(now)


class LeaderLookup:
    """Looks up the leaders of partitions in the metadata.

    Args:
        client: its metadata is used.
        patience: how long to retry UNKNOWN_TOPIC_OR_PARTITION, in seconds: new topics take time to
            propagate.
    """

    def __init__(self, client: BlockingClient, patience: float = LONGEST_WAIT) -> None:
        self._client = client
        self._patience = patience
        self._asked: dict[TopicPartition, tuple[float, int]] = {}
        """Keys without a known leader: start time, and the latest Metadata request at that time."""
        self._stale: dict[TopicPartition, int] = {}
        """Keys with a wrong leader, and the latest Metadata request when that was detected."""

    def node(self, key: TopicPartition) -> Node | None:
        """See `Lookup`."""
        metadata = self._client.metadata
        if metadata.answered <= self._stale.get(key, -1):
            return None
        self._stale.pop(key, None)
        node = metadata.cluster.nodes.get(metadata.cluster.leader(*key))
        if node is not None:
            self._asked.pop(key, None)
        return node

    def ask(self, keys: Sequence[TopicPartition]) -> None:
        """See `Lookup`."""
        self._client.want(key.topic for key in keys)
        for key in keys:
            self._asked.setdefault(key, (self._client.now(), self._client.metadata.requests))

    def forget(self, key: TopicPartition) -> None:
        """See `Lookup`."""
        metadata = self._client.metadata
        self._stale[key] = metadata.requests
        metadata.refresh()

    def step(self, now: float) -> Mapping[TopicPartition, int]:
        """See `Lookup`."""
        metadata = self._client.metadata
        cluster = metadata.cluster
        failures = {}
        for key, (since, asked) in list(self._asked.items()):
            if metadata.answered <= asked:
                continue
            code = cluster.errors.get(key.topic, 0)
            is_absent = code == ErrorCode.unknown_topic_or_partition
            if is_fatal(cluster, key.topic) or (is_absent and now - since >= self._patience):
                failures[key] = code
                del self._asked[key]
        return failures

    def wait(self, now: float) -> float:
        """See `Lookup`."""
        return self._client.metadata.wait(now) if self._asked or self._stale else LONGEST_WAIT


class BrokerLookup:
    """Looks up brokers by their ids."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._asked: dict[int, int] = {}
        """Unknown or failing brokers, and the latest Metadata request when that was detected."""

    def node(self, key: int) -> Node | None:
        """See `Lookup`."""
        metadata = self._client.metadata
        if metadata.answered <= self._asked.get(key, -1):
            return None
        return metadata.cluster.nodes.get(key)

    def ask(self, keys: Sequence[int]) -> None:
        """See `Lookup`."""
        for key in keys:
            if key not in self._asked:
                self.forget(key)

    def forget(self, key: int) -> None:
        """See `Lookup`."""
        metadata = self._client.metadata
        self._asked[key] = metadata.requests
        metadata.refresh()

    def step(self, now: float) -> Mapping[int, int]:  # noqa: ARG002
        """See `Lookup`: for a broker missing in newer metadata, return BROKER_NOT_AVAILABLE."""
        metadata = self._client.metadata
        gone = {}
        for key, asked in list(self._asked.items()):
            if metadata.answered > asked:
                del self._asked[key]
                if key not in metadata.cluster.nodes:
                    gone[key] = int(ErrorCode.broker_not_available)
        return gone

    def wait(self, now: float) -> float:
        """See `Lookup`."""
        return self._client.metadata.wait(now) if self._asked else LONGEST_WAIT
