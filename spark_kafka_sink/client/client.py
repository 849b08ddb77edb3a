"""A client lives in the worker process: sockets, metadata, and the thread that runs the sender.

It serves one task at a time and outlives it, so that the next task finds open connections.
"""

from __future__ import annotations

import logging
from collections import deque
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.base.clock import Clock, SystemClock
from spark_kafka_sink.base.debug import Debug, new_id
from spark_kafka_sink.client.metadata import Metadata
from spark_kafka_sink.client.network import Network
from spark_kafka_sink.client.observer import Observer
from spark_kafka_sink.client.transport import TcpTransport

if TYPE_CHECKING:
    from spark_kafka_sink.base.config import ProducerConfig
    from spark_kafka_sink.client.network import Completion, Connect
    from spark_kafka_sink.client.resolver import Resolver

_LOG = logging.getLogger(__name__)
_IDLE_WAIT = 1.0


class Loop(Protocol):
    """What the client's thread runs while a task is attached."""

    def run_once(self) -> None:
        """One turn: send, wait for the network, take the answers."""

    def crashed(self, error: BaseException) -> None:
        """`run_once` raised; nothing will run any more."""


class Client:
    """Connections and metadata for one configuration, driven by one daemon thread."""

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock | None = None,
        random: Random | None = None,
        connect: Connect = TcpTransport,
        resolver: Resolver | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.random = random or Random()
        self.network = Network(config, self.random, connect, resolver)
        self.metadata = Metadata(config, self.random)
        self.name = new_id()
        """What debug events call the client."""
        self.network.observer = Observer(Debug(config.debug, client=self.name))
        self.metadata.debug = Debug(config.debug, client=self.name)
        self.late: deque[Completion] = deque()
        """What completed between tasks: a loop may still have been waiting for it."""
        self._loop: Loop | None = None
        self._closed = False
        self._thread: Thread | None = None
        self._switches: deque[tuple[Loop | None, Event]] = deque()
        """Loops to change to; the thread sets the event when it has."""

    def attach(self, loop: Loop) -> None:
        """Let the thread run `loop`; it is started with the first one."""
        self._switch(loop)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="kafkaprod-sender", daemon=True)
            self._thread.start()

    def detach(self) -> None:
        """Take the loop away; when this returns, no turn of it is running."""
        self._switch(None)

    def close(self) -> None:
        """Stop the thread and close the connections."""
        self._closed = True
        self.network.wakeup()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.network.close(self.clock.monotonic())

    def _switch(self, loop: Loop | None) -> None:
        if self._thread is None:
            self._loop = loop
            return
        done = Event()
        self._switches.append((loop, done))
        self.network.wakeup()
        done.wait()

    def _run(self) -> None:
        while not self._closed:
            self._take_switches()
            self._turn()
        self._take_switches()

    def _take_switches(self) -> None:
        while self._switches:
            self._loop, done = self._switches.popleft()
            done.set()

    def _turn(self) -> None:
        loop = self._loop
        try:
            if loop is None:
                self._idle()
            else:
                loop.run_once()
        except Exception as error:  # noqa: BLE001 - the writer must hear of it
            if loop is None:
                _LOG.warning("an idle connection failed: %s", error)
                return
            self._loop = None
            loop.crashed(error)

    def _idle(self) -> None:
        """Between tasks: notice closed connections, take metadata that is still on its way."""
        for completion in self.network.poll(_IDLE_WAIT, self.clock.monotonic):
            if completion.request.context is self.metadata:
                self.metadata.take(completion, self.clock.monotonic())
            else:
                self.late.append(completion)
