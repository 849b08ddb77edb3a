"""Exponential backoff with full jitter.

Source: KIP-580, "Advanced Producer Patterns".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from spark_kafka_sink.config.client_config import ClientConfig

_MAX_DOUBLINGS = 30


def full_jitter(attempt: int, base_ms: int, cap_ms: int, random: Random) -> float:
    """Return the delay in seconds before retry number `attempt` (0 is the first retry).

    The delay is uniformly distributed in (0, min(cap, base * 2 ** attempt)], so that producers that
    failed at the same time do not retry at the same time.
    """
    ceiling = min(cap_ms, base_ms << min(attempt, _MAX_DOUBLINGS))
    return random.uniform(0.0, ceiling) / 1000.0


def retry_delay(config: ClientConfig, attempt: int, random: Random) -> float:
    """Return the delay in seconds before retry number `attempt`, according to retry.backoff.ms."""
    return full_jitter(attempt, config.retry_backoff_ms, config.retry_backoff_max_ms, random)


class RetryTimer:
    """Schedules retries of a request. The delay increases with each failure.

    Args:
        config: retry.backoff.ms and retry.backoff.max.ms.
        random: source of the jitter.
    """

    def __init__(self, config: ClientConfig, random: Random) -> None:
        self.due_at = 0.0
        """Time of the next attempt, in seconds of the caller's clock."""
        self._config = config
        self._random = random
        self._failures = 0

    def back_off(self, now: float) -> None:
        """Schedule the next attempt; each call increases the delay until `record_success`."""
        self.due_at = now + retry_delay(self._config, self._failures, self._random)
        self._failures += 1

    def record_success(self, next_at: float = 0.0) -> None:
        """Reset the delay after a success; the next attempt is at `next_at`."""
        self.due_at = next_at
        self._failures = 0

    def schedule(self, due_at: float) -> None:
        """Set the time of the next attempt; the delay after a further failure does not change."""
        self.due_at = due_at

    @property
    def is_backing_off(self) -> bool:
        """True if the latest attempt has failed."""
        return self._failures > 0
