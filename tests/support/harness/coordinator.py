"""A transaction coordinator for fake brokers, with a fault for each step on demand.

Keeps what it needs to judge: ids, epochs, the partitions of each transaction. Nothing is ever
committed here but by a test's own EndTxn.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.error_codes import as_error_code
from spark_kafka_sink.protocol.versions import ApiKey
from spark_kafka_sink.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_COORDINATOR, FENCED, INVALID_STATE, BAD_MAPPING, TIMEOUT = 16, 90, 48, 49, 50
CONCURRENT, NOT_ATTEMPTED, DENIED, INVALID_EPOCH = 51, 55, 29, 47
V2_PRODUCE = 12
BASE_PORT = 40_000


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What happens to one request instead of the usual.

    `error`: it is answered with this code, and nothing is done. `done`: it is done all the same.
    `lose`: the connection is cut instead of an answer.
    """

    error: int | None = None
    done: bool = False
    lose: bool = False


@dataclass(kw_only=True)
class FakeTransaction:
    """What the coordinator knows of a transactional id."""

    producer_id: int
    epoch: int = -1
    timeout_ms: int = 0
    two_phase: bool = False
    state: str = "Empty"
    partitions: set[tuple[str, int]] = field(default_factory=set)


class FakeCoordinator:
    """The coordinator of all ids, at one of the fake brokers."""

    def __init__(self) -> None:
        self.node = 1
        self.version = 2
        """The finalized level of transaction.version; 0 for a cluster that has none."""
        self.max_timeout_ms = 900_000
        self.denied: set[str] = set()
        """Topics whose partitions can't be added."""
        self.trouble: defaultdict[ApiKey, deque[Trouble | None]] = defaultdict(deque)
        """For the next requests of an API, in the order in which they come; then none."""
        self.transactions: dict[str, FakeTransaction] = {}
        self.requests: list[tuple[ApiKey, Any]] = []
        self._next_id = 9_000

    def asked(self, api: ApiKey) -> list[Any]:
        """The requests of an API that have come."""
        return [request for each, request in self.requests if each is api]

    def features(self) -> list[dict[str, Any]]:
        """What ApiVersions tells of finalized features."""
        if not self.version:
            return []
        level = {"max_version_level": self.version, "min_version_level": 1}
        return [{"name": "transaction.version", **level}]

    def serve(
        self, node: int, api: ApiKey, version: int, request: Any
    ) -> tuple[dict[str, Any], Trouble]:
        """The answer to a request about a transaction, and what becomes of it."""
        self.requests.append((api, request))
        queue = self.trouble[api]
        trouble = (queue.popleft() if queue else None) or Trouble()
        code = trouble.error
        if code is None and api is not ApiKey.FIND_COORDINATOR and node != self.node:
            code = NOT_COORDINATOR
        answer = _ANSWERS[api](self, version, request, code)
        if trouble.done and trouble.error is not None:
            _ANSWERS[api](self, version, request, None)
        return answer, trouble

    def produced(self, transactional_id: str | None, data: bytes, place: tuple[str, int]) -> int:
        """Judge a batch of a Produce request as the leader does that asks its coordinator."""
        header = BatchHeader.parse(data)
        assert header.is_transactional == (transactional_id is not None)
        if transactional_id is None:
            return 0
        known = self.transactions[transactional_id]
        assert header.producer_id == known.producer_id
        if header.producer_epoch != known.epoch:
            return INVALID_EPOCH
        if self.version < 2:
            assert place in known.partitions, f"{place} was not added to the transaction"
        known.partitions.add(place)
        known.state = "Ongoing"
        return 0

    def find(self, version: int, request: Any, code: int | None) -> dict[str, Any]:
        assert request.key_type == 1
        code = code or 0
        found = {
            "error_code": as_error_code(code),
            "node_id": -1 if code else self.node,
            "host": "" if code else "127.0.0.1",
            "port": -1 if code else BASE_PORT + self.node,
        }
        if version < 4:
            return found
        return {"coordinators": [{"key": request.coordinator_keys[0], **found}]}

    def initialize(self, _: int, request: Any, code: int | None) -> dict[str, Any]:
        timeout_ms = round(request.transaction_timeout.total_seconds() * 1000)
        two_phase = getattr(request, "enable2_pc", False)
        if code is None and timeout_ms > self.max_timeout_ms and not two_phase:
            code = TIMEOUT
        if code is not None:
            refused = {"producer_id": -1, "producer_epoch": -1}
            return {"error_code": as_error_code(code), **refused}
        known = self.transactions.get(request.transactional_id)
        if known is None:
            self._next_id += 1
            known = FakeTransaction(producer_id=self._next_id)
            self.transactions[request.transactional_id] = known
        known.epoch += 1
        known.timeout_ms, known.two_phase = timeout_ms, two_phase
        if known.state == "Ongoing":
            known.state = "Aborted"
            concurrent = as_error_code(CONCURRENT)
            return {"error_code": concurrent, "producer_id": -1, "producer_epoch": -1}
        known.state, known.partitions = "Empty", set()
        return {"producer_id": known.producer_id, "producer_epoch": known.epoch}

    def add(self, _: int, request: Any, code: int | None) -> dict[str, Any]:
        places = [
            (topic.name, index)
            for topic in request.v3_and_below_topics
            for index in topic.partitions
        ]
        denied = {place for place in places if place[0] in self.denied}
        known = self.transactions[request.v3_and_below_transactional_id]
        if code is None and request.v3_and_below_producer_epoch != known.epoch:
            code = FENCED
        codes = dict.fromkeys(places, code or 0)
        if code is None and denied:
            codes = {place: DENIED if place in denied else NOT_ATTEMPTED for place in places}
        elif code is None:
            known.partitions.update(places)
            known.state = "Ongoing"
        return {
            "results_by_topic_v3_and_below": [
                {
                    "name": name,
                    "results_by_partition": [
                        {"partition_index": index, "partition_error_code": as_error_code(found)}
                        for (topic, index), found in codes.items()
                        if topic == name
                    ],
                }
                for name in {name for name, _ in places}
            ]
        }

    def end(self, _: int, request: Any, code: int | None) -> dict[str, Any]:
        known = self.transactions[request.transactional_id]
        if code is None and request.producer_epoch != known.epoch:
            code = FENCED
        if code is None and known.state != "Ongoing" and request.committed:
            code = INVALID_STATE
        if code is None:
            known.state = "Committed" if request.committed else "Aborted"
            known.epoch += self.version >= 2
        numbers = {"producer_id": known.producer_id, "producer_epoch": known.epoch}
        return {"error_code": as_error_code(code or 0), **numbers}


_ANSWERS: dict[ApiKey, Callable[[FakeCoordinator, int, Any, int | None], dict[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: FakeCoordinator.find,
    ApiKey.INIT_PRODUCER_ID: FakeCoordinator.initialize,
    ApiKey.ADD_PARTITIONS_TO_TXN: FakeCoordinator.add,
    ApiKey.END_TXN: FakeCoordinator.end,
}


def is_about_transactions(api: ApiKey, request: Any) -> bool:
    """Whether a coordinator serves this; InitProducerId without an id any broker does."""
    if api is ApiKey.INIT_PRODUCER_ID:
        return request.transactional_id is not None
    return api in _ANSWERS
