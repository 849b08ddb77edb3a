"""The driver's single steps against Kafka, their timing, and the checks before a decision.

What is looked at before a decision: each transaction must outlive the EndTxn that follows.

A transaction that the broker aborts between decision and EndTxn tears the batch, and only that can.
So whatever looks like it fails the batch while nothing is decided: it runs again and loses nothing.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.admin.blocking_client import borrowed_client
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.client.cluster import TopicPartition
from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    FencedError,
    ProtocolError,
    TransactionError,
)
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, commit_outcome, is_ended
from spark_kafka_sink.exactly_once.log.decision import chunks_of, replacing
from spark_kafka_sink.exactly_once.log.decision_log import DRIVER_TIMEOUT_MS, DecisionLog
from spark_kafka_sink.exactly_once.transactional_id import abort_flag_id, driver_id, nonces_of
from spark_kafka_sink.protocol.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.handlers.transactions import ActiveProducer, TransactionDescription
    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.exactly_once.log.decision import DecisionRecords, Message, Record
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.exactly_once.transactional_id import Scope
    from spark_kafka_sink.protocol.transactions import OpenTransaction


class Stopwatch:
    """Times named steps; the same name may come again."""

    __slots__ = ("_now", "_steps")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside, also where it raises."""
        began = self._now()
        try:
            yield
        finally:
            self._steps.append((name, 1000 * (self._now() - began)))

    @property
    def steps(self) -> tuple[tuple[str, float], ...]:
        """Name and milliseconds of each step so far, in their order."""
        return tuple(self._steps)


MIN_LEFT_MS: Final = 30_000
"""Time that each transaction must have left when the driver checks it before the decision.

Whatever its timeout: a driver that is paused after the check can commit its decision up to 25 s
later (`DRIVER_TIMEOUT_MS` plus the coordinator's check interval), and then commits the tasks'.
"""
MIN_TIMEOUT_MS: Final = 2 * MIN_LEFT_MS
"""The shortest safe transaction.timeout.ms, which leaves a batch half of it for its tasks."""
_ABORTED_WITHIN_MS: Final = 20_000
"""Twice Kafka's default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""
_CLOCKS: Final = (
    " and is open {:,.0f} s longer than brokers allow, by this driver's clock: compare the clocks "
    "of driver, executors and brokers"
)
_SHOWN: Final = 10
"""Transactions that an error names."""


def check_alive(
    transactions: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription] | None,
    now_ms: int,
) -> None:
    """Raise unless every transaction is open, untouched, and has time left.

    Args:
        transactions: those that are to be decided.
        descriptions: what their coordinators say; None where brokers are too old to be asked, so
            that only the tasks' own times tell.
        now_ms: the driver's clock, milliseconds since 1970.

    Raises:
        TransactionError: one is not.
    """
    found = list(_problems(transactions, descriptions, now_ms))
    if not found:
        return
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise TransactionError(
        f"{len(found)} of {plural(len(transactions), 'transaction')} can't be committed "
        f"safely, so that nothing of the batch is decided: {'; '.join(found[:_SHOWN])}{more}",
        hint="Nothing is lost: the batch can run again. If tasks take longer than "
        "transaction.timeout.ms, raise it, and transaction.max.timeout.ms of the brokers with it, "
        "or make the batches smaller",
    )


def _problems(
    transactions: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription] | None,
    now_ms: int,
) -> Iterator[str]:
    for task in transactions:
        name = task.transactional_id
        if descriptions is None:
            started_ms, timeout_ms = task.started_ms, task.timeout_ms
        else:
            told = descriptions.get(name)
            if told is None:
                yield f"{name} is not known to its coordinator any more"
                continue
            if told.state is not TransactionState.ONGOING or not told.is_of(task.transaction):
                yield f"{name} is {told.state.value} at epoch {told.epoch}, not open"
                continue
            started_ms = min(task.started_ms, told.started_ms or task.started_ms)
            timeout_ms = told.timeout_ms
        left_ms = timeout_ms - max(0, now_ms - started_ms)
        if left_ms < MIN_LEFT_MS:
            left = f"{name} has {max(0, left_ms) / 1000:.0f} of {timeout_ms / 1000:.0f} s left"
            overdue = descriptions is not None and left_ms < -_ABORTED_WITHIN_MS
            yield left + (_CLOCKS.format(-left_ms / 1000) if overdue else "")


MARKER_SECONDS: Final = 2.0
"""Within which brokers write the markers of a transaction that is committed."""
MARKER_PAUSE: Final = 0.005
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _FirstLook:
    """The scope's latest record as it was read behind the fence; None where there was none."""

    record: Record | None


class Driver:
    """A driver of one scope, for one call of planning, commit or abort.

    Args:
        client: sends; lent, not owned.
        config: the sink's, with a transactionalIdPrefix.
        scope: what it is the driver of.
    """

    def __init__(self, client: BlockingClient, config: SinkConfig, scope: Scope) -> None:
        self.client = client
        self.scope = scope
        self._config = config
        self.admin = TransactionAdmin(client, acl_prefix(scope.prefix))
        self.watch = Stopwatch(client.now)
        self._log = DecisionLog(client, self.admin, config.exactly_once)
        self._chunks: frozenset[int] = frozenset()
        """The chunks that the scope has in the log, as far as this driver knows."""
        self._earlier: list[Message] = []
        """What removes the record of an earlier version that holds for the scope."""
        self._first: _FirstLook | None = None
        """What was read behind the fence, until an append has made sure of it."""
        self._deadline = self._new_deadline()
        """Of all that comes before a decision, in the client's seconds."""

    @property
    def is_late(self) -> bool:
        """Whether max.block.ms has passed."""
        return self.client.now() >= self._deadline

    def restart(self) -> None:
        """Give max.block.ms anew to what comes next, as what came before could not be limited."""
        self._deadline = self._new_deadline()

    def of(self, scope: Scope, deadline: float | None = None) -> Driver:
        """A driver of another scope, on the same client; None: max.block.ms from now on."""
        made = Driver(self.client, self._config, scope)
        if deadline is not None:
            made._deadline = deadline
        return made

    @property
    def max_block_s(self) -> float:
        """max.block.ms in seconds."""
        return self._config.producer.max_block_ms / 1000

    def fence(self) -> OpenTransaction:
        """Begin an epoch of our own: earlier drivers of the scope can't append any more."""
        with self.watch.step("fence"):
            name = driver_id(self.scope)
            return self.admin.init_producer_id(name, DRIVER_TIMEOUT_MS, self._deadline)

    def begin(self, timeout_ms: int) -> OpenTransaction:
        """As `fence`, for a transaction that tasks write in; `timeout_ms`: of that transaction."""
        with self.watch.step("begin"):
            return self.admin.init_producer_id(driver_id(self.scope), timeout_ms, self._deadline)

    def end_epoch(self, owner: OpenTransaction) -> None:
        """Abort what is open in an epoch, and let nothing more happen in it.

        A newer driver's epoch is left alone: EndTxn is refused there, while InitProducerId aborts
        what is open in whichever epoch.

        Raises:
            BrokerUnavailableError: the coordinator has not said whether it is aborted.
        """
        with self.watch.step("abort"):
            codes = self.admin.end([owner], commit=False, deadline=self._deadline)
            code = codes[owner.transactional_id]
            if not is_ended(code):
                raise self.client.unavailable(f"aborting {owner.transactional_id}", code)
            if not owner.version.bumps_epoch and commit_outcome(code) is not EndOutcome.FENCED:
                with suppress(FencedError):
                    self.admin.init_producer_id(
                        owner.transactional_id, DRIVER_TIMEOUT_MS, self._deadline, owner
                    )

    def producers(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """The producers that the leaders of these partitions know."""
        with self.watch.step("describe"):
            return self.admin.describe_producers(partitions, self._deadline)

    def check_describes_producers(self) -> None:
        """Raise a ProtocolError where the decision log's leader is too old for `producers`."""
        log = TopicPartition(self._config.exactly_once.decision_log_topic, 0)
        self.producers((log,))

    def read(self, *, create: bool = True) -> DecisionRecords:
        """The decision log, to its end; a missing topic is made, or else it counts as empty."""
        with self.watch.step("read"):
            records = self._log.read(self._deadline, create=create)
        self.note_chunks(records)
        return records

    def read_fenced(self) -> Record | None:
        """The scope's latest record, read in an epoch of our own.

        A leader that was deposed without knowing it may tell an old end of the log. So `append`
        reads it again before its first record of the epoch counts: from whoever has taken that.
        """
        record = self.read().latest(self.scope)
        self._first = _FirstLook(record)
        return record

    def note_chunks(self, records: DecisionRecords) -> None:
        """See which keys of the log the next `append` has to set to null."""
        self._chunks |= records.chunk_keys(self.scope)
        earlier = records.undistinguished(self.scope)
        self._earlier = (
            [] if earlier is None else replacing(earlier, None, records.chunk_keys(earlier))
        )

    @property
    def holds_earlier(self) -> bool:
        """Whether the record that was read is one of an earlier version, for `append` to move."""
        return bool(self._earlier)

    def read_unfenced(self, *, create: bool = True) -> DecisionRecords:
        """The decision log, as far as it goes without ending what its drivers are about.

        An append of the scope that was committed a moment ago is waited for.
        """
        records = self.read(create=create)
        deadline = self.client.deadline(MARKER_SECONDS)
        while self._log.is_pending(self.scope) and self.client.now() < deadline:
            self.client.pause(MARKER_PAUSE, None)
            records = self.read(create=create)
        return records

    def is_deciding(self) -> bool:
        """Return True if the latest read has met an append of the scope that may be committed."""
        return self._log.is_pending(self.scope)

    def append(
        self,
        owner: OpenTransaction,
        record: Record | None,
        step: str,
        seconds: float = 0.0,
        before_commit: Callable[[], None] | None = None,
    ) -> OpenTransaction:
        """Make `record` the scope's latest, or have the scope forgotten where it is None.

        Args:
            owner: the driver at its epoch.
            record: what to append.
            step: the name under which it is timed.
            seconds: how long it may take where max.block.ms does not count any more.
            before_commit: see `TransactionalAppender.append`.

        Returns:
            The driver at the epoch of its next append.

        Raises:
            FencedError: a newer driver has taken over; nothing is appended, unless it is an
                UnclearFenceError.
            BrokerUnavailableError: too late, and it may be appended or not; or what was read behind
                the fence was old, and only a new epoch and a new look can tell.
        """
        messages = replacing(self.scope, record, self._chunks)
        earlier = self._earlier
        deadline = self.client.deadline(seconds) if seconds else self._deadline

        def look() -> None:
            if before_commit is not None:
                before_commit()
            self._look_again()

        with self.watch.step(step):
            owner = self._append(owner, [*messages, *earlier], deadline, look)
        self._first, self._chunks, self._earlier = None, chunks_of(messages), []
        return owner

    def check_alive(
        self, transactions: Sequence[TaskTransaction], seconds: float | None = None
    ) -> None:
        """Raise a TransactionError unless all of them can still be committed.

        An abort flag of theirs refuses it as well: abort() creates the flag before it reads the log
        and aborts, and the decision is in the log when this is asked for the last time. So one of
        the two sees the other.

        `seconds`: how long that may take; None for what is left of max.block.ms.
        """
        deadline = self._deadline
        if seconds is not None:
            deadline = min(deadline, self.client.deadline(seconds))
        with self.watch.step("describe"):
            ids = [each.transactional_id for each in transactions]
            flags = {abort_flag_id(self.scope, nonce) for nonce in nonces_of(transactions)}
            told = self.describe([*ids, *flags], deadline)
            check_alive(transactions, told, self.client.wall_ms())
            if flags.intersection(told or ()):
                raise TransactionError(
                    "abort() was called for these tasks: nothing of the batch is decided",
                    hint="Start the query or the job again",
                )

    def describe(
        self, ids: Collection[str], deadline: float
    ) -> dict[str, TransactionDescription] | None:
        """What coordinators say of these ids; None where brokers are older than Kafka 3.0."""
        try:
            return self.admin.describe(ids, deadline)
        except ProtocolError as error:
            _LOG.debug("transactions can't be described: %s", error)
            return None

    def _new_deadline(self) -> float:
        return self.client.deadline(self.max_block_s)

    def described(self, ids: Collection[str]) -> Mapping[str, TransactionDescription]:
        """What coordinators say of these ids, by max.block.ms; nothing where they are too old."""
        return self.describe(ids, self._deadline) or {}

    def _look_again(self) -> None:
        """Raise a BrokerUnavailableError where the log's latest record is not what was read."""
        first = self._first
        if first is None or self.read(create=False).latest(self.scope) == first.record:
            return
        raise BrokerUnavailableError(
            f"the decision log's leader had an old end, and lacked the latest word on {self.scope}",
            hint="Run the write again: nothing of it is decided",
        )

    def _append(
        self,
        owner: OpenTransaction,
        messages: Sequence[Message],
        deadline: float,
        before_commit: Callable[[], None],
    ) -> OpenTransaction:
        try:
            return self._log.append(owner, messages, deadline, before_commit)
        except FencedError as error:
            raise type(error)(
                f"a newer driver of {self.scope} has taken over, and this one must stop",
                error=error.error,
                hint="A query may run once at a time under its transactionalIdPrefix: end this "
                "driver or the other one. What was decided is finished by whichever goes on",
            ) from error


@contextmanager
def connected_driver(config: SinkConfig, scope: Scope) -> Iterator[Driver]:
    """A driver on a client that earlier calls of this process have left, or on a new one."""
    with borrowed_client(config.producer) as client:
        yield Driver(client, config, scope)
