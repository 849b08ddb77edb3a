"""The attempts to connect to one broker: its addresses, failures and backoff."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.channel.host_names import Address


@dataclass(slots=True)
class ConnectionAttempts:
    """The state of the attempts. Times are in seconds of the monotonic clock."""

    addresses: list[Address] = field(default_factory=list)
    """Resolved addresses that have not been tried yet."""
    address: Address | None = None
    """The last address that was tried."""
    failures: int = 0
    """Number of failed attempts since the last success."""
    retry_at: float = 0.0
    """Earliest time of the next attempt."""
    deadline: float = 0.0
    """Deadline of the step in progress; 0 without one."""

    def set_addresses(self, addresses: list[Address]) -> None:
        """Store resolved addresses in the order to try, starting after the last tried address.

        The order prevents retries of the same address after a connection fails (KAFKA-12193).
        """
        start = addresses.index(self.address) + 1 if self.address in addresses else 0
        self.addresses = addresses[start:] + addresses[:start]

    def next_address(self) -> Address:
        """Remove and return the next address to try."""
        self.address = self.addresses.pop(0)
        return self.address

    def succeed(self) -> None:
        """Reset the failures, because the broker is ready."""
        self.deadline, self.failures = 0.0, 0

    def back_off(self, retry_at: float) -> None:
        """Wait until the next attempt, which resolves the broker's name again."""
        self.addresses = []
        self.failures += 1
        self.retry_at = retry_at
