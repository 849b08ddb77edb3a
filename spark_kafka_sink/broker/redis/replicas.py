"""Wait until Redis's replicas have a partition's batches, on a thread and connection of its own.

WAIT returns the number of replicas that have all writes of the same connection. Because a replica
applies the commands of all connections in order, a replica that has a write of this connection also
has all earlier writes.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.redis.connection import RedisFailedError, check_replies

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.redis.connection import RedisConnection
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_LOG = logging.getLogger(__name__)
WAITS_FIELD = '["waits"]'
"""Journal field with a counter, which is written before each WAIT."""
_WAIT_MS = 100
"""Timeout in milliseconds of each WAIT, which is repeated until the replicas have the data."""
_STOP_TIMEOUT_S = 5.0
"""Seconds to wait for the thread to end."""


@dataclass(slots=True, eq=False)
class LogReplication:
    """The replication of one log. A recreated topic has new objects, because offsets can repeat."""

    topic_partition: TopicPartition
    requested: int = 0
    """The end offset of the records that the replicas must have."""
    reached: int = 0
    """The end offset of the records that the replicas have."""


@dataclass(slots=True, eq=False)
class RedisReplicas:
    """Tracks which records Redis's replicas have."""

    _connection: RedisConnection
    """A connection that only this object uses."""
    _primary: RedisConnection
    """The connection on which records are written."""
    _journal: str
    """The key of the journal, in which a counter is written, because WAIT waits for writes."""
    _replicas: int
    """The number of replicas that must have a record."""
    _on_replicated: Callable[[TopicPartition], None]
    """Called on this object's thread when the replicas have more records of a partition."""
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    # Guarded by `_changed`, like the contents of `LogReplication`:
    _waiting: set[LogReplication] = field(default_factory=set, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def request(self, log: LogReplication, offset: int) -> bool:
        """Return True if all records of a log before `offset` are replicated.

        Otherwise, request their replication, and call `on_replicated` later. The first request that
        must wait starts the thread.
        """
        with self._changed:
            if log.reached >= offset:
                return True
            log.requested = max(log.requested, offset)
            self._waiting.add(log)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run_waits, name="kafkaprod-redis-wait", daemon=True
                )
                self._thread.start()
            self._changed.notify()
            return False

    def close(self) -> None:
        """Stop the thread and close the connection."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)
        self._connection.close()

    def _run_waits(self) -> None:
        while (requested := self._next_requests()) is not None:
            if not self._wait_for_replicas():
                continue
            with self._changed:
                for log, offset in requested.items():
                    log.reached = offset
                self._waiting = {log for log in self._waiting if log.requested > log.reached}
            for log in requested:
                self._on_replicated(log.topic_partition)

    def _next_requests(self) -> dict[LogReplication, int] | None:
        """Wait for requests and return their offsets, or None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._waiting)
            return None if self._is_stopping else {log: log.requested for log in self._waiting}

    def _wait_for_replicas(self) -> bool:
        commands = [("HINCRBY", self._journal, WAITS_FIELD, 1), ("WAIT", self._replicas, _WAIT_MS)]
        try:
            _, count = check_replies(self._connection.pipeline(commands))
        except RedisFailedError as error:
            _LOG.debug("WAIT failed: %s", error)
        else:
            # The records can be on a server that this one has replaced.
            if self._connection.server == self._primary.server is not None:
                return int(count) >= self._replicas
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, _WAIT_MS / 1000)
        return False
