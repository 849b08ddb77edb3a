"""How large the batches of each topic, and all requests, may be, as the brokers have taught.

No client may have to ask for max.message.bytes, and where it is below batch.size every batch would
be refused and split. So what was refused is remembered, in uncompressed bytes, and planned for.
A request that is too large gets no answer: Kafka's brokers take 100 MiB (socket.request.max.bytes)
and others less, who just close the connection.
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


class RequestSizeLimit:
    """How large a Produce request of several batches may be; one client's, sender thread only.

    Args:
        largest: bytes.
        safe: bytes that every broker takes; what is above them may be why a request was lost.
    """

    def __init__(self, largest: int, safe: int) -> None:
        self._largest = largest
        self._safe = min(safe, largest)
        self._lost_at: float | None = None

    def at(self, now: float) -> int:
        """Most bytes of the batches of a request."""
        if self._lost_at is None or now - self._lost_at >= DOUBLED_AFTER:
            return self._largest
        return self._safe

    def lost(self, size: int, now: float) -> None:
        """The connection ended while a request of this size was unanswered."""
        if size > self._safe:
            self._lost_at = now
