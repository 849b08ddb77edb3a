"""The sizes that brokers have rejected, which the client remembers.

- `BatchSizeLimits`: a producer must work without the permission to read a topic's
  max.message.bytes and segment.bytes. If one of them is below batch.size, every batch would be
  rejected and split. Therefore, the client remembers the rejected sizes (in uncompressed bytes) and
  creates smaller batches.
- `RequestSizeLimit`: brokers close the connection without a response if a request is too large.
  Kafka accepts up to 100 MiB by default (socket.request.max.bytes); other implementations accept
  less.
"""

from __future__ import annotations

DOUBLED_AFTER_S = 300.0
"""Seconds after which a detected limit is doubled, in case the broker's limit was raised."""

_MAX_DOUBLINGS = 31


def half(size: int) -> int:
    """Return the size of each half of a batch with `size` bytes. Sizes include the batch header."""
    from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE  # not needed for planning

    return HEADER_SIZE + (size - HEADER_SIZE + 1) // 2


class BatchSizeLimits:
    """Detected batch size limits. The sender thread updates them, and any thread can read them.

    Args:
        largest: batch.size, which no limit exceeds.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._limits: dict[str, tuple[int, float]] = {}
        """The limit of each topic in bytes, and the time at which it was detected."""

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of(self, topic: str, now: float) -> int:
        """Return a topic's maximum uncompressed batch size in bytes, including the header."""
        size, learned_at = self._limits.get(topic, (self._largest, now))
        doublings = int((now - learned_at) / DOUBLED_AFTER_S)
        return min(size << min(doublings, _MAX_DOUBLINGS), self._largest)

    def record_rejected(self, topic: str, size: int, now: float) -> int:
        """Record that a batch of `size` bytes was too large; limit batches to half of this size.

        See design.md: batch-size-limit.

        Returns:
            The new limit in uncompressed bytes.
        """
        limit = min(half(size), self.of(topic, now))
        self._limits[topic] = limit, now
        return limit


class RequestSizeLimit:
    """The maximum size of Produce requests with several batches; used by the sender thread.

    Args:
        largest: size limit in bytes that applies by default.
        safe: size limit in bytes that all brokers accept; applies for some time after a larger
            request was lost.
    """

    def __init__(self, largest: int, safe: int) -> None:
        self._largest = largest
        self._safe = min(safe, largest)
        self._lost_at: float | None = None

    def at(self, now: float) -> int:
        """Return the current maximum total size of a request's batches, in bytes."""
        if self._lost_at is None or now - self._lost_at >= DOUBLED_AFTER_S:
            return self._largest
        return self._safe

    def record_lost(self, size: int, now: float) -> None:
        """Record that a connection ended while a request of `size` bytes was unanswered.

        See design.md: request-size-limit.
        """
        if size > self._safe:
            self._lost_at = now
