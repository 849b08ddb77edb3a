"""Scope clients that crash or pause at a chosen step between two requests to Kafka."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from spark_kafka_sink.exactly_once.decision_log import DRIVER_TIMEOUT_MS
from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.scope_state import Decided
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.steps.scope_log import ScopeLog
from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, borrowed_client
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from tests.integration.exactly_once.simulated_writes import Writes, transactions_of

STEPS = (
    "after fence",
    "after read",
    "after describe",
    "before decide",
    "after decide",
    "between two EndTxns",
    "after commit",
    "before done",
    "after done",
)
DECIDED = STEPS[STEPS.index("after decide") :]
"""The steps after the decision."""
Log = TypeVar("Log", bound=ScopeLog)


class CrashError(Exception):
    """Simulates a process crash."""


@dataclass
class _Breakpoint:
    """A step, and the action that runs when a driver reaches it."""

    step: str
    action: Callable[[], None]
    reached: list[str] = field(default_factory=list)
    """All steps so far."""

    def reach(self, step: str) -> None:
        """Call the action if `step` is the chosen one."""
        self.reached.append(step)
        if step == self.step:
            self.action()


class _SteppedLog(ScopeLog):
    """Calls the action after a read, or before or after an append."""

    breakpoint: _Breakpoint

    def read(self, *, create: bool = False) -> DecisionRecords:
        """See `ScopeLog`."""
        records = super().read(create=create)
        self.breakpoint.reach("after read")
        return records

    def append(
        self,
        owner: TransactionalProducer,
        record: DecisionRecord | None,
        seconds: float = 0.0,
        before_commit: Callable[[], None] | None = None,
    ) -> TransactionalProducer:
        """See `ScopeLog`."""
        step = _step_of(record)
        self.breakpoint.reach(f"before {step}")
        owner = super().append(owner, record, seconds, before_commit)
        self.breakpoint.reach(f"after {step}")
        return owner


def _step_of(record: DecisionRecord | None) -> str:
    if record is None or not isinstance(record.state, Decided):
        return "done"
    return "torn" if record.is_torn else "decide"


class SteppedClient(ScopeClient):
    """Calls the action at one step of `STEPS`."""

    breakpoint: _Breakpoint

    def fence(self, timeout_ms: int = DRIVER_TIMEOUT_MS) -> TransactionalProducer:
        """See `ScopeClient`."""
        self.breakpoint.reach("before fence")
        owner = super().fence(timeout_ms)
        self.breakpoint.reach("after fence")
        return owner

    def check_committable(
        self, transactions: Sequence[TaskTransaction], seconds: float | None = None
    ) -> None:
        """See `ScopeClient`."""
        super().check_committable(transactions, seconds)
        self.breakpoint.reach("after describe")

    def commit(
        self, transactions: Sequence[TransactionalProducer], deadline: float
    ) -> dict[str, int]:
        """Send the first EndTxn request before the others."""
        codes = super().commit(transactions[:1], deadline)
        self.breakpoint.reach("between two EndTxns")
        codes |= super().commit(transactions[1:], deadline)
        self.breakpoint.reach("after commit")
        return codes


@contextmanager
def stepped_client(
    writes: Writes, step: str, action: Callable[[], None]
) -> Iterator[SteppedClient]:
    """Yield a scope client that calls `action` at a step."""
    with borrowed_client(writes.config.producer) as client:
        scope_client = SteppedClient(client, writes.config, writes.scope)
        log = scope_log(client, writes, scope_client, _SteppedLog)
        scope_client.breakpoint = log.breakpoint = _Breakpoint(step, action)
        yield scope_client


def scope_log(
    client: BlockingClient, writes: Writes, scope_client: ScopeClient, type_: type[Log]
) -> Log:
    """Replace the log of a scope client with one of another class, and return it."""
    log = type_(
        client,
        TransactionAdmin(client),
        writes.config.exactly_once,
        writes.scope,
        scope_client.timer,
    )
    scope_client.log = log
    return log


def crash(
    writes: Writes, batch: str, step: str, tasks: tuple[TaskTransaction, ...] | None = None
) -> tuple[TaskTransaction, ...]:
    """Run a batch whose driver crashes at a step; return the transactions of its tasks."""
    tasks = transactions_of(writes.tasks(batch)) if tasks is None else tasks
    is_single = writes.scope.kind is not ScopeKind.STREAM
    batch_write = BatchWrite(query_id=writes.query, batch=batch, is_single_batch=is_single)
    with pytest.raises(CrashError), crashing_client(writes, step) as scope_client:
        commit_batch(scope_client, batch_write, tasks)
    return tasks


@contextmanager
def crashing_client(writes: Writes, step: str) -> Iterator[ScopeClient]:
    """Yield a scope client that crashes at a step."""

    def crash() -> None:
        raise CrashError(step)

    with stepped_client(writes, step, crash) as scope_client:
        yield scope_client
