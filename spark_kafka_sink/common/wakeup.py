"""Wake a thread that waits in a selector."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress


class Wakeup:
    """A socket pair with which any thread makes a selector return; its key's data is None.

    Args:
        selector: the selector that the woken thread waits in.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        selector.register(self._read, selectors.EVENT_READ, None)

    def wake(self) -> None:
        """Make the current or the next wait return immediately; any thread may call this."""
        # If the buffer is full, the thread wakes up anyway. If it is closed, no thread waits.
        with suppress(OSError):
            self._write.send(b"\0")

    def drain(self) -> None:
        """Remove the wake-ups; called by the woken thread."""
        with suppress(BlockingIOError):
            self._read.recv(4096)

    def close(self) -> None:
        """Close both sockets."""
        self._read.close()
        self._write.close()
