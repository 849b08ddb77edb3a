"""A process's idle clients, for reuse by the next task or driver step.

The pool retains one client for each configuration, including its secrets. A client is reused only
if the files and environment variables to which the configuration refers are unchanged, because they
were used to authenticate the connections.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from spark_kafka_sink.kafka.security.credentials_fingerprint import (
    CredentialsFingerprint,
    credentials_fingerprint,
)

if TYPE_CHECKING:
    from spark_kafka_sink.config.client_config import ClientConfig

S = TypeVar("S")
MAX_IDLE = 4
"""Maximum number of idle clients in a pool. The least recently used client is closed first."""


class Reusable(Protocol):
    """A client that can be retained in a pool."""

    @property
    def config(self) -> ClientConfig:
        """The configuration of the client."""

    @property
    def credentials(self) -> CredentialsFingerprint:
        """Fingerprint of the credentials at creation."""

    @property
    def is_reusable(self) -> bool:
        """True if the next user may use the client."""

    def close(self) -> None:
        """Close the connections."""


C = TypeVar("C", bound=Reusable)


class ClientPool(Generic[C, S]):
    """A pool of idle clients, each with reusable state. Any thread can use the pool.

    A process can run several queries on different threads. A forked process does not reuse the
    clients of its parent.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        """Guards `_idle`; not held while a client is closed."""
        self._idle: dict[tuple[int, ClientConfig], tuple[C, S]] = {}
        """Clients by process id and configuration. The least recently used client comes first."""

    def borrow(self, config: ClientConfig) -> tuple[C, S] | None:
        """Remove and return a reusable idle client and its state, or return None."""
        with self._lock:
            kept = self._idle.pop((os.getpid(), config), None)
        if kept is None:
            return None
        client = kept[0]
        if client.is_reusable and client.credentials == credentials_fingerprint(config.security):
            return kept
        client.close()
        return None

    def keep(self, client: C, state: S) -> None:
        """Store a client for the next `borrow`, or close it if it is not reusable."""
        if not client.is_reusable:
            client.close()
            return
        key = (os.getpid(), client.config)
        with self._lock:
            surplus = [self._idle.pop(key)] if key in self._idle else []
            self._idle[key] = (client, state)
            while len(self._idle) > MAX_IDLE:
                surplus.append(self._idle.pop(next(iter(self._idle))))
        for other, _ in surplus:
            other.close()

    def close(self) -> None:
        """Close all idle clients."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
        for client, _ in idle:
            client.close()
