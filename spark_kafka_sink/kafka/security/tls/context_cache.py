"""The TLS contexts of a process, one per configuration.

A context is recreated after any of its files has changed, so the next connection uses a certificate
that was renewed on disk. Open connections are unaffected. Creating a context takes milliseconds, or
a second for some PKCS12 files, and blocks indefinitely if the file system hangs. Each context
contains its own copy of the trusted certificates.
"""

from __future__ import annotations

import logging
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.security.changing_files import (
    SETTLING_S,
    FileStamps,
    file_stamps,
    retry_while_files_change,
)
from spark_kafka_sink.kafka.security.tls.client_context import create_client_context
from spark_kafka_sink.kafka.security.tls.stores import store_files

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from spark_kafka_sink.config.security.security_config import TlsConfig


_LOG = logging.getLogger(__name__)
MAX_CACHED = 8
"""Maximum number of cached contexts. The least recently used context is dropped first."""
_WAIT_S = 2.0
"""Maximum seconds that a thread with a previous context waits while a different thread reads the
same files. Afterwards, it uses the previous context. The time is less than the connection timeout.
"""
_FIRST_WAIT_S = 60.0
"""Maximum seconds that a thread without a previous context waits for a different thread."""


@dataclass(slots=True)
class _CachedContext:
    """The cache entry of one configuration. Guarded by the cache's lock."""

    stamps: FileStamps = ()
    context: ssl.SSLContext | None = None
    is_busy: bool = False
    """True while a thread is reading the files; only that thread changes the other fields."""


class ContextCache:
    """Thread-safe cache of contexts by configuration, for threads that are allowed to block.

    Args:
        make: creates a context from the current content of the files.
        wait_s: see `_WAIT_S`.
        settling: seconds to wait for files that are being replaced if there is no previous context.
        first_wait_s: see `_FIRST_WAIT_S`.
    """

    def __init__(
        self,
        make: Callable[[TlsConfig], ssl.SSLContext] = create_client_context,
        wait_s: float = _WAIT_S,
        settling: float = SETTLING_S,
        first_wait_s: float = _FIRST_WAIT_S,
    ) -> None:
        self._make = make
        self._wait_s = wait_s
        self._first_wait_s = first_wait_s
        self._settling = settling
        self._changed = threading.Condition()
        """Guards `_entries` and their fields. Not held while a file is read."""
        self._entries: dict[TlsConfig, _CachedContext] = {}

    def context(self, config: TlsConfig) -> ssl.SSLContext:
        """Return the context for a new connection.

        Files that are being replaced might not match each other. In that case, the previous context
        is used until the files change again. Without a previous context, this method waits a few
        seconds for a change.

        Raises:
            ConfigError: a store cannot be read or opened, and there is no previous context.
            TimeoutError: a different thread is still reading the files, and there is no previous
                context.
        """
        with self._changed:
            entry = self._entries.pop(config, None) or _CachedContext()
            self._entries[config] = entry  # Add the entry at the end, so that it is dropped last.
            self._drop_oldest()
            while entry.is_busy:
                self._wait_for_other_thread(entry)
                if entry.is_busy and entry.context is not None:
                    return entry.context
            entry.is_busy = True
        try:
            return self._current_context(config, entry)
        finally:
            with self._changed:
                entry.is_busy = False
                self._changed.notify_all()

    def _wait_for_other_thread(self, entry: _CachedContext) -> None:
        """Wait until the thread that reads the files has finished.

        Raises:
            TimeoutError: it has not finished, and there is no previous context.
        """
        limit_s = self._first_wait_s if entry.context is None else self._wait_s
        self._changed.wait_for(lambda: not entry.is_busy, limit_s)
        if entry.is_busy and entry.context is None:
            raise TimeoutError(
                f"a different thread has not read the TLS certificates on {socket.gethostname()} "
                f"within {limit_s:g} s: does their file system respond?"
            )

    def _current_context(self, config: TlsConfig, entry: _CachedContext) -> ssl.SSLContext:
        """Return the context for the current files.

        Called by the thread that has marked `entry` as busy.
        """
        files = store_files(config)
        if entry.context is not None and entry.stamps == file_stamps(files):
            return entry.context
        context, stamps = retry_while_files_change(
            files, lambda: self._create_context(config, entry.context), self._settling
        )
        with self._changed:
            entry.stamps = stamps
            entry.context = context
        return context

    def _create_context(self, config: TlsConfig, kept: ssl.SSLContext | None) -> ssl.SSLContext:
        try:
            return self._make(config)
        except Exception as error:
            if kept is None:
                raise
            # The error text of a library might contain secrets.
            text = error if isinstance(error, ConfigError) else type(error).__name__
            _LOG.warning(
                "Cannot reload the certificates; TLS continues with those read earlier: %s", text
            )
            return kept

    def _drop_oldest(self) -> None:
        while len(self._entries) > MAX_CACHED:
            del self._entries[next(iter(self._entries))]


broker_contexts = ContextCache()
"""TLS contexts for connections to brokers, shared by the process."""
