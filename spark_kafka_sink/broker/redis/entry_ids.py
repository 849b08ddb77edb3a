"""Kafka offsets and Redis Stream entry ids, each made from the other without any state."""

from __future__ import annotations

from dataclasses import dataclass

from spark_kafka_sink.common.errors import ConfigError

DEFAULT_SEQUENCE_BITS = 10
MAX_SEQUENCE_BITS = 20
"""Offsets have 63 bits: with 20 of them for sequences, milliseconds last until the year 2248."""


@dataclass(frozen=True, slots=True)
class EntryIds:
    """The mapping ``offset = (milliseconds << sequence_bits) | sequence`` and its inverse.

    Offsets are allocated, ids follow from them: counting beyond the last sequence of a millisecond
    carries into the next one, so no rate of records overflows.

    Raises:
        ConfigError: `sequence_bits` is not 1 to 20.
    """

    sequence_bits: int = DEFAULT_SEQUENCE_BITS

    def __post_init__(self) -> None:
        if not 1 <= self.sequence_bits <= MAX_SEQUENCE_BITS:
            raise ConfigError(
                f"sequence_bits is {self.sequence_bits}",
                hint=f"It must be 1 to {MAX_SEQUENCE_BITS}",
            )

    def offset(self, milliseconds: int, sequence: int) -> int:
        """The offset of an id; ValueError if its sequence needs more bits than there are."""
        if not 0 <= sequence < 1 << self.sequence_bits:
            raise ValueError(f"sequence {sequence} needs more than {self.sequence_bits} bits")
        return milliseconds << self.sequence_bits | sequence

    def parts(self, offset: int) -> tuple[int, int]:
        """Milliseconds and sequence of an offset."""
        return offset >> self.sequence_bits, offset & (1 << self.sequence_bits) - 1

    def text(self, offset: int) -> bytes:
        """The id as Redis reads it."""
        return b"%d-%d" % self.parts(offset)

    def read(self, text: bytes) -> int:
        """The offset of an id that Redis wrote; ValueError as in `offset`."""
        milliseconds, _, sequence = text.partition(b"-")
        return self.offset(int(milliseconds), int(sequence))

    def next_offset(self, end: int, now_ms: int) -> int:
        """Where the next batch begins: now, but never before `end`, the offset behind the last."""
        return max(end, now_ms << self.sequence_bits)
