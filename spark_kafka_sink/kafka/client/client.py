"""The client of a worker process: sockets, metadata, sender thread, and detected size limits.

A `Client` is used by one task at a time. It outlives the task, so that the next task can reuse its
connections.

The client also remembers which sizes brokers have rejected:

- `BatchSizeLimits`: a producer must work without the permission to read a topic's
  max.message.bytes. If max.message.bytes is below batch.size, every batch would be rejected and
  split. Therefore, the client remembers the rejected sizes (in uncompressed bytes) and creates
  smaller batches.
- `RequestSizeLimit`: brokers close the connection without a response if a request is too large.
  Kafka accepts up to 100 MiB by default (socket.request.max.bytes); other implementations accept
  less.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.common.debug_log import Debug, new_id
from spark_kafka_sink.common.errors import DeliveryError, text_of
from spark_kafka_sink.kafka.client.broker_connection import ConnectionMetrics
from spark_kafka_sink.kafka.client.metadata_updater import Metadata
from spark_kafka_sink.kafka.client.network_client import Network
from spark_kafka_sink.kafka.client.outages import no_backlog
from spark_kafka_sink.kafka.security.credentials import credentials_stamp
from spark_kafka_sink.report.metrics.producer_metrics import BrokerMeters

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.kafka.client.channel.background import Calls
    from spark_kafka_sink.kafka.client.network_client import Connect
    from spark_kafka_sink.kafka.client.request import Completion


DOUBLED_AFTER_S = 300.0
"""Seconds after which a detected limit is doubled, in case the broker's limit was raised."""

_MAX_DOUBLINGS = 31


def half(size: int) -> int:
    """Return the size of each half of a batch with `size` bytes. Sizes include the batch header."""
    from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE  # not needed for planning

    return HEADER_SIZE + (size - HEADER_SIZE + 1) // 2


class BatchSizeLimits:
    """Detected batch size limits. The sender thread updates them, and any thread can read them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float]] = {}
        """The limit of each topic in bytes, and the time at which it was detected."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, topic: str, now: float) -> int | None:
        """Return a topic's maximum uncompressed batch size in bytes with header, or None."""
        known = self._known.get(topic)
        if known is None:
            return None
        size, learned_at = known
        doublings = int((now - learned_at) / DOUBLED_AFTER_S)
        return size << min(doublings, _MAX_DOUBLINGS)

    def refused(self, topic: str, size: int, now: float) -> int:
        """Record that a batch of `size` bytes was too large; limit batches to half of this size.

        Returns:
            The new limit in uncompressed bytes.
        """
        limit = min(half(size), self.of(topic, now) or size)
        self._known[topic] = limit, now
        return limit


class RequestSizeLimit:
    """The maximum size of Produce requests with several batches; used by the sender thread.

    Args:
        largest: size limit in bytes that applies by default.
        safe: size limit in bytes that all brokers accept; applies for some time after a larger
            request was lost.
    """

    def __init__(self, largest: int, safe: int) -> None:
        self._largest = largest
        self._safe = min(safe, largest)
        self._lost_at: float | None = None

    def at(self, now: float) -> int:
        """Return the current maximum total size of a request's batches, in bytes."""
        if self._lost_at is None or now - self._lost_at >= DOUBLED_AFTER_S:
            return self._largest
        return self._safe

    def lost(self, size: int, now: float) -> None:
        """Record that a connection ended while a request of `size` bytes was unanswered."""
        if size > self._safe:
            self._lost_at = now


_LOG = logging.getLogger(__name__)
_IDLE_WAIT = 1.0
_DEAD = "the sender thread has died"
_DEAD_HINT = "run the write again; the log of the worker process might contain the reason"
THREAD_CHECK_S = 0.2
"""Interval in seconds at which a waiting thread checks that the sender thread is alive."""


class Loop(Protocol):
    """The loop that the client's thread runs while a task is attached."""

    def run_once(self) -> None:
        """Run one iteration: send, wait for the network, handle the responses."""

    def crashed(self, error: BaseException) -> None:
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
        config: ProducerConfig,
        clock: Clock | None = None,
        random: Random | None = None,
        connect: Connect | None = None,
        lookups: Calls | None = None,
        logins: Calls | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.random = random or Random()
        """Shared by the writer and the sender thread. Each draw is atomic."""
        self.batch_size_limits = BatchSizeLimits()
        self.credentials = credentials_stamp(config.security)
        """Stamp of the credentials at creation, used to detect changes of referenced secrets."""
        self.name = new_id()
        """The client's name in debug events."""
        debug = Debug(config.debug, client=self.name)
        metrics = ConnectionMetrics(config.security, debug, self.clock.monotonic)
        self.network = Network(config, self.random, connect, lookups, metrics, logins)
        self.metadata = Metadata(config, self.random, debug)
        self._process = os.getpid()

        # Set by the task's thread or the thread that closes the client; read by any thread.
        self._closed = False
        self._thread: Thread | None = None
        """The sender thread, or None before the first `attach`; retained after the thread exits."""
        self._attached: Loop | None = None
        """The task's loop, until it is detached."""

        # Filled by the task's thread, emptied by the sender thread.
        self._switches: deque[tuple[Loop | None, Event]] = deque()
        """Loops to switch to; the sender thread sets the event after the switch."""

        # Used only by the sender thread, or by the task's thread if the sender thread is not
        # running.
        self.request_size_limit = RequestSizeLimit(config.largest_request, config.max_request_size)
        self.unclaimed_completions: deque[Completion] = deque()
        """Requests that were completed between tasks. The next loop might be waiting for some of
        them.
        """
        self._loop: Loop | None = None
        """The running loop, or None between tasks and after a crash."""

    @property
    def is_dead(self) -> bool:
        """True if the sender thread has exited or crashed."""
        return self._thread is not None and not self._thread.is_alive()

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
                hint="open connections after the fork: threads and sockets belong to the parent",
            )

    def check_thread(self) -> None:
        """Report a crash to the attached loop if the sender thread died without reporting it.

        The task's thread calls this method while it waits for the sender thread.
        """
        if self.is_dead and self._attached is not None:
            self._attached.crashed(DeliveryError(_DEAD, hint=_DEAD_HINT))

    def attach(self, loop: Loop) -> None:
        """Make the sender thread run `loop`; the first call starts the thread.

        Raises:
            DeliveryError: the thread has died, or the client is closed.
        """
        self.check_process()
        if not self._switch(loop):
            raise DeliveryError(_DEAD, hint=_DEAD_HINT)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="kafkaprod-sender", daemon=True)
            self._thread.start()

    def detach(self) -> None:
        """Detach the loop, and wait until its current iteration is complete."""
        if not self.is_forked:
            self._switch(None)

    def close(self) -> None:
        """Stop the thread and close the connections; do nothing in a forked child."""
        if self.is_forked:
            return
        self._closed = True
        self.network.wakeup()
        if self._thread is not None:
            self._thread.join()
        self.network.close(self.clock.monotonic())

    def _switch(self, loop: Loop | None) -> bool:
        """Switch to `loop`. Return False if the client is closed or the sender thread has died."""
        self._attached = loop
        if self._thread is None:
            self._run_loop(loop)
            return not self._closed
        done = Event()
        self._switches.append((loop, done))
        self.network.wakeup()
        while not self.is_dead and not done.wait(THREAD_CHECK_S):
            pass
        if not done.is_set():
            self._take_switches()  # The sender thread has exited.
        return not self._closed and not self.is_dead

    def _run(self) -> None:
        while not self._closed:
            self._take_switches()
            self._turn()
        self._take_switches()

    def _take_switches(self) -> None:
        while self._switches:
            loop, done = self._switches.popleft()
            self.metadata.end_session(self.clock.monotonic())
            self._run_loop(loop)
            done.set()

    def _run_loop(self, loop: Loop | None) -> None:
        """Replace the running loop by `loop`, and use its meters and backlog."""
        self._loop = loop
        self.network.metrics.meters = BrokerMeters() if loop is None else loop.broker_meters
        self.network.outages.backlog = no_backlog if loop is None else loop.backlog

    def _turn(self) -> None:
        loop = self._loop
        try:
            if loop is None:
                self._idle()
            else:
                loop.run_once()
        except BaseException as error:  # The loop reports it to the writer.
            if loop is None:
                if not isinstance(error, Exception):
                    raise
                _LOG.warning("an idle connection failed: %s", text_of(error))
                return
            self._loop = None
            loop.crashed(error)

    def _idle(self) -> None:
        """Poll between tasks to detect closed connections and handle pending Metadata responses."""
        for completion in self.network.poll(_IDLE_WAIT, self.clock.monotonic):
            if completion.request.context is self.metadata:
                self.metadata.handle_response(completion, self.clock.monotonic())
            else:
                self.unclaimed_completions.append(completion)
