"""Whether Redis's replicas have what was written: WAIT, on a thread and a connection of its own.

WAIT counts replicas that have all writes of its connection. The commands of all connections reach
a replica in one order, so a write of this one stands for every write before it.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.redis.connection import RedisFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.redis.connection import RedisConnection
    from spark_kafka_sink.broker.topic_partition import TopicPartition

LOG = logging.getLogger(__name__)
WAIT_MS = 100
"""Milliseconds of one WAIT; it is asked again until the replicas have everything."""
STOP_SECONDS = 5.0
_COUNTER = '["waits"]'


class RedisReplicas:
    """How far the replicas are, by partition.

    Args:
        connection: for this alone.
        journal: the key of the broker's journal, which gets a counter: WAIT waits for writes.
        replicas: how many of them must have a record.
        news: told of a partition, on this class's thread, when its replicas have more.
    """

    def __init__(
        self,
        connection: RedisConnection,
        journal: str,
        replicas: int,
        news: Callable[[TopicPartition], None],
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._replicas = replicas
        self._news = news
        self._changed = threading.Condition()
        # Guarded by the condition:
        self._asked: dict[TopicPartition, int] = {}
        self._reached: dict[TopicPartition, int] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None

    def request(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Ask for a partition up to before an offset; return whether they have it already.

        If not, there will be news. The first request that waits starts the thread.
        """
        with self._changed:
            if self._reached.get(topic_partition, 0) >= offset:
                return True
            self._asked[topic_partition] = max(offset, self._asked.get(topic_partition, 0))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="kafkaprod-redis-wait", daemon=True
                )
                self._thread.start()
            self._changed.notify()
            return False

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
        self._connection.close()

    def _run(self) -> None:
        while (asked := self._next()) is not None:
            if not self._wait():
                continue
            with self._changed:
                for topic_partition, offset in asked.items():
                    self._reached[topic_partition] = max(
                        offset, self._reached.get(topic_partition, 0)
                    )
                    if self._asked.get(topic_partition, 0) <= offset:
                        self._asked.pop(topic_partition, None)
            for topic_partition in asked:
                self._news(topic_partition)

    def _next(self) -> dict[TopicPartition, int] | None:
        """What is asked for now; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._asked)
            return None if self._stopping else dict(self._asked)

    def _wait(self) -> bool:
        try:
            self._connection.call("HINCRBY", self._journal, _COUNTER, 1)
            return int(self._connection.call("WAIT", self._replicas, WAIT_MS)) >= self._replicas
        except RedisFailedError as error:
            LOG.debug("the replicas can't be asked: %s", error)
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, WAIT_MS / 1000)
            return False


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The same for one partition."""

    replicas: RedisReplicas
    topic_partition: TopicPartition

    def request(self, offset: int) -> bool:
        """See `RedisReplicas.request`."""
        return self.replicas.request(self.topic_partition, offset)
