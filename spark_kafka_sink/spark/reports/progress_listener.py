"""Receive the progress of tasks as datagrams, in a thread."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from spark_kafka_sink.spark.reports.task_progress import ProgressAddress, TaskProgress
from spark_kafka_sink.spark.reports.write_progress import ProgressSum

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.spark.reports.write_progress import WriteProgress

_DATAGRAM = 4096
"""Maximum size of a datagram in bytes; the datagrams of tasks are much smaller."""
_MISSED_INTERVALS = 3
"""Number of intervals without a datagram after which a task no longer counts as running."""


class ProgressListener:
    """A UDP port and the thread that listens on it until `close`.

    Args:
        host: the address to listen on, reachable from the executors. An IPv6 address can be in
            brackets, as in ``spark.driver.host``.
        interval_s: seconds between datagrams of a task, and between calls of `show`.
        show: called in the listener's thread with the sum over all tasks, as soon as the first task
            reports.

    Raises:
        OSError: no port is available on that address.
    """

    def __init__(self, host: str, interval_s: float, show: Callable[[WriteProgress], None]) -> None:
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.settimeout(min(interval_s, 0.2))
        self.address = ProgressAddress(
            host=host,
            port=self._socket.getsockname()[1],
            token=secrets.token_hex(16),
            interval_s=interval_s,
        )
        self._show = show
        self._displayed: WriteProgress | None = None
        """The last displayed progress, without its times. Used only by the listener's thread."""
        self._end = Event()
        self._lock = Lock()
        self._sum = ProgressSum()
        """Guarded by the lock."""
        self._thread = Thread(target=self._listen, name="kafkaprod-progress-listener", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> WriteProgress:
        """The current progress."""
        with self._lock:
            return self._sum.total(time.monotonic(), _MISSED_INTERVALS * self.address.interval_s)

    def close(self) -> None:
        """Receive pending datagrams, show the final progress, and close the port."""
        self._end.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        due = time.monotonic() + self.address.interval_s
        received = False
        while not self._end.is_set():
            received = self._receive_datagram() or received
            now = time.monotonic()
            if now >= due and received:
                due = now + self.address.interval_s
                self._show_progress()
        self._socket.setblocking(False)
        while self._receive_datagram():
            received = True
        if received:
            self._show_progress(at_end=True)

    def _show_progress(self, *, at_end: bool = False) -> None:
        """Show the progress.

        Unchanged progress is shown only while tasks are running, not at the end.
        """
        latest = self.latest
        counts = replace(latest, seconds=0.0, rate=0.0)
        if counts != self._displayed or (latest.running and not at_end):
            self._show(latest)
        self._displayed = counts

    def _receive_datagram(self) -> bool:
        """Receive a datagram; return True if it came from a task."""
        with suppress(TimeoutError, BlockingIOError):
            datagram = self._socket.recv(_DATAGRAM)
            progress = TaskProgress.decode(datagram, self.address.token)
            if progress is not None:
                with self._lock:
                    self._sum.add(progress, time.monotonic())
                return True
        return False
