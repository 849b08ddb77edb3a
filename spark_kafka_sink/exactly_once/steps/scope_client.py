"""The driver's basic operations on Kafka: fence, read, append, end, describe."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    ConfigError,
    FencedError,
    KafkaProdError,
    TransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.common.recreated_topics import check_current
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once import decision_messages, decision_record
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, commit_outcome, is_ended
from spark_kafka_sink.exactly_once.decision_log import DRIVER_TIMEOUT_MS, DecisionLog
from spark_kafka_sink.exactly_once.steps.alive_checks import check_alive
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    abort_flag_id,
    driver_id,
    nonces_of,
)
from spark_kafka_sink.kafka.admin.blocking_client import BlockingClient, borrowed_client
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey, UnsupportedApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from spark_kafka_sink.common.recreated_topics import WrittenTopic
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.kafka.admin.transaction_handlers import (
        ActiveProducer,
        TransactionDescription,
    )
    from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction

MARKER_S: Final = 2.0
"""Maximum time in seconds to wait for the markers of a committed transaction."""
MARKER_PAUSE_S: Final = 0.005
_TOPIC_PAUSE_S: Final = 0.1
_APIS: Final = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.PRODUCE,
    ApiKey.END_TXN,
    ApiKey.LIST_OFFSETS,
    ApiKey.FETCH,
)
"""APIs without which no batch can be decided; AddPartitionsToTxn only with transactions V1."""
_LOG = logging.getLogger(__name__)
_UNRELIABLE: Final = (
    "Run the write again. If it fails again, these brokers do not keep Kafka's rules for "
    "transactions, and cannot be used with deliveryGuarantee=exactly-once."
)


class Stopwatch:
    """Measures the durations of named steps; several steps may have the same name."""

    __slots__ = ("_now", "_timings")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._timings: list[tuple[str, float]] = []

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measure the duration of the block, even if the block raises an error."""
        began = self._now()
        try:
            yield
        finally:
            self._timings.append((name, 1000 * (self._now() - began)))

    @property
    def timings(self) -> tuple[tuple[str, float], ...]:
        """The name of each step so far, and its duration in milliseconds, in order."""
        return tuple(self._timings)


@dataclass(frozen=True, slots=True)
class _FirstRead:
    """The scope's latest record, as read after fencing; None if the scope had no record."""

    record: decision_record.DecisionRecord | None


class ScopeClient:
    """The Kafka operations of Spark's driver for one scope; used for one plan, commit or abort.

    Args:
        client: sends the requests; it is not closed.
        config: the sink's settings, with a transactionalIdPrefix.
        scope: the scope whose epochs, decisions and transactions are changed.
        deadline: for all steps before a decision, in seconds of the client's clock; by default it
            follows from max.block.ms.
    """

    def __init__(
        self,
        client: BlockingClient,
        config: SinkConfig,
        scope: Scope,
        deadline: float | None = None,
    ) -> None:
        self.client = client
        self.scope = scope
        self._config = config
        self.admin = TransactionAdmin(client, acl_prefix(scope.prefix))
        self.stopwatch = Stopwatch(client.now)
        self._log = DecisionLog(client, self.admin, config.exactly_once)
        self._chunks: frozenset[int] = frozenset()
        """Numbers of the scope's chunks that this driver has read or appended."""
        self._first: _FirstRead | None = None
        """The record read after fencing, until an append has confirmed it."""
        self._latest: decision_record.DecisionRecord | None = None
        """The scope's latest record that this driver has read after fencing, or appended."""
        self._previous: decision_record.DecisionRecord | None = None
        """The latest record before this driver's last append."""
        self._deadline = self._new_deadline() if deadline is None else deadline

    @property
    def is_overdue(self) -> bool:
        """True if max.block.ms has passed."""
        return self.client.now() >= self._deadline

    def restart(self) -> None:
        """Restart the time limit (max.block.ms), because the earlier steps had no limit."""
        self._deadline = self._new_deadline()

    def for_scope(self, scope: Scope, deadline: float | None = None) -> ScopeClient:
        """Return the client of another scope, with the same connections.

        The default deadline is max.block.ms.
        """
        return ScopeClient(self.client, self._config, scope, deadline)

    @property
    def max_block_s(self) -> float:
        """max.block.ms in seconds."""
        return self._config.producer.max_block_ms / 1000

    def deadline_in(self, seconds: float) -> float:
        """Return the deadline for requests with their own time limit, at most max.block.ms."""
        return self.client.deadline(min(seconds, self.max_block_s))

    def fence(self) -> OpenTransaction:
        """Begin a new epoch for this driver; earlier drivers of the scope can no longer append."""
        with self.stopwatch.measure("fence"):
            name = driver_id(self.scope)
            return self.admin.init_producer_id(name, DRIVER_TIMEOUT_MS, self._deadline)

    def begin(self, timeout_ms: int) -> OpenTransaction:
        """Fence earlier drivers and begin the transaction that the tasks write to."""
        with self.stopwatch.measure("begin"):
            return self.admin.init_producer_id(driver_id(self.scope), timeout_ms, self._deadline)

    def end_epoch(self, owner: OpenTransaction) -> None:
        """Abort the open transaction of an epoch, and end the epoch.

        The epoch of a newer driver is not affected: its EndTxn is rejected, whereas InitProducerId
        would abort the open transaction of any epoch.

        Raises:
            BrokerUnavailableError: the coordinator has not confirmed the abort.
        """
        with self.stopwatch.measure("abort"):
            codes = self.admin.end([owner], commit=False, deadline=self._deadline)
            code = codes[owner.transactional_id]
            if not is_ended(code):
                raise self.client.unavailable_error(f"aborting {owner.transactional_id}", code)
            if not owner.version.bumps_epoch and commit_outcome(code) is not EndOutcome.FENCED:
                with suppress(FencedError):
                    self.admin.init_producer_id(
                        owner.transactional_id, DRIVER_TIMEOUT_MS, self._deadline, owner
                    )

    def producers(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the active producers of these partitions, as described by the leaders."""
        with self.stopwatch.measure("describe"):
            return self.admin.describe_producers(partitions, self._deadline)

    def check_describes_producers(self) -> None:
        """Raise an UnsupportedApiError if the decision log's leader is too old for `producers`."""
        log = TopicPartition(self._config.exactly_once.decision_log_topic, 0)
        self.producers((log,))

    def check_apis(self) -> None:
        """Raise a ConfigError unless the brokers support all APIs of transactions."""
        self.client.await_metadata(self._deadline)
        for broker in self.client.brokers():
            if not broker.is_ready:
                continue
            version = broker.connection.transaction_version
            needed = [*_APIS]
            if version.needs_add_partitions:
                needed.append(ApiKey.ADD_PARTITIONS_TO_TXN)
            for api in needed:
                try:
                    broker.connection.version(api)
                except UnsupportedApiError as error:
                    raise ConfigError(
                        f"deliveryGuarantee=exactly-once requires {api.name}: {error.message}",
                        broker=str(broker.node),
                        kafka_error=error.kafka_error,
                        hint="Use brokers that support Kafka's transactions, or "
                        "deliveryGuarantee=at-least-once.",
                    ) from error

    def read(self, *, create: bool = False) -> decision_messages.DecisionRecords:
        """Read the decision log to its end.

        Only planning may create a missing topic: later, it is a log whose decisions are lost.

        Raises:
            UnknownTopicError: the topic does not exist, and `create` is False.
        """
        with self.stopwatch.measure("read"):
            records = self._log.read(self._deadline, create=create)
        self.remember_chunks(records)
        return records

    def read_fenced(self) -> decision_record.DecisionRecord | None:
        """Return the scope's latest record, read after fencing.

        A former leader that has not yet detected its replacement may return an outdated end offset.
        Therefore `append` reads the log again from the current leader before it commits the first
        record of the epoch.

        Raises:
            TransactionError: the log contains an open transaction of the scope, although
                InitProducerId ends it. It is unknown whether it will be committed.
            UnknownTopicError: the topic does not exist.
        """
        record = self.read_unfenced().latest(self.scope)
        if self._log.is_pending(self.scope):
            self.admin.fence([driver_id(self.scope)], self.deadline_in(MARKER_S))
            raise TransactionError(
                f"the decision log contains an open transaction of {self.scope}, although this "
                "driver has fenced all earlier drivers: the batch is not decided",
                hint=_UNRELIABLE,
            )
        self._first = _FirstRead(record)
        self._latest = record
        return record

    def confirm(self) -> None:
        """Read a decision back after its append has been committed.

        If the log cannot be read now, or the marker is not written yet, the response to EndTxn
        counts. If the log was deleted, a later driver would decide the batch again.

        Raises:
            TransactionError: the log still ends with the record before the append, or does not
                exist.
        """
        deadline = self.deadline_in(MARKER_S)
        try:
            with self.stopwatch.measure("confirm"):
                while self._log.read(self._deadline).latest(self.scope) == self._previous:
                    if self.client.now() >= deadline:
                        break
                    self.client.pause(MARKER_PAUSE_S, None)
                else:
                    return
        except UnknownTopicError as error:
            raise TransactionError(
                f"the decision of {self.scope} cannot be read back: {error.message}; its "
                "transactions are not committed",
                hint=error.hint,
            ) from None
        except KafkaProdError as error:
            _LOG.debug("the decision of %s cannot be read back: %s", self.scope, error)
            return
        if self.is_deciding():
            return
        raise TransactionError(
            f"the brokers confirmed a decision of {self.scope}, but the decision log does not "
            "contain it: its transactions are not committed",
            hint=_UNRELIABLE,
        )

    def remember_chunks(self, records: decision_messages.DecisionRecords) -> None:
        """Store which chunks of the scope are in the log.

        The next `append` removes or replaces these chunks.
        """
        self._chunks |= records.chunk_keys(self.scope)

    def read_unfenced(self, *, create: bool = False) -> decision_messages.DecisionRecords:
        """Read the decision log without fencing the drivers that append to it.

        If a recent append of the scope has no transaction marker yet, wait for the marker.
        """
        records = self.read(create=create)
        deadline = self.deadline_in(MARKER_S)
        while self._log.is_pending(self.scope) and self.client.now() < deadline:
            self.client.pause(MARKER_PAUSE_S, None)
            records = self.read()
        return records

    def is_deciding(self) -> bool:
        """Return True if the latest read found an append of the scope without a marker."""
        return self._log.is_pending(self.scope)

    def append(
        self,
        owner: OpenTransaction,
        record: decision_record.DecisionRecord | None,
        step: str,
        seconds: float = 0.0,
        before_commit: Callable[[], None] | None = None,
    ) -> OpenTransaction:
        """Make `record` the scope's latest, or remove the scope's record if it is None.

        Args:
            owner: the driver at its epoch.
            record: the new record, or None.
            step: name of the step in the timings.
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
        messages = decision_messages.replacing(self.scope, record, self._chunks)
        deadline = self._deadline
        if seconds:
            deadline = self.deadline_in(seconds)

        def check() -> None:
            if before_commit is not None:
                before_commit()
            self._check_unchanged(owner)

        with self.stopwatch.measure(step):
            owner = self._append(owner, messages, deadline, check)
        self._first = None
        self._previous, self._latest = self._latest, record
        self._chunks = decision_messages.chunks_of(messages)
        return owner

    def check_topics(self, written: Sequence[WrittenTopic]) -> None:
        """Raise a DeliveryError if a topic was deleted or recreated after a task had written to it.

        The task's transaction can still be committed, although its records are lost.
        """
        if not written:
            return
        with self.stopwatch.measure("topics"):
            names = sorted({written_topic.topic for written_topic in written})
            deadline = self.deadline_in(MARKER_S)
            current = TopicAdmin(self.client).ids(names, self._deadline)
            # A broker may not know a new topic yet.
            while None in current.values() and self.client.now() < deadline:
                self.client.pause(_TOPIC_PAUSE_S, None)
                current = TopicAdmin(self.client).ids(names, self._deadline)
            check_current(written, current)

    def check_alive(
        self, transactions: Sequence[TaskTransaction], seconds: float | None = None
    ) -> None:
        """Raise a TransactionError unless all transactions can still be committed.

        An abort flag of their planning also fails the check. abort() creates the flag before it
        reads the log and aborts, and the last check follows the append of the decision, so at least
        one side detects the other.

        `seconds` is the time limit; None means the rest of max.block.ms.
        """
        deadline = self._deadline
        if seconds is not None:
            deadline = min(deadline, self.client.deadline(seconds))
        with self.stopwatch.measure("describe"):
            ids = [transaction.transactional_id for transaction in transactions]
            flags = {abort_flag_id(self.scope, nonce) for nonce in nonces_of(transactions)}
            described = self.describe([*ids, *flags], deadline)
            check_alive(transactions, described, self.client.wall_ms())
            if flags.intersection(described or ()):
                raise TransactionError(
                    "abort() was called for these tasks: the batch is not decided",
                    hint="Start the query or the job again.",
                )

    def describe(
        self, ids: Collection[str], deadline: float
    ) -> dict[str, TransactionDescription] | None:
        """Return the coordinators' descriptions of these ids; None if brokers predate Kafka 3.0."""
        try:
            return self.admin.describe(ids, deadline)
        except UnsupportedApiError as error:
            _LOG.debug("transactions cannot be described: %s", error)
            return None

    def _new_deadline(self) -> float:
        return self.client.deadline(self.max_block_s)

    def describe_or_empty(self, ids: Collection[str]) -> Mapping[str, TransactionDescription]:
        """Return descriptions of these ids within max.block.ms; empty before Kafka 3.0."""
        return self.describe(ids, self._deadline) or {}

    def _check_unchanged(self, owner: OpenTransaction) -> None:
        """Raise an error if the latest record has changed, or the own records are not in the log.

        Raises:
            BrokerUnavailableError: the read after fencing was out of date.
            TransactionError: the leader confirmed the owner's records, but does not return them.
        """
        first = self._first
        if first is None:
            return
        if self.read().latest(self.scope) == first.record:
            if self._log.has_appended(owner):
                return
            raise TransactionError(
                f"the decision log does not contain the records that {self.scope} has just "
                "written: the batch is not decided",
                hint=_UNRELIABLE,
            )
        raise BrokerUnavailableError(
            f"the decision log's leader returned an outdated end offset, before the latest record "
            f"of {self.scope}",
            hint="Run the write again: the batch is not decided.",
        )

    def _append(
        self,
        owner: OpenTransaction,
        messages: Sequence[decision_messages.Message],
        deadline: float,
        before_commit: Callable[[], None],
    ) -> OpenTransaction:
        try:
            return self._log.append(owner, messages, deadline, before_commit)
        except FencedError as error:
            raise type(error)(
                f"a newer driver of {self.scope} has taken over, or the driver's transaction timed "
                "out while the brokers did not respond; this driver must stop",
                kafka_error=error.kafka_error,
                hint="If no other run uses this transactionalIdPrefix, run the write again. "
                "Otherwise, stop this driver or the other one: only one may run at a time, and "
                "the remaining driver finishes all decided batches.",
            ) from error


@contextmanager
def connected_scope_client(config: SinkConfig, scope: Scope) -> Iterator[ScopeClient]:
    """Yield the client of a scope, with connections that this process has kept, or new ones."""
    with borrowed_client(config.producer) as client:
        yield ScopeClient(client, config, scope)
