"""Requests beside the event loop: for a storage that is a network away, such as Redis.

As Kafka's KafkaRequestHandler stands beside its network Processor, here with one thread: requests
that may wait for the storage come one after the other, the sockets and requests about the cluster
alone go on meanwhile.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.state_lock import StateLock

LOG = logging.getLogger(__name__)
LONGEST_WAIT: Final = 0.1
STOP_SECONDS: Final = 10.0
MOST_WAITING: Final = 64
"""Requests: what waits for a slow storage is memory."""


class RequestHandler:
    """Runs what it is given, and the cluster's tick, holding the lock on its state.

    Args:
        lock: on the cluster's state.
    """

    __slots__ = ("_queue", "_stopping", "_thread", "lock")

    def __init__(self, lock: StateLock) -> None:
        self.lock = lock
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, cluster: Cluster) -> None:
        """Begin the thread; what was submitted before runs on it."""
        self._thread = threading.Thread(
            target=self._run, args=(cluster,), name="kafkaprod-broker-requests", daemon=True
        )
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether so few requests wait that those without an answer may be put aside."""
        return self._queue.qsize() < MOST_WAITING

    def submit(self, job: Callable[[], None]) -> None:
        """Run a function after those that were submitted before."""
        self._queue.put(job)

    def stop(self) -> None:
        """Finish what runs, leave the rest."""
        self._stopping = True
        self._queue.put(lambda: None)
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self, cluster: Cluster) -> None:
        while not self._stopping:
            job = self._next(cluster)
            with self.lock:
                self._safely(job)
                self._safely(cluster.tick)

    def _next(self, cluster: Cluster) -> Callable[[], None]:
        deadline = cluster.next_deadline()
        wait = LONGEST_WAIT
        if deadline is not None:
            wait = min(wait, max(0.0, deadline - cluster.clock.monotonic()))
        try:
            return self._queue.get(timeout=wait)
        except Empty:
            return lambda: None

    @staticmethod
    def _safely(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:
            LOG.exception("the broker goes on after an error")
