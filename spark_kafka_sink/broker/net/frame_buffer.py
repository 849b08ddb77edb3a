"""Assemble frames with as little copying as possible.

Small frames (often several per read) are received into a buffer that all connections share, and are
then copied. An incomplete large frame gets its own buffer, into which the rest of the frame is
received directly.
"""

from __future__ import annotations

import numpy as np

from spark_kafka_sink.kafka.protocol.frame import MAX_FRAME, SIZE_BYTES, FrameReader

_FIRST_ROOM = 4 * 1024 * 1024
"""Initial free space in a large frame's buffer in bytes. A full buffer grows by a factor of 4."""
_DIRECT_FROM = 64 * 1024
"""Minimum number of missing bytes for a separate buffer. For fewer bytes, joining chunks is
cheaper.
"""


class FrameBuffer:
    """Collects the bytes that are received into `room`, and returns complete frames.

    A frame's buffer grows as bytes are received. The frame size in the header is not trusted: it
    causes an allocation of a few MiB at most, which the operating system commits page by page.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._reader = FrameReader(limit)
        self._frame: memoryview | None = None
        self._received = 0
        self._size = 0

    def set_limit(self, limit: int) -> None:
        """Change the maximum size of later frames, in bytes."""
        self._reader.set_limit(limit)

    def room(self, shared: memoryview) -> memoryview:
        """Return the buffer for received bytes: an incomplete large frame's buffer, or `shared`."""
        return shared if self._frame is None else self._frame[self._received :]

    def add(self, room: memoryview, count: int) -> list[memoryview]:
        """Process `count` bytes that were received into `room`; return the complete frames.

        Raises:
            ProtocolError: a frame size is negative or above the limit; the connection must be
                closed.
        """
        if self._frame is None:
            frames = self._reader.feed(bytes(room[:count]))
            self._begin_frame()
            return frames
        self._received += count
        if self._received < self._size:
            self._grow_frame(self._frame)
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _begin_frame(self) -> None:
        missing = self._reader.missing
        if missing < _DIRECT_FROM:
            return
        begun = self._reader.take_rest()[SIZE_BYTES:]
        self._size = len(begun) + missing
        self._frame = _uninitialized_memory(min(self._size, len(begun) + _FIRST_ROOM))
        self._frame[: len(begun)] = begun
        self._received = len(begun)

    def _grow_frame(self, frame: memoryview) -> None:
        if self._received == len(frame):
            self._frame = _uninitialized_memory(min(self._size, 4 * len(frame)))
            self._frame[: self._received] = frame


def _uninitialized_memory(size: int) -> memoryview:
    """Return uninitialized memory. Unlike a bytearray, it is not filled with zeros."""
    return np.empty(size, np.uint8).data
