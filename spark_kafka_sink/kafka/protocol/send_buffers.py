"""Write messages as lists of buffers, so that large records are sent without copying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.serial import entity_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.static.protocol import Entity

MIN_BUFFER_SIZE = 4096
"""Minimum bytes of a separate buffer: copying smaller values is cheaper than sending them alone."""


class RecordBuffers:
    """A records field whose bytes are in several buffers.

    Args:
        buffers: the buffers in order, which are not copied.
    """

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        self.buffers = buffers
        self._size = sum(map(len, buffers))

    def __len__(self) -> int:
        return self._size


class Gatherer:
    """Collects the output of kio's writers as a list of buffers."""

    __slots__ = ("_last", "buffers", "size")

    def __init__(self, start: bytes = b"") -> None:
        self._last = bytearray(start)
        self.buffers: list[bytes | bytearray | memoryview] = [self._last]
        self.size = len(start)

    def write(self, value: Any) -> None:
        """Add bytes or the buffers of a records field."""
        if isinstance(value, RecordBuffers):
            for buffer in value.buffers:
                self._append_bytes(buffer)
        else:
            self._append_bytes(value)

    def _append_bytes(self, value: bytes | bytearray | memoryview) -> None:
        self.size += len(value)
        if len(value) < MIN_BUFFER_SIZE:
            self._last += value
            return
        self._last = bytearray()
        self.buffers += (value, self._last)


def gather(entity: Entity, start: bytes = b"") -> Gatherer:
    """Write a message after `start`, as buffers. Records can be `RecordBuffers`."""
    target = Gatherer(start)
    writer: Any = entity_writer(type(entity))
    writer(target, entity)
    return target
