"""A fake transaction coordinator with fault injection for each request.

It stores only what it needs to validate requests: producer ids, epochs and the partitions of each
transaction. A transaction is committed only by an EndTxn request.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, as_error_code
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Callable

BASE_PORT = 40_000


@dataclass(frozen=True, kw_only=True)
class CoordinatorFault:
    """A fault for one request.

    `error`: respond with this code and do not execute the request. `done`: execute the request
    anyway. `lose`: close the connection instead of responding.
    """

    error: int | None = None
    done: bool = False
    lose: bool = False


@dataclass(kw_only=True)
class FakeTransaction:
    """The state of a transactional id."""

    producer_id: int
    epoch: int = -1
    timeout_ms: int = 0
    two_phase: bool = False
    state: str = "Empty"
    partitions: set[tuple[str, int]] = field(default_factory=set)


class FakeCoordinator:
    """The coordinator of all transactional ids, on one of the fake brokers."""

    def __init__(self) -> None:
        self.node = 1
        self.version = 2
        """Finalized level of transaction.version; 0 if the cluster does not have this feature."""
        self.max_timeout_ms = 900_000
        self.denied: set[str] = set()
        """Topics whose partitions cannot be added to a transaction."""
        self.faults: defaultdict[ApiKey, deque[CoordinatorFault | None]] = defaultdict(deque)
        """Faults for the next requests of each API, in order of arrival; None is no fault."""
        self.transactions: dict[str, FakeTransaction] = {}
        self.requests: list[tuple[ApiKey, Any]] = []
        self._next_id = 9_000

    def requests_for(self, api: ApiKey) -> list[Any]:
        """Return the requests of an API received so far."""
        return [request for key, request in self.requests if key is api]

    def features(self) -> list[dict[str, Any]]:
        """Return the finalized features for an ApiVersions response."""
        if not self.version:
            return []
        level = {"max_version_level": self.version, "min_version_level": 1}
        return [{"name": "transaction.version", **level}]

    def serve(
        self, node: int, api: ApiKey, version: int, request: Any
    ) -> tuple[dict[str, Any], CoordinatorFault]:
        """Return the response to a transaction request, and the fault to inject."""
        self.requests.append((api, request))
        queue = self.faults[api]
        fault = (queue.popleft() if queue else None) or CoordinatorFault()
        code = fault.error
        if code is None and api is not ApiKey.FIND_COORDINATOR and node != self.node:
            code = ErrorCode.not_coordinator
        response = HANDLERS[api](self, version, request, code)
        if fault.done and fault.error is not None:
            HANDLERS[api](self, version, request, None)
        return response, fault

    def check_produced(
        self, transactional_id: str | None, data: bytes, partition: tuple[str, int]
    ) -> int:
        """Return the error code with which a partition leader responds to a batch."""
        header = BatchHeader.parse(data)
        assert header.is_transactional == (transactional_id is not None)
        if transactional_id is None:
            return 0
        known = self.transactions[transactional_id]
        assert header.producer_id == known.producer_id
        if header.producer_epoch != known.epoch:
            return ErrorCode.invalid_producer_epoch
        if self.version < 2:
            assert partition in known.partitions, f"{partition} was not added to the transaction"
        known.partitions.add(partition)
        known.state = "Ongoing"
        return 0

    def find(self, version: int, request: Any, code: int | None) -> dict[str, Any]:
        assert request.key_type == 1
        code = code or 0
        coordinator = {
            "error_code": as_error_code(code),
            "node_id": -1 if code else self.node,
            "host": "" if code else "127.0.0.1",
            "port": -1 if code else BASE_PORT + self.node,
        }
        if version < 4:
            return coordinator
        return {"coordinators": [{"key": request.coordinator_keys[0], **coordinator}]}

    def initialize(self, _: int, request: Any, code: int | None) -> dict[str, Any]:
        timeout_ms = round(request.transaction_timeout.total_seconds() * 1000)
        two_phase = getattr(request, "enable2_pc", False)
        if code is None and timeout_ms > self.max_timeout_ms and not two_phase:
            code = ErrorCode.invalid_transaction_timeout
        if code is not None:
            return {"error_code": as_error_code(code), "producer_id": -1, "producer_epoch": -1}
        known = self.transactions.get(request.transactional_id)
        if known is None:
            self._next_id += 1
            known = FakeTransaction(producer_id=self._next_id)
            self.transactions[request.transactional_id] = known
        known.epoch += 1
        known.timeout_ms, known.two_phase = timeout_ms, two_phase
        if known.state == "Ongoing":
            known.state = "Aborted"
            concurrent = ErrorCode.concurrent_transactions
            return {"error_code": concurrent, "producer_id": -1, "producer_epoch": -1}
        known.state, known.partitions = "Empty", set()
        return {"producer_id": known.producer_id, "producer_epoch": known.epoch}

    def add(self, _: int, request: Any, code: int | None) -> dict[str, Any]:
        partitions = [
            (topic.name, index)
            for topic in request.v3_and_below_topics
            for index in topic.partitions
        ]
        denied = {partition for partition in partitions if partition[0] in self.denied}
        known = self.transactions[request.v3_and_below_transactional_id]
        if code is None and request.v3_and_below_producer_epoch != known.epoch:
            code = ErrorCode.producer_fenced
        codes = dict.fromkeys(partitions, code or 0)
        if code is None and denied:
            codes = {
                partition: ErrorCode.topic_authorization_failed
                if partition in denied
                else ErrorCode.operation_not_attempted
                for partition in partitions
            }
        elif code is None:
            known.partitions.update(partitions)
            known.state = "Ongoing"
        return {
            "results_by_topic_v3_and_below": [
                {
                    "name": name,
                    "results_by_partition": [
                        {"partition_index": index, "partition_error_code": as_error_code(error)}
                        for (topic, index), error in codes.items()
                        if topic == name
                    ],
                }
                for name in {name for name, _ in partitions}
            ]
        }

    def end(self, _: int, request: Any, code: int | None) -> dict[str, Any]:
        known = self.transactions[request.transactional_id]
        if code is None and request.producer_epoch != known.epoch:
            code = ErrorCode.producer_fenced
        if code is None and known.state != "Ongoing" and request.committed:
            code = ErrorCode.invalid_txn_state
        if code is None:
            known.state = "Committed" if request.committed else "Aborted"
            known.epoch += self.version >= 2
        numbers = {"producer_id": known.producer_id, "producer_epoch": known.epoch}
        return {"error_code": as_error_code(code or 0), **numbers}

    def describe(self, _: int, request: Any, code: int | None) -> dict[str, Any]:
        (transactional_id,) = request.transactional_ids
        if code is None and transactional_id not in self.transactions:
            code = ErrorCode.transactional_id_not_found
        state = {"transactional_id": transactional_id, "error_code": as_error_code(code or 0)}
        return {"transaction_states": [state]}


HANDLERS: dict[ApiKey, Callable[[FakeCoordinator, int, Any, int | None], dict[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: FakeCoordinator.find,
    ApiKey.INIT_PRODUCER_ID: FakeCoordinator.initialize,
    ApiKey.ADD_PARTITIONS_TO_TXN: FakeCoordinator.add,
    ApiKey.END_TXN: FakeCoordinator.end,
    ApiKey.DESCRIBE_TRANSACTIONS: FakeCoordinator.describe,
}


def is_about_transactions(api: ApiKey, request: Any) -> bool:
    """Return True if the request is sent to a coordinator.

    Any broker serves InitProducerId without a transactional id.
    """
    if api is ApiKey.INIT_PRODUCER_ID:
        return request.transactional_id is not None
    return api in HANDLERS
