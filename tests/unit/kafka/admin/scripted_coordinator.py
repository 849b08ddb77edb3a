"""A scripted transaction coordinator with queued responses per transactional id."""

from collections import defaultdict, deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.scripted import ScriptedCluster, code

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
LOST = -1000
"""In place of an error code: the connection is closed without a response."""


class ScriptedCoordinator(ScriptedCluster):
    """Broker 1, or the broker in `coordinators`, coordinates an id."""

    def __init__(self, nodes: int = 1, topics: dict[str, int] | None = None) -> None:
        super().__init__(nodes, topics)
        self.coordinators: dict[str, int] = {}
        self.moves: dict[str, deque[int]] = defaultdict(deque)
        """The brokers in the next FindCoordinator responses for an id, before `coordinators`."""
        self.codes: dict[str, deque[int]] = defaultdict(deque)
        """Error codes of the next responses for an id; 0 after them."""
        self.find_codes: dict[str, deque[int]] = defaultdict(deque)
        """Error codes of the next FindCoordinator responses for an id; 0 after them."""
        self.scripts[ApiKey.FIND_COORDINATOR] = self._find
        self.scripts[ApiKey.INIT_PRODUCER_ID] = self._init
        self.scripts[ApiKey.END_TXN] = self._end

    def queue_codes(self, transactional_id: str, codes: Iterable[int]) -> None:
        """Queue the next responses for an id."""
        self.codes[transactional_id].extend(codes)

    def end_txn_requests(self) -> list[tuple[int, str]]:
        """Return broker and id of each EndTxn request."""
        return [(node, end.transactional_id) for node, end in self.requests_for(ApiKey.END_TXN)]

    def _find(self, _node: int, request: Any) -> dict[str, Any]:
        keys = getattr(request, "coordinator_keys", None) or [request.key]
        coordinators = [self._coordinator(key) for key in keys]
        return (
            {"coordinators": coordinators}
            if hasattr(request, "coordinator_keys")
            else coordinators[0]
        )

    def _coordinator(self, key: str) -> dict[str, Any]:
        failed = self.find_codes[key].popleft() if self.find_codes[key] else 0
        if failed:
            return code(failed) | {"key": key, "node_id": -1, "host": "", "port": -1}
        moves = self.moves[key]
        node = moves.popleft() if moves else self.coordinators.get(key, 1)
        return {"key": key, "node_id": node, "host": "127.0.0.1", "port": 40_000 + node}

    def _next(self, transactional_id: str) -> int:
        codes = self.codes[transactional_id]
        return codes.popleft() if codes else 0

    def _init(self, _node: int, request: Any) -> dict[str, Any] | None:
        failed = self._next(request.transactional_id)
        return None if failed == LOST else code(failed) | {"producer_id": 7, "producer_epoch": 3}

    def _end(self, _node: int, request: Any) -> dict[str, Any] | None:
        failed = self._next(request.transactional_id)
        if failed == LOST:
            return None
        bumped = {"producer_id": request.producer_id, "producer_epoch": request.producer_epoch + 1}
        return code(failed) | bumped


def opened(
    name: str, version: TransactionVersion = TransactionVersion.V2, epoch: int = 0
) -> TransactionalProducer:
    """Create an open transaction."""
    return TransactionalProducer(transactional_id=name, producer_id=7, epoch=epoch, version=version)


def described(name: str, **changes: Any) -> dict[str, Any]:
    """Return an open transaction in a DescribeTransactions response."""
    return {
        "transactional_id": name,
        "transaction_state": "Ongoing",
        "transaction_timeout": timedelta(minutes=1),
        "transaction_start_time": STARTED,
        "producer_id": 7,
        "producer_epoch": 3,
        "topics": [{"topic": "t", "partitions": [2, 0]}],
        **changes,
    }
