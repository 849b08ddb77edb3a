"""When a session's transaction began, and whether transaction.timeout.ms has passed since.

The producer checks the timeout from its first request that may begin the transaction. The
coordinator's timeout starts later, with the first added partition, so the producer detects it at
most one round trip early.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings

_LOG = logging.getLogger(__name__)


class TransactionTimer:
    """The age of one transaction; started and checked by the sender thread.

    Args:
        settings: the transaction; with `two_phase`, it has no timeout.
        clock: the wall clock.
    """

    def __init__(self, settings: TransactionSettings, clock: Clock) -> None:
        self.started_ms: int | None = None
        """Send time of the first request that may have begun the transaction, in milliseconds since
        1970; None if no such request was sent.
        """
        self._settings = settings
        self._clock = clock
        self._started = 0.0
        self._has_warned = False

    def start(self, now: float) -> None:
        """Start the timer, because the first request that may begin the transaction is sent."""
        self.started_ms = self._clock.wall_ms()
        self._started = now

    def check_timeout(self, now: float) -> None:
        """Warn once if half of the timeout has passed.

        Raises:
            DeliveryError: the timeout has passed.
        """
        if self.started_ms is None or self._settings.two_phase:
            return
        age = now - self._started
        timeout = self._settings.timeout_ms / 1000
        if age >= timeout:
            raise _timed_out_error(self._settings)
        if age >= timeout / 2 and not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "transactional id %s: half of transaction.timeout.ms = %d has passed, and the "
                "task is still writing",
                self._settings.transactional_id,
                self._settings.timeout_ms,
            )


def _timed_out_error(settings: TransactionSettings) -> DeliveryError:
    """Return the error for a transaction that was open for longer than its timeout."""
    return DeliveryError(
        f"the transaction of {settings.transactional_id} has been open for transaction.timeout.ms "
        f"= {settings.timeout_ms}: the coordinator has aborted it",
        kafka_error=error_name(ErrorCode.invalid_txn_state),
        hint="Make the tasks shorter (more partitions of the DataFrame, smaller micro-batches), "
        "or raise transaction.timeout.ms and, on the brokers, transaction.max.timeout.ms.",
    )
