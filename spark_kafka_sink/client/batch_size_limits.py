"""How large a batch each topic takes, as its brokers' refusals have taught.

No client may have to ask for max.message.bytes, and where it is below batch.size every batch would
be refused and split. So what was refused is remembered, in uncompressed bytes, and planned for.
"""

from __future__ import annotations

from dataclasses import dataclass

DOUBLED_AFTER = 300.0
"""Seconds after which twice as much is tried, and so on: the limit may have been raised."""

_MOST_DOUBLINGS = 31


def half(size: int) -> int:
    """Bytes of a batch with half of the records of one of `size` bytes, headers included."""
    from spark_kafka_sink.records.record_batch import HEADER_SIZE  # not where a write is planned

    return HEADER_SIZE + (size - HEADER_SIZE + 1) // 2


@dataclass(frozen=True, slots=True)
class _Ceiling:
    size: int
    learned_at: float


class BatchSizeLimits:
    """One client's; the sender thread learns, any thread may ask."""

    def __init__(self) -> None:
        self._known: dict[str, _Ceiling] = {}
        """Entries are replaced, never changed."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, topic: str, now: float) -> int | None:
        """Most bytes of a batch before compression, its header included; None: nothing is known."""
        known = self._known.get(topic)
        if known is None:
            return None
        doublings = int((now - known.learned_at) / DOUBLED_AFTER)
        return known.size << min(doublings, _MOST_DOUBLINGS)

    def refused(self, topic: str, size: int, now: float) -> int:
        """A batch of this size was too large; half of its records may do.

        Returns:
            What may be sent now, in the same bytes.
        """
        ceiling = min(half(size), self.of(topic, now) or size)
        self._known[topic] = _Ceiling(ceiling, now)
        return ceiling
