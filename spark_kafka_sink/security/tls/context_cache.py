"""One context per process and configuration, made anew when a file that it came from changed.

So a certificate that is renewed on disk is shown by the next connection; those that are open stay
as they are. Making a context takes milliseconds, a second for some PKCS12 files, and for ever on a
file system that does not answer; each holds its own copy of the authorities.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.security.replaced_files import (
    SETTLING_S,
    Stamps,
    change_follows,
    stamps_of,
)
from spark_kafka_sink.security.tls.context import client_context
from spark_kafka_sink.security.tls.store_files import files_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from spark_kafka_sink.config.security.model import TlsConfig

MAX_KEPT = 8
"""Contexts that a process keeps; the one unused longest goes first."""
PATIENCE = 2.0
"""Seconds that a thread waits while another one looks at the same files; then it goes on with the
context from before, if there is one. Less than the time that a connection has."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    """What is known of one configuration; guarded by the cache's lock."""

    stamps: Stamps = ()
    context: ssl.SSLContext | None = None
    is_busy: bool = False
    """A thread looks at the files; it alone changes the others."""


class ContextCache:
    """Contexts by configuration; any thread may ask, of those that may wait.

    Args:
        make: a context from what the files hold now.
        patience: see `PATIENCE`.
        settling: seconds that the first context waits for files that are being replaced.
    """

    def __init__(
        self,
        make: Callable[[TlsConfig], ssl.SSLContext] = client_context,
        patience: float = PATIENCE,
        settling: float = SETTLING_S,
    ) -> None:
        self._make = make
        self._patience = patience
        self._settling = settling
        self._changed = threading.Condition()
        """Guards `_entries` and what they hold; never held while a file is looked at."""
        self._entries: dict[TlsConfig, _Entry] = {}

    def context(self, config: TlsConfig) -> ssl.SSLContext:
        """The context for a new connection.

        While files are being replaced they may not fit each other: then the last context goes on
        being used, until they change again. Where there is none, they have a few seconds.

        Raises:
            ConfigError: a store can't be read or does not open, and none was made before.
        """
        with self._changed:
            entry = self._entries.pop(config, None) or _Entry()
            self._entries[config] = entry  # so that it is the last to go
            self._forget()
            while entry.is_busy:
                limit = None if entry.context is None else self._patience
                if not self._changed.wait(limit) and entry.context is not None:
                    return entry.context
            entry.is_busy = True
        try:
            return self._look(config, entry)
        finally:
            with self._changed:
                entry.is_busy = False
                self._changed.notify_all()

    def _look(self, config: TlsConfig, entry: _Entry) -> ssl.SSLContext:
        """The context from the files as they are now; on the thread that has marked the entry."""
        files = files_of(config)
        stamps = stamps_of(files)
        if entry.context is not None and entry.stamps == stamps:
            return entry.context
        deadline = time.monotonic() + self._settling
        while True:
            try:
                made = self._made(config, entry.context)
                break
            except Exception:
                if not change_follows(files, stamps, deadline):
                    raise
            stamps = stamps_of(files)
        with self._changed:
            entry.stamps, entry.context = stamps, made
        return made

    def _made(self, config: TlsConfig, kept: ssl.SSLContext | None) -> ssl.SSLContext:
        try:
            return self._make(config)
        except Exception as error:
            if kept is None:
                raise
            # The text of a library's error may hold what it could not read.
            told = error if isinstance(error, ConfigError) else type(error).__name__
            _LOG.warning("TLS goes on with the certificates read before: %s", told)
            return kept

    def _forget(self) -> None:
        while len(self._entries) > MAX_KEPT:
            del self._entries[next(iter(self._entries))]


CONTEXTS = ContextCache()
"""Those of this process."""
