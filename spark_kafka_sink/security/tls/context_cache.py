"""One context per process and configuration, made anew when a file that it came from changed.

So a certificate that is renewed on disk is shown by the next connection; those that are open stay
as they are. Making a context takes milliseconds, and each holds its own copy of the authorities.
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

_LOG = logging.getLogger(__name__)

FileStamp = tuple[int, int, int, int]
"""Device, inode, size in bytes, time of the last change in nanoseconds."""


@dataclass(frozen=True, slots=True)
class _Entry:
    stamps: tuple[FileStamp | None, ...]
    context: ssl.SSLContext


class ContextCache:
    """Contexts by configuration; any thread may ask."""

    def __init__(self, make: Callable[[TlsConfig], ssl.SSLContext] = client_context) -> None:
        self._make = make
        self._lock = threading.Lock()
        """Guards `_entries`, and lets one thread make a context while the others wait for it."""
        self._entries: dict[TlsConfig, _Entry] = {}

    def context(self, config: TlsConfig) -> ssl.SSLContext:
        """The context for a new connection.

        While files are being replaced they may not fit each other: then the last context goes on
        being used, until they change again.

        Raises:
            ConfigError: a store can't be read or does not open, and none was made before.
        """
        with self._lock:
            stamps = tuple(map(_stamp, files_of(config)))
            kept = self._entries.get(config)
            if kept is None or kept.stamps != stamps:
                kept = _Entry(stamps, self._renewed(config, kept))
            self._entries.pop(config, None)  # so that it is the last to go
            self._entries[config] = kept
            self._forget()
            return kept.context

    def _renewed(self, config: TlsConfig, kept: _Entry | None) -> ssl.SSLContext:
        try:
            return self._make(config)
        except Exception as error:
            if kept is None:
                raise
            # The text of a library's error may hold what it could not read.
            told = error if isinstance(error, ConfigError) else type(error).__name__
            _LOG.warning("TLS goes on with the certificates read before: %s", told)
            return kept.context

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
