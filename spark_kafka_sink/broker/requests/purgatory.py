"""Delayed requests, which wait for data, replicas, other group members or a deadline.

This module corresponds to Kafka's DelayedOperationPurgatory, but without threads. Operations are
indexed by the topic-partitions for which they wait. When a partition changes, only the operations
that wait for this partition are rechecked.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_PURGE_FROM = 1024
"""Number of operations from which the operations of closed connections are dropped."""


@dataclass(slots=True, kw_only=True, eq=False)
class DelayedOperation:
    """A delayed request."""

    deadline: float
    """Latest time to send the response, in monotonic seconds."""
    try_complete: Callable[[], bool] = lambda: False
    """Prepares the response as far as possible; returns True if it is complete. By default, the
    operation waits for its deadline.
    """
    on_complete: Callable[[], None]
    """Sends the response; called when `try_complete` returns True, or at the deadline."""
    is_abandoned: Callable[[], bool]
    """Returns True if the client has disconnected."""
    keys: tuple[TopicPartition, ...] = ()
    """Topic-partitions whose changes can complete the operation before its deadline."""
    is_done: bool = field(default=False, init=False)


class DelayedOperationPurgatory:
    """All delayed operations. Used by the thread that owns the cluster's state."""

    def __init__(self) -> None:
        self._keyed: dict[TopicPartition, dict[DelayedOperation, None]] = {}
        self._by_deadline: list[tuple[float, int, DelayedOperation]] = []
        self._numbers = count()
        self._changed: set[TopicPartition] = set()
        self._purge_at = _PURGE_FROM

    def __len__(self) -> int:
        return sum(not operation.is_done for _, _, operation in self._by_deadline)

    def add(self, operation: DelayedOperation) -> None:
        """Add an operation that could not be completed immediately."""
        for key in operation.keys:
            self._keyed.setdefault(key, {})[operation] = None
        if len(self._by_deadline) >= self._purge_at:
            self._drop_abandoned()
        heapq.heappush(self._by_deadline, (operation.deadline, next(self._numbers), operation))

    def wake(self, topic_partition: TopicPartition) -> None:
        """Register a change of a topic-partition for the next `poll`."""
        self._changed.add(topic_partition)

    def next_deadline(self) -> float | None:
        """Return the earliest deadline in monotonic seconds, or None if there are no operations."""
        while self._by_deadline and self._by_deadline[0][2].is_done:
            heapq.heappop(self._by_deadline)
        return self._by_deadline[0][0] if self._by_deadline else None

    def poll(self, now: float) -> None:
        """Complete operations that are ready or past their deadline. Drop abandoned operations."""
        for operation in self._take_changed():
            if not operation.is_done and operation.is_abandoned():
                self._remove_operation(operation)
            elif not operation.is_done and operation.try_complete():
                self._remove_operation(operation)
                operation.on_complete()
        while (due := self.next_deadline()) is not None and due <= now:
            operation = heapq.heappop(self._by_deadline)[2]
            self._remove_operation(operation)
            if not operation.is_abandoned():
                operation.on_complete()

    def _drop_abandoned(self) -> None:
        """Drop abandoned operations to release their memory."""
        for _, _, operation in self._by_deadline:
            if not operation.is_done and operation.is_abandoned():
                self._remove_operation(operation)
        self._by_deadline = [entry for entry in self._by_deadline if not entry[2].is_done]
        heapq.heapify(self._by_deadline)
        self._purge_at = max(_PURGE_FROM, 2 * len(self._by_deadline))

    def _take_changed(self) -> list[DelayedOperation]:
        """Return the operations that might be complete because of changes since the last call."""
        keys, self._changed = self._changed, set()
        waiting = (operation for key in keys for operation in self._keyed.get(key, ()))
        return list(dict.fromkeys(waiting))

    def _remove_operation(self, operation: DelayedOperation) -> None:
        operation.is_done = True
        for key in operation.keys:
            waiting = self._keyed.get(key, {})
            waiting.pop(operation, None)
            if not waiting:
                self._keyed.pop(key, None)
