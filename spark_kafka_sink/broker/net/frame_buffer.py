"""Received bytes of one connection, put together to frames with as little copying as there can be.

Small frames come many at a time through a buffer that all connections share, and are copied out of
it. A frame that did not fit gets a buffer of its own, into which the socket writes the rest.
"""

from __future__ import annotations

import numpy as np

from spark_kafka_sink.protocol.frame import MAX_FRAME, SIZE_BYTES, FrameReader

_FIRST_ROOM = 4 * 1024 * 1024
"""Bytes: room for the rest of a frame before more of it has come; then it grows fourfold."""
_DIRECT_FROM = 64 * 1024
"""Bytes: a smaller frame is cheaper to join than to receive by itself."""


class FrameBuffer:
    """Collects bytes that a socket writes into `room`, and hands out whole frames.

    A frame's memory grows with the bytes that come: a size alone, which anybody can claim, is
    worth a few MiB, and the system gives those page by page.
    """

    __slots__ = ("_at", "_frame", "_reader", "_size")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._reader = FrameReader(limit)
        self._frame: memoryview | None = None
        self._at = 0
        self._size = 0

    def set_limit(self, limit: int) -> None:
        """Take larger or smaller frames from now on."""
        self._reader.set_limit(limit)

    def room(self, shared: memoryview) -> memoryview:
        """Where the next bytes belong: a large frame's own memory, or the shared buffer."""
        return shared if self._frame is None else self._frame[self._at :]

    def received(self, room: memoryview, count: int) -> list[memoryview]:
        """Take `count` bytes that were written into `room`; return the frames that are complete.

        Raises:
            ProtocolError: a size is negative or above the limit; the stream is lost then.
        """
        if self._frame is None:
            frames = self._reader.feed(bytes(room[:count]))
            self._begin_frame()
            return frames
        self._at += count
        if self._at < self._size:
            self._grow(self._frame)
            return []
        whole, self._frame = self._frame, None
        return [whole]

    def _begin_frame(self) -> None:
        missing = self._reader.missing
        if missing < _DIRECT_FROM:
            return
        begun = self._reader.take_rest()[SIZE_BYTES:]
        self._size = len(begun) + missing
        self._frame = _memory(min(self._size, len(begun) + _FIRST_ROOM))
        self._frame[: len(begun)] = begun
        self._at = len(begun)

    def _grow(self, frame: memoryview) -> None:
        if self._at == len(frame):
            self._frame = _memory(min(self._size, 4 * len(frame)))
            self._frame[: self._at] = frame


def _memory(size: int) -> memoryview:
    """Bytes that nobody has touched yet: a bytearray would begin by filling itself with zeros."""
    return np.empty(size, np.uint8).data
