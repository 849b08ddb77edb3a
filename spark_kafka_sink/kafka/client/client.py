"""The client of a worker process: sockets, metadata, and the sender thread.

A `Client` is used by one task at a time. It outlives the task, so that the next task can reuse its
connections.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections import deque
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.common.debug_log import DebugLog, new_id
from spark_kafka_sink.common.errors import DeliveryError, error_text
from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
from spark_kafka_sink.kafka.client.connection_metrics import ConnectionMetrics
from spark_kafka_sink.kafka.client.metadata import Metadata
from spark_kafka_sink.kafka.client.network_client import NetworkClient
from spark_kafka_sink.kafka.client.outages import no_backlog
from spark_kafka_sink.kafka.security.credentials_fingerprint import credentials_fingerprint

if TYPE_CHECKING:
    from spark_kafka_sink.config.client_config import ClientConfig
    from spark_kafka_sink.kafka.client.channel.background import Calls
    from spark_kafka_sink.kafka.client.channel.transport import Connect
    from spark_kafka_sink.kafka.client.request import Completion


_LOG = logging.getLogger(__name__)
_IDLE_WAIT_S = 1.0
"""Longest wait for the network between tasks, in seconds."""
_DEAD = "the sender thread has died"
_DEAD_HINT = "Run the write again; the log of the worker process might contain the reason."
THREAD_CHECK_S = 0.2
"""Interval in seconds at which a waiting thread checks that the sender thread is alive."""
_STALLED_S = 60.0
"""Seconds of waits during one iteration of the sender thread after which it is considered stalled.

The durations of completed waits are added up: no clock is read, because the process might have been
suspended.
"""


def thread_start_error(name: str, error: RuntimeError) -> DeliveryError:
    """Return the error for a thread that the system does not start."""
    return DeliveryError(
        f"the {name} thread cannot start: {error}",
        hint="Raise the limit of processes and threads (ulimit -u, or the container's pids limit) "
        "or of the address space (spark.executor.pyspark.memory).",
    )


class Loop(Protocol):
    """The loop that the client's thread runs while a task is attached."""

    def run_once(self) -> None:
        """Run one iteration: send, wait for the network, handle the responses."""

    def handle_crash(self, error: BaseException) -> None:
        """Handle an exception of `run_once`. Afterwards, `run_once` is not called again."""

    @property
    def broker_meters(self) -> BrokerMeters:
        """The connection counters to update while this loop runs."""

    def backlog(self, node_id: int, now: float) -> str:
        """Return a message about records that are waiting for a broker, or "" if none are."""


class Client:
    """The connections and metadata for one configuration, used by one daemon thread."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        connect: Connect | None = None,
        logins: Calls | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.random = random or Random()
        """Shared by the writer and the sender thread. Each draw is atomic."""
        self.credentials = credentials_fingerprint(config.security)
        """Fingerprint of the credentials at creation, to detect changes of referenced secrets."""
        self.name = new_id()
        """The client's name in debug events."""
        debug = DebugLog(config.debug, client=self.name)
        metrics = ConnectionMetrics(config.security, debug, self.clock.monotonic)
        self.network = NetworkClient(
            config,
            random=self.random,
            connect=connect,
            metrics=metrics,
            logins=logins,
        )
        self.metadata = Metadata(config, self.random, debug)
        self._process = os.getpid()

        # Set by the task's thread or the thread that closes the client; read by any thread.
        self._closed = False
        self._thread: Thread | None = None
        """The sender thread, or None before the first `attach`; retained after the thread exits."""
        self._task_loop: Loop | None = None
        """The task's loop, until it is detached."""
        self._waited_s = 0.0
        """Seconds that threads have waited during the current iteration of the sender thread."""
        self._stalled: DeliveryError | None = None
        """The error if the sender thread does not finish an iteration; it is not used again."""

        # Filled by the task's thread, emptied by the sender thread.
        self._switches: deque[tuple[Loop | None, Event]] = deque()
        """Loops to switch to; the sender thread sets the event after the switch."""

        # Used only by the sender thread, or by the task's thread if the sender thread is not
        # running.
        self.unclaimed_completions: deque[Completion] = deque()
        """Requests that were completed between tasks. The next loop might be waiting for some of
        them.
        """
        self._loop: Loop | None = None
        """The running loop, or None between tasks and after a crash."""

    @property
    def is_dead(self) -> bool:
        """True if the sender thread has exited, crashed or stalled."""
        if self._thread is None:
            return False
        return self._stalled is not None or not self._thread.is_alive()

    @property
    def is_reusable(self) -> bool:
        """True if the next session may use the client; see `client_pool`."""
        return not self.is_dead

    @property
    def is_forked(self) -> bool:
        """True in a forked child of the creating process, which has no sender thread."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise a DeliveryError in a forked child process, where locks and threads would block."""
        if self.is_forked:
            raise DeliveryError(
                "the session belongs to the parent of this forked process",
                hint="Open connections after the fork: threads and sockets belong to the parent.",
            )

    def check_thread(self, waited_s: float) -> None:
        """Report to the attached loop that the sender thread died silently, or that it stalls.

        The task's thread calls this method after each `waited_s` seconds of waiting for the sender
        thread.
        """
        self._waited_s += waited_s
        if self._waited_s >= _STALLED_S and not self.is_dead and self._thread is not None:
            self._stalled = _stalled_error(self._thread)
        if self.is_dead and self._task_loop is not None:
            self._task_loop.handle_crash(self._stalled or DeliveryError(_DEAD, hint=_DEAD_HINT))

    def attach(self, loop: Loop) -> None:
        """Make the sender thread run `loop`; the first call starts the thread.

        Raises:
            DeliveryError: the thread has died or cannot start, or the client is closed.
        """
        self.check_process()
        if not self._switch_loop(loop):
            raise DeliveryError(_DEAD, hint=_DEAD_HINT)
        if self._thread is None:
            thread = Thread(target=self._run_sender_thread, name="kafkaprod-sender", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise thread_start_error("sender", error) from error
            self._thread = thread

    def detach(self) -> None:
        """Detach the loop, and wait until its current iteration is complete."""
        if not self.is_forked:
            self._switch_loop(None)

    def close(self) -> None:
        """Stop the thread and close the connections; do nothing in a forked child."""
        if self.is_forked:
            return
        self._closed = True
        self.network.wakeup()
        if self._stalled is not None:
            return  # The thread closes the connections if it continues.
        if self._thread is not None:
            self._thread.join()
        self.network.close(self.clock.monotonic())

    def _switch_loop(self, loop: Loop | None) -> bool:
        """Switch to `loop`. Return False if the client is closed or the sender thread has died."""
        self._task_loop = loop
        if self._thread is None:
            self._run_loop(loop)
            return not self._closed
        done = Event()
        self._switches.append((loop, done))
        self.network.wakeup()
        while not self.is_dead and not done.wait(THREAD_CHECK_S):
            self.check_thread(THREAD_CHECK_S)
        if not done.is_set():
            self._take_switches()  # The sender thread has exited, or stalls outside of this queue.
        return not self._closed and not self.is_dead

    def _run_sender_thread(self) -> None:
        while not self._closed:
            self._waited_s = 0.0
            self._take_switches()
            self._run_iteration()
        self._take_switches()
        if self._stalled is not None:
            self.network.close(self.clock.monotonic())

    def _take_switches(self) -> None:
        while True:
            try:
                loop, done = self._switches.popleft()
            except IndexError:  # The queue is empty, or a stalled thread has continued.
                return
            self.metadata.end_session(self.clock.monotonic())
            self._run_loop(loop)
            done.set()

    def _run_loop(self, loop: Loop | None) -> None:
        """Replace the running loop by `loop`, and use its meters and backlog."""
        self._loop = loop
        if loop is None:
            self.network.use_session_meters(BrokerMeters(), no_backlog)
        else:
            self.network.use_session_meters(loop.broker_meters, loop.backlog)

    def _run_iteration(self) -> None:
        loop = self._loop
        try:
            if loop is None:
                self._poll_idle()
            else:
                loop.run_once()
        except BaseException as error:  # The loop reports it to the writer.
            if loop is None:
                if not isinstance(error, Exception):
                    raise
                _LOG.warning("an idle connection failed: %s", error_text(error))
                return
            self._loop = None
            loop.handle_crash(error)

    def _poll_idle(self) -> None:
        """Poll between tasks to detect closed connections and handle pending Metadata responses."""
        for completion in self.network.poll(_IDLE_WAIT_S, self.clock.monotonic):
            if completion.request.context is self.metadata:
                self.metadata.handle_response(completion, self.clock.monotonic())
            else:
                self.unclaimed_completions.append(completion)


def _stalled_error(thread: Thread) -> DeliveryError:
    """Return the error for a thread that does not finish an iteration, with its current line."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - its documented use
    location = "" if frame is None else "".join(traceback.format_stack(frame, limit=1)).strip()
    return DeliveryError(
        f"the sender thread has made no progress for {_STALLED_S:g} s: "
        f"{' '.join(location.split())}",
        hint="Run the write again, and report this as a bug in spark-kafka-sink.",
    )
