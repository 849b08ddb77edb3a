"""Beside the driver: a thread that hears what the tasks tell, adds it up, and shows it."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from spark_kafka_sink.spark.progress.address import ProgressAddress
from spark_kafka_sink.spark.progress.task_progress import TaskProgress
from spark_kafka_sink.spark.progress.write_progress import ProgressSum

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.spark.progress.write_progress import WriteProgress

_DATAGRAM = 4096
"""Bytes; those of tasks are much smaller."""
_SILENT = 3
"""After so many intervals without a word a task is not counted as running."""


class ProgressListener:
    """A UDP port and who listens to it, from its making until `close`.

    Args:
        host: the address to listen on, which executors reach.
        interval_s: how often tasks tell their progress, and how often `show` is called.
        show: gets the sum of all tasks, in the listener's thread; not before the first task.

    Raises:
        OSError: there is no port to be had on that address.
    """

    def __init__(self, host: str, interval_s: float, show: Callable[[WriteProgress], None]) -> None:
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
        self._shown: WriteProgress | None = None
        """What was shown last, without its times; the listener's thread alone."""
        self._end = Event()
        self._lock = Lock()
        self._sum = ProgressSum()
        """Guarded by the lock."""
        self._thread = Thread(target=self._run, name="kafkaprod-progress", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> WriteProgress:
        """What is known now."""
        with self._lock:
            return self._sum.total(time.monotonic(), _SILENT * self.address.interval_s)

    def close(self) -> None:
        """Hear what has come already, show the end, and let go of the port."""
        self._end.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        due, heard = time.monotonic() + self.address.interval_s, False
        while not self._end.is_set():
            heard = self._hear() or heard
            now = time.monotonic()
            if now >= due and heard:
                due = now + self.address.interval_s
                self._tell()
        self._socket.setblocking(False)
        while self._hear():
            heard = True
        if heard:
            self._tell(at_end=True)

    def _tell(self, *, at_end: bool = False) -> None:
        """Show what is known, unless that was shown already and nothing runs, or all is over."""
        found = self.latest
        counts = replace(found, seconds=0.0, rate=0.0)
        if counts != self._shown or (found.running and not at_end):
            self._show(found)
        self._shown = counts

    def _hear(self) -> bool:
        """Take a datagram; whether there was one of a task."""
        with suppress(TimeoutError, BlockingIOError):
            datagram = self._socket.recv(_DATAGRAM)
            progress = TaskProgress.decode(datagram, self.address.token)
            if progress is not None:
                with self._lock:
                    self._sum.take(progress, time.monotonic())
                return True
        return False
