"""One context per process and configuration, made anew when a file that it came from changed.

So a certificate that is renewed on disk is shown by the next connection; those that are open stay
as they are. Making a context takes milliseconds, a second for some PKCS12 files, and for ever on a
file system that does not answer; each holds its own copy of the authorities.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
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

FileStamp = tuple[int, int, int, int]
"""Device, inode, size in bytes, time of the last change in nanoseconds."""


@dataclass(slots=True)
class _Entry:
    """What is known of one configuration; guarded by the cache's lock."""

    stamps: tuple[FileStamp | None, ...] = ()
    context: ssl.SSLContext | None = None
    is_busy: bool = False
    """A thread looks at the files; it alone changes the others."""


class ContextCache:
    """Contexts by configuration; any thread may ask, of those that may wait.

    Args:
        make: a context from what the files hold now.
        patience: see `PATIENCE`.
    """

    def __init__(
        self,
        make: Callable[[TlsConfig], ssl.SSLContext] = client_context,
        patience: float = PATIENCE,
    ) -> None:
        self._make = make
        self._patience = patience
        self._changed = threading.Condition()
        """Guards `_entries` and what they hold; never held while a file is looked at."""
        self._entries: dict[TlsConfig, _Entry] = {}

    def context(self, config: TlsConfig) -> ssl.SSLContext:
        """The context for a new connection.

        While files are being replaced they may not fit each other: then the last context goes on
        being used, until they change again.

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
        stamps = tuple(map(_stamp, files_of(config)))
        if entry.context is not None and entry.stamps == stamps:
            return entry.context
        made = self._made(config, entry.context)
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


def _stamp(path: str) -> FileStamp | None:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):  # ValueError: no path
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


CONTEXTS = ContextCache()
"""Those of this process."""
