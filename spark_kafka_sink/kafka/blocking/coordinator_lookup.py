"""Look up the coordinators of transactional ids, which the client caches.

Source: ``CoordinatorStrategy`` (KIP-699), KIP-98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from spark_kafka_sink.kafka.blocking.api_driver import (
    MANY_KEYS,
    ApiDriver,
    ApiHandler,
    KeyResult,
    V,
)
from spark_kafka_sink.kafka.blocking.lookups import MAX_WAIT_S, Lookup
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.transactions import find_coordinator_values, read_coordinators
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, RequestCompletion
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_FIRST_EXTRA_ID = -1_000_000
_MAX_BROKERS = 1 << 31
"""Offset for the node ids of additional connections. Other node ids do not use this range."""
_MULTIPLE_KEYS = 4
"""The first version of FindCoordinator that supports several keys (KIP-699)."""


class CoordinatorHandler(ApiHandler[str, V]):
    """An API that the coordinators of transactional ids handle."""

    retriable_codes = error_codes.COORDINATOR_BUSY
    lookup_codes = error_codes.COORDINATOR_MOVED

    def lookup(self, client: BlockingClient) -> Lookup[str]:
        """Return the lookup of transaction coordinators."""
        return TransactionCoordinatorLookup(client)


class _FindCoordinatorHandler(ApiHandler[str, Node]):
    """Finds the coordinators of transactional ids."""

    api = ApiKey.FIND_COORDINATOR
    retriable_codes = error_codes.COORDINATOR_UNAVAILABLE

    def keys_per_request(self, version: int | None) -> int:
        """Return 1 for versions before KIP-699, and before the negotiation."""
        return MANY_KEYS if version is not None and version >= _MULTIPLE_KEYS else 1

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request for these transactional ids."""
        return find_coordinator_values(keys)

    def results(
        self, keys: Sequence[str], completion: RequestCompletion
    ) -> Mapping[str, KeyResult[Node]]:
        """Return the coordinator of each transactional id."""
        return {
            coordinator.key: KeyResult(
                code=coordinator.code,
                message=coordinator.message,
                value=None
                if coordinator.code
                else Node(coordinator.node_id, coordinator.host, coordinator.port),
            )
            for coordinator in read_coordinators(completion.response, keys)
        }


class TransactionCoordinatorLookup(Lookup[str]):
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
        self._driver = ApiDriver(client, _FindCoordinatorHandler())

    def node(self, key: str) -> Node | None:
        """Return the cached coordinator of an id, with the id of its connection."""
        node = self._coordinators.get(key)
        number = crc32(key.encode()) % self._connections
        if node is None or not number:
            return node
        node_id = _FIRST_EXTRA_ID - number * _MAX_BROKERS - node.node_id
        return Node(node_id, node.host, node.port)

    def look_up(self, keys: Sequence[str]) -> None:
        """Start to request the coordinators of these ids."""
        self._driver.add(keys)
        self._driver.step(self._client.now())

    def invalidate(self, key: str) -> None:
        """Remove an id's coordinator from the cache."""
        self._coordinators.remove(key)

    def step(self, now: float) -> Mapping[str, int]:
        """Continue the requests, and cache the coordinators; return the codes of failed ids."""
        self._driver.step(now)
        failures = {}
        for key, result in self._driver.take_results().items():
            if result.value is None:
                failures[key] = result.code
            else:
                self._coordinators.add(key, result.value)
        return failures

    def code(self, key: str) -> int | None:
        """Return the latest error code of FindCoordinator for an id, or None."""
        return self._driver.unfinished_code(key)

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until the next request is due."""
        return MAX_WAIT_S if self._driver.is_done else self._driver.seconds_until_due(now)
