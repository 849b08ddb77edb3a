"""The client of a worker process: sockets, metadata, sender thread, and learned size limits.

How large the batches of each topic, and all requests, may be, as the brokers have taught.

No client may have to ask for max.message.bytes, and where it is below batch.size every batch would
be refused and split. So what was refused is remembered, in uncompressed bytes, and planned for.
A request that is too large gets no answer: Kafka's brokers take 100 MiB (socket.request.max.bytes)
and others less, who just close the connection.

A client lives in the worker process: sockets, metadata, and the thread that runs the sender.

It serves one task at a time and outlives it, so that the next task finds open connections.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from dataclasses import dataclass
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.client.broker_connection import ConnectionMetrics
from spark_kafka_sink.client.metadata import Metadata
from spark_kafka_sink.client.network import Network
from spark_kafka_sink.client.outages import no_backlog
from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.common.debug_log import Debug, new_id
from spark_kafka_sink.common.errors import DeliveryError, text_of
from spark_kafka_sink.metrics.recorder import BrokerMeters
from spark_kafka_sink.security.credentials import credentials_stamp

if TYPE_CHECKING:
    from spark_kafka_sink.client.broker_connection import Connect
    from spark_kafka_sink.client.channel.authenticator import LoginSteps
    from spark_kafka_sink.client.channel.resolver import Resolver
    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.config.model import ProducerConfig


DOUBLED_AFTER = 300.0
"""Seconds after which twice as much is tried, and so on: the limit may have been raised."""

_MOST_DOUBLINGS = 31


def half(size: int) -> int:
    """Bytes of a batch with half of the records of one of `size` bytes, headers included."""
    from spark_kafka_sink.records.record_batch import HEADER_SIZE  # not where a write is planned

    return HEADER_SIZE + (size - HEADER_SIZE + 1) // 2


@dataclass(frozen=True, slots=True)
class _Ceiling:
    size: int
    learned_at: float


class BatchSizeLimits:
    """One client's; the sender thread learns, any thread may ask."""

    def __init__(self) -> None:
        self._known: dict[str, _Ceiling] = {}
        """Entries are replaced, never changed."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, topic: str, now: float) -> int | None:
        """Most bytes of a batch before compression, its header included; None: nothing is known."""
        known = self._known.get(topic)
        if known is None:
            return None
        doublings = int((now - known.learned_at) / DOUBLED_AFTER)
        return known.size << min(doublings, _MOST_DOUBLINGS)

    def refused(self, topic: str, size: int, now: float) -> int:
        """A batch of this size was too large; half of its records may do.

        Returns:
            What may be sent now, in the same bytes.
        """
        ceiling = min(half(size), self.of(topic, now) or size)
        self._known[topic] = _Ceiling(ceiling, now)
        return ceiling


class RequestSizeLimit:
    """How large a Produce request of several batches may be; one client's, sender thread only.

    Args:
        largest: bytes.
        safe: bytes that every broker takes; what is above them may be why a request was lost.
    """

    def __init__(self, largest: int, safe: int) -> None:
        self._largest = largest
        self._safe = min(safe, largest)
        self._lost_at: float | None = None

    def at(self, now: float) -> int:
        """Most bytes of the batches of a request."""
        if self._lost_at is None or now - self._lost_at >= DOUBLED_AFTER:
            return self._largest
        return self._safe

    def lost(self, size: int, now: float) -> None:
        """The connection ended while a request of this size was unanswered."""
        if size > self._safe:
            self._lost_at = now


_LOG = logging.getLogger(__name__)
_IDLE_WAIT = 1.0
LOOK_EVERY = 0.2
"""Seconds after which whoever waits for the thread looks whether it lives."""


class Loop(Protocol):
    """What the client's thread runs while a task is attached."""

    def run_once(self) -> None:
        """One turn: send, wait for the network, take the answers."""

    def crashed(self, error: BaseException) -> None:
        """`run_once` raised; nothing will run any more."""

    @property
    def broker_meters(self) -> BrokerMeters:
        """What the connections count while this loop runs."""

    def backlog(self, node_id: int, now: float) -> str:
        """A sentence on what waits for a broker; "" where nothing does."""


class Client:
    """Connections and metadata for one configuration, driven by one daemon thread."""

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock | None = None,
        random: Random | None = None,
        connect: Connect | None = None,
        resolver: Resolver | None = None,
        logins: LoginSteps | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.random = random or Random()
        """For the threads of writer and sender: each draw is atomic, their order is not fixed."""
        self.batch_size_limits = BatchSizeLimits()
        self.credentials = credentials_stamp(config.security)
        """What the references among the settings led to when the client was made."""
        self.name = new_id()
        """What debug events call the client."""
        debug = Debug(config.debug, client=self.name)
        metrics = ConnectionMetrics(config.security, debug, self.clock.monotonic)
        self.network = Network(config, self.random, connect, resolver, metrics, logins)
        self.metadata = Metadata(config, self.random, debug)
        self._process = os.getpid()

        # Set by the task's thread, or whoever closes the client; read by any.
        self._closed = False
        self._thread: Thread | None = None
        """From the first `attach` on, also when it has ended."""
        self._attached: Loop | None = None
        """The task's, until it is detached."""

        # Filled by the task's thread, emptied by the client's.
        self._switches: deque[tuple[Loop | None, Event]] = deque()
        """Loops to change to; the thread sets the event when it has."""

        # Sender thread only; the task's where that has not begun or has ended.
        self.request_size_limit = RequestSizeLimit(config.largest_request, config.max_request_size)
        self.late: deque[Completion] = deque()
        """What completed between tasks: a loop may still have been waiting for it."""
        self._loop: Loop | None = None
        """What the thread runs; None after it has crashed."""

    @property
    def gone(self) -> bool:
        """No loop runs any more: the thread has ended or crashed."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def is_forked(self) -> bool:
        """This is a child of the process that made the client: its thread is not here."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise a DeliveryError in a forked child, before it waits for locks and threads."""
        if self.is_forked:
            raise DeliveryError(
                "the session belongs to the process that this one was forked from",
                hint="open connections after the fork: threads and sockets stay with the parent",
            )

    def check_thread(self) -> None:
        """Tell the attached loop that it has crashed if the thread died before it could say so.

        For the task's thread, while it waits for something that the client's has to do.
        """
        if self.gone and self._attached is not None:
            hint = "run the write again; the log of the worker process may say why it ended"
            self._attached.crashed(DeliveryError("the sender thread has died", hint=hint))

    def attach(self, loop: Loop) -> None:
        """Let the thread run `loop`; it is started with the first one.

        Raises:
            DeliveryError: the thread has died, or the client is closed.
        """
        self.check_process()
        if not self._switch(loop):
            raise DeliveryError(
                "the sender thread has died",
                hint="run the write again; the log of the worker process may say why it ended",
            )
        if self._thread is None:
            self._thread = Thread(target=self._run, name="kafkaprod-sender", daemon=True)
            self._thread.start()

    def detach(self) -> None:
        """Take the loop away; when this returns, no turn of it is running."""
        if not self.is_forked:
            self._switch(None)

    def close(self) -> None:
        """Stop the thread and close the connections; in a forked child they are the parent's."""
        if self.is_forked:
            return
        self._closed = True
        self.network.wakeup()
        if self._thread is not None:
            self._thread.join()
        self.network.close(self.clock.monotonic())

    def _switch(self, loop: Loop | None) -> bool:
        """Whether there is a thread, or will be, that runs the loop."""
        self._attached = loop
        if self._thread is None:
            self._run_loop(loop)
            return not self._closed
        done = Event()
        self._switches.append((loop, done))
        self.network.wakeup()
        while not self.gone and not done.wait(LOOK_EVERY):
            pass
        if not done.is_set():
            self._take_switches()  # the thread has ended, and does so no more
        return not self._closed and not self.gone

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
        """From here on nothing but `loop` is run, counted for, or asked what waits."""
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
        except BaseException as error:  # noqa: BLE001 - the writer must hear of it
            if loop is None:
                self._failed_idle(error)
                return
            self._loop = None
            loop.crashed(error)

    @staticmethod
    def _failed_idle(error: BaseException) -> None:
        """Log an error for which there is no task to fail; re-raise what is not an `Exception`."""
        if not isinstance(error, Exception):
            raise error
        _LOG.warning("an idle connection failed: %s", text_of(error))

    def _idle(self) -> None:
        """Between tasks: notice closed connections, take metadata that is still on its way."""
        for completion in self.network.poll(_IDLE_WAIT, self.clock.monotonic):
            if completion.request.context is self.metadata:
                self.metadata.handle_response(completion, self.clock.monotonic())
            else:
                self.late.append(completion)
