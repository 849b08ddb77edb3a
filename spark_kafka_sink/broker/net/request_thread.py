"""The second thread, used with a remote storage such as Redis.

It corresponds to Kafka's KafkaRequestHandler threads, which are separate from the network Processor
threads. It handles the requests that might wait for the storage, one at a time. In parallel, the
event loop serves the sockets and the requests that need only cluster metadata.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.storage.state_lock import StateLock

_LOG = logging.getLogger(__name__)
_MAX_WAIT_S = 0.1
"""Longest wait for a request in seconds, so that timers are checked."""
_STOP_TIMEOUT_S = 10.0
"""Seconds to wait for the thread to end."""
_MAX_QUEUED = 64
"""Number of queued requests from which acks=0 requests also wait, to limit memory use."""


class RequestThread:
    """Runs queued functions and the cluster's `tick` on its own thread, holding the state lock.

    Args:
        lock: the lock on the cluster's state.
    """

    def __init__(self, lock: StateLock) -> None:
        self.lock = lock
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def start(self, cluster: Cluster) -> None:
        """Start the thread, which also runs functions that were submitted earlier."""
        self._thread = threading.Thread(
            target=self._run_jobs, args=(cluster,), name="kafkaprod-broker-requests", daemon=True
        )
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """True if a connection can be resumed before its acks=0 request was handled."""
        return self._queue.qsize() < _MAX_QUEUED

    def submit(self, job: Callable[[], None]) -> None:
        """Run a function after all functions that were submitted earlier."""
        self._queue.put(job)

    def stop(self) -> None:
        """Discard the queued functions, and wait for the running function to complete."""
        self._is_stopping = True
        self._queue.put(lambda: None)
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)

    def _run_jobs(self, cluster: Cluster) -> None:
        wait = 0.0
        while not self._is_stopping:
            job = self._next_job(wait)
            with self.lock:
                self._run_safely(job)
                self._run_safely(cluster.tick)
                deadline = cluster.next_deadline()
            wait = _MAX_WAIT_S
            if deadline is not None:
                wait = min(wait, max(0.0, deadline - cluster.clock.monotonic()))

    def _next_job(self, wait: float) -> Callable[[], None]:
        try:
            return self._queue.get(timeout=wait)
        except Empty:
            return lambda: None

    @staticmethod
    def _run_safely(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:  # noqa: BLE001 the thread must survive
            _LOG.exception("error on the broker's request thread")
