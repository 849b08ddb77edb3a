"""A scripted leader of partition t-0 with responses to ListOffsets, Fetch and Produce."""

from collections import deque
from datetime import timedelta
from typing import Any

from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.scripted import code
from tests.unit.kafka.admin.scripted_coordinator import LOST, ScriptedCoordinator

LATEST = -1


class PartitionLeader(ScriptedCoordinator):
    """The log consists of `batches` with their base offsets, from `start` to `end`."""

    def __init__(self, nodes: int = 1) -> None:
        super().__init__(nodes, {"t": 1})
        self.batches: list[tuple[int, bytes]] = []
        self.start = self.end = 0
        self.offset_codes: deque[int] = deque()
        """Error codes of the next ListOffsets responses; 0 after them."""
        self.fetch_codes: deque[int] = deque()
        self.throttled = 0
        """Number of the next Fetch responses that are throttled and empty."""
        self.diverging = -1
        """End offset of the diverging epoch in Fetch responses; -1 for none."""
        self.fetched_at_once = 1
        """Number of batches in a Fetch response."""
        self.high_watermark: int | None = None
        """The high watermark in Fetch responses; None for the end of the log."""
        self.produce_codes: deque[int] = deque()
        self.add_codes: deque[int] = deque()
        self.scripts[ApiKey.LIST_OFFSETS] = self._offsets
        self.scripts[ApiKey.FETCH] = self._fetch
        self.scripts[ApiKey.PRODUCE] = self._produce
        self.scripts[ApiKey.ADD_PARTITIONS_TO_TXN] = self._add

    def hold(self, *batches: bytes, base: int = 0) -> None:
        """Set the batches of the log."""
        for data in batches:
            delta = int.from_bytes(data[23:27], "big")
            self.batches.append((base, base.to_bytes(8, "big") + data[8:]))
            base += delta + 1
        self.end = base

    def fetched(self) -> list[Any]:
        """Return the partition of each Fetch request."""
        return [
            requested.topics[0].partitions[0] for _, requested in self.requests_for(ApiKey.FETCH)
        ]

    def _offsets(self, _node: int, request: Any) -> dict[str, Any]:
        requested = request.topics[0].partitions[0]
        failed = self.offset_codes.popleft() if self.offset_codes else 0
        offset = self.end if requested.timestamp == LATEST else self.start
        response = code(failed) | {"partition_index": 0, "offset": -1 if failed else offset}
        return {"topics": [{"name": "t", "partitions": [response]}]}

    def _fetch(self, _node: int, request: Any) -> dict[str, Any] | None:
        failed = self.fetch_codes.popleft() if self.fetch_codes else 0
        if failed == LOST:
            return None
        if self.throttled:
            self.throttled -= 1
            return {"throttle_time": timedelta(milliseconds=5), "responses": []}
        (topic,) = request.topics
        requested = topic.partitions[0]
        topic_id = getattr(topic, "topic_id", None)
        if not failed and topic_id is not None and topic_id != self.ids["t"]:
            failed = 100
        batches = [
            data
            for base, data in self.batches
            if self._last_offset(base, data) >= requested.fetch_offset
        ]
        data = b"" if failed or self.diverging >= 0 else b"".join(batches[: self.fetched_at_once])
        response = code(failed) | {
            "partition_index": 0,
            "high_watermark": self.end if self.high_watermark is None else self.high_watermark,
            "aborted_transactions": None,
            "records": data,
        }
        if self.diverging >= 0:
            response["diverging_epoch"] = {"epoch": 1, "end_offset": self.diverging}
        return {"responses": [{"topic": "t", "topic_id": topic_id, "partitions": [response]}]}

    @staticmethod
    def _last_offset(base: int, data: bytes) -> int:
        return base + int.from_bytes(data[23:27], "big")

    def _produce(self, _node: int, request: Any) -> dict[str, Any] | None:
        failed = self.produce_codes.popleft() if self.produce_codes else 0
        if failed == LOST:
            return None
        (topic,) = request.topic_data
        response = code(failed) | {"index": 0, "base_offset": -1 if failed else 0}
        named = {"name": "t", "topic_id": getattr(topic, "topic_id", None)}
        return {"responses": [named | {"partition_responses": [response]}]}

    def _add(self, _node: int, _request: Any) -> dict[str, Any]:
        failed = self.add_codes.popleft() if self.add_codes else 0
        response = {"partition_index": 0, "partition_error_code": code(failed)["error_code"]}
        topic = {"name": "t", "results_by_partition": [response]}
        return {"results_by_topic_v3_and_below": [topic]}
