"""The decision log of one scope: read, append and check its records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    FencedError,
    KafkaProdError,
    TransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.exactly_once import decision_messages
from spark_kafka_sink.exactly_once.decision_log import DecisionLog
from spark_kafka_sink.exactly_once.transactional_id import Scope, driver_transactional_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.config.exactly_once import ExactlyOnceConfig
    from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
    from spark_kafka_sink.exactly_once.steps.call_timer import CallTimer
    from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

MARKER_TIMEOUT_S = 2.0
"""Maximum time in seconds to wait for the markers of a committed transaction."""
_MARKER_PAUSE_S = 0.005
_LOG = logging.getLogger(__name__)
_UNRELIABLE = (
    "Run the write again. If it fails again, these brokers do not keep Kafka's rules for "
    "transactions, and cannot be used with deliveryGuarantee=exactly-once."
)


class ScopeLog:
    """The records of one scope, as this driver has read and appended them.

    Args:
        client: sends the requests; it is not closed.
        admin: ends a transaction that InitProducerId has left open.
        config: the topic of the decision log.
        scope: the scope of the records.
        timer: the clock and the time limit of the call.
    """

    def __init__(
        self,
        client: BlockingClient,
        admin: TransactionAdmin,
        config: ExactlyOnceConfig,
        scope: Scope,
        timer: CallTimer,
    ) -> None:
        self._client = client
        self._admin = admin
        self._scope = scope
        self._timer = timer
        self._log = DecisionLog(client, admin, config)
        self._chunks: frozenset[int] = frozenset()
        """Numbers of the scope's chunks that this driver has read or appended."""
        self._latest: DecisionRecord | None = None
        """The scope's latest record that this driver has read after fencing, or appended."""
        self._is_unconfirmed = False
        """True from the read after fencing until an append has confirmed `_latest`."""
        self._previous: DecisionRecord | None = None
        """The latest record before this driver's last append."""

    def read(self, *, create: bool = False) -> decision_messages.DecisionRecords:
        """Read the decision log to its end.

        Only planning may create a missing topic: later, it is a log whose decisions are lost.

        Raises:
            UnknownTopicError: the topic does not exist, and `create` is False.
        """
        records = self._log.read(self._timer.deadline, create=create)
        self.remember_chunks(records)
        return records

    def read_after_fence(self) -> DecisionRecord | None:
        """Return the scope's latest record, read after fencing.

        A former leader that has not yet detected its replacement may return an outdated end offset.
        Therefore `append` reads the log again from the current leader before it commits the first
        record of the epoch.

        Raises:
            TransactionError: the log contains an open transaction of the scope, although
                InitProducerId ends it. It is unknown whether it will be committed.
            UnknownTopicError: the topic does not exist.
        """
        record = self.read_and_await_markers().latest(self._scope)
        if self._log.is_pending(self._scope):
            self._admin.fence(
                [driver_transactional_id(self._scope)], self._timer.deadline_in(MARKER_TIMEOUT_S)
            )
            raise TransactionError(
                f"the decision log contains an open transaction of {self._scope}, although this "
                "driver has fenced all earlier drivers: the batch is not decided",
                hint=_UNRELIABLE,
            )
        self._latest = record
        self._is_unconfirmed = True
        return record

    def read_and_await_markers(self, *, create: bool = False) -> decision_messages.DecisionRecords:
        """Read the decision log without fencing the drivers that append to it.

        If a recent append of the scope has no transaction marker yet, wait for the marker.
        """
        records = self.read(create=create)
        deadline = self._timer.deadline_in(MARKER_TIMEOUT_S)
        while self._log.is_pending(self._scope) and self._timer.now() < deadline:
            self._client.pause(_MARKER_PAUSE_S, None)
            records = self.read()
        return records

    def is_deciding(self) -> bool:
        """Return True if the latest read found an append of the scope without a marker."""
        return self._log.is_pending(self._scope)

    def append(
        self,
        owner: TransactionalProducer,
        record: DecisionRecord | None,
        seconds: float = 0.0,
        before_commit: Callable[[], None] | None = None,
    ) -> TransactionalProducer:
        """Make `record` the scope's latest, or remove the scope's record if it is None.

        Args:
            owner: the driver at its epoch.
            record: the new record, or None.
            seconds: time limit that replaces the rest of max.block.ms, but at most max.block.ms; 0
                to use the rest.
            before_commit: see `TransactionalAppender.append`.

        Returns:
            The driver at the epoch of its next append.

        Raises:
            FencedError: a newer driver has taken over; nothing is appended, unless the error is an
                UnclearFenceError.
            BrokerUnavailableError: the deadline has passed, and the record may have been appended;
                or the read after fencing was out of date, and the caller must fence and read again.
        """
        messages = decision_messages.replacing(self._scope, record, self._chunks)
        deadline = self._timer.deadline
        if seconds:
            deadline = self._timer.deadline_in(seconds)

        def check_before_commit() -> None:
            if before_commit is not None:
                before_commit()
            self._check_unchanged(owner)

        owner = self._append_fenced(owner, messages, deadline, check_before_commit)
        self._is_unconfirmed = False
        self._previous, self._latest = self._latest, record
        self._chunks = decision_messages.chunks_of(messages)
        return owner

    def check_decision(self) -> None:
        """Read a decision back after its append has been committed.

        If the log cannot be read now, or the marker is not written yet, the response to EndTxn
        counts. If the log was deleted, a later driver would decide the batch again.

        Raises:
            TransactionError: the log still ends with the record before the append, or does not
                exist.
        """
        deadline = self._timer.deadline_in(MARKER_TIMEOUT_S)
        try:
            while self._log.read(self._timer.deadline).latest(self._scope) == self._previous:
                if self._timer.now() >= deadline:
                    break
                self._client.pause(_MARKER_PAUSE_S, None)
            else:
                return
        except UnknownTopicError as error:
            raise TransactionError(
                f"the decision of {self._scope} cannot be read back: {error.message}; its "
                "transactions are not committed",
                hint=error.hint,
            ) from None
        except KafkaProdError as error:
            _LOG.debug("the decision of %s cannot be read back: %s", self._scope, error)
            return
        if self.is_deciding():
            return
        raise TransactionError(
            f"the brokers confirmed a decision of {self._scope}, but the decision log does not "
            "contain it: its transactions are not committed",
            hint=_UNRELIABLE,
        )

    def remember_chunks(self, records: decision_messages.DecisionRecords) -> None:
        """Store which chunks of the scope are in the log.

        The next `append` removes or replaces these chunks.
        """
        self._chunks |= records.chunk_keys(self._scope)

    def _check_unchanged(self, owner: TransactionalProducer) -> None:
        """Raise an error if the latest record has changed, or the own records are not in the log.

        Raises:
            BrokerUnavailableError: the read after fencing was out of date.
            TransactionError: the leader confirmed the owner's records, but does not return them.
        """
        if not self._is_unconfirmed:
            return
        if self.read().latest(self._scope) == self._latest:
            if self._log.has_appended(owner):
                return
            raise TransactionError(
                f"the decision log does not contain the records that {self._scope} has just "
                "written: the batch is not decided",
                hint=_UNRELIABLE,
            )
        raise BrokerUnavailableError(
            f"the decision log's leader returned an outdated end offset, before the latest record "
            f"of {self._scope}",
            hint="Run the write again: the batch is not decided.",
        )

    def _append_fenced(
        self,
        owner: TransactionalProducer,
        messages: Sequence[decision_messages.Message],
        deadline: float,
        before_commit: Callable[[], None],
    ) -> TransactionalProducer:
        try:
            return self._log.append(owner, messages, deadline, before_commit)
        except FencedError as error:
            raise type(error)(
                f"a newer driver of {self._scope} has taken over, or the driver's transaction "
                "timed out while the brokers did not respond; this driver must stop",
                kafka_error=error.kafka_error,
                hint="If no other run uses this transactionalIdPrefix, run the write again. "
                "Otherwise, stop this driver or the other one: only one may run at a time, and "
                "the remaining driver finishes all decided batches.",
            ) from error
