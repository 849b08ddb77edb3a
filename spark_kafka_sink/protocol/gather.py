"""A writer's target that keeps large values as they are, for a socket's gathering write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.serial import entity_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.static.protocol import Entity

KEEP_FROM = 4096
"""Bytes: a smaller value is cheaper to copy than to send as a part of its own."""


class RecordBuffers:
    """Bytes in several places that a message holds as one value of records.

    Args:
        parts: the pieces in order; none of them is copied.
    """

    __slots__ = ("_size", "parts")

    def __init__(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        self.parts = parts
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        return self._size


class Gatherer:
    """Collects what kio's writers write as a list of parts."""

    __slots__ = ("parts", "size")

    def __init__(self, start: bytes = b"") -> None:
        self.parts: list[bytes | bytearray | memoryview] = [bytearray(start)]
        self.size = len(start)

    def write(self, value: Any) -> None:
        """Take bytes, or the pieces of a records field."""
        if isinstance(value, RecordBuffers):
            for part in value.parts:
                self._add(part)
        else:
            self._add(value)

    def _add(self, value: bytes | bytearray | memoryview) -> None:
        self.size += len(value)
        last = self.parts[-1]
        if len(value) >= KEEP_FROM:
            self.parts += (value, bytearray())
        elif isinstance(last, bytearray):
            last += value


def gather(entity: Entity, start: bytes = b"") -> Gatherer:
    """Write a message behind `start`, as parts; records may be `RecordBuffers`."""
    target = Gatherer(start)
    writer: Any = entity_writer(type(entity))
    writer(target, entity)
    return target
