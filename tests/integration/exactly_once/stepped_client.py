"""Scope clients that crash or pause at a chosen step between two requests to Kafka."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.decision_rules import Caller
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind
from spark_kafka_sink.kafka.admin.blocking_client import borrowed_client
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction
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


class CrashError(Exception):
    """Simulates a process crash."""


class SteppedClient(ScopeClient):
    """Calls `action` at one step of `STEPS`."""

    step = ""
    action: Callable[[], None]

    def reach(self, step: str) -> None:
        """Call the action if `step` is the chosen one."""
        if step == self.step:
            self.action()

    def fence(self) -> OpenTransaction:
        """See `ScopeClient`."""
        self.reach("before fence")
        owner = super().fence()
        self.reach("after fence")
        return owner

    def read(self, *, create: bool = True) -> DecisionRecords:
        """See `ScopeClient`."""
        records = super().read(create=create)
        self.reach("after read")
        return records

    def check_alive(
        self, transactions: Sequence[TaskTransaction], seconds: float | None = None
    ) -> None:
        """See `ScopeClient`."""
        super().check_alive(transactions, seconds)
        self.reach("after describe")

    def append(
        self,
        owner: OpenTransaction,
        record: DecisionRecord | None,
        step: str,
        seconds: float = 0.0,
        before_commit: Callable[[], None] | None = None,
    ) -> OpenTransaction:
        """See `ScopeClient`."""
        self.reach(f"before {step}")
        owner = super().append(owner, record, step, seconds, before_commit)
        self.reach(f"after {step}")
        return owner


class _SteppedAdmin(TransactionAdmin):
    """Calls the action after the first EndTxn request, or after all of them."""

    def __init__(self, scope_client: SteppedClient) -> None:
        super().__init__(scope_client.client)
        self._scope_client = scope_client

    def end(
        self, transactions: Sequence[OpenTransaction], *, commit: bool, deadline: float | None
    ) -> dict[str, int]:
        """See `TransactionAdmin`."""
        if not commit:
            return super().end(transactions, commit=False, deadline=deadline)
        codes = super().end(transactions[:1], commit=True, deadline=deadline)
        self._scope_client.reach("between two EndTxns")
        codes |= super().end(transactions[1:], commit=True, deadline=deadline)
        self._scope_client.reach("after commit")
        return codes


@contextmanager
def stepped_client(writes: Writes, step: str, action: Callable[[], None]) -> Iterator[ScopeClient]:
    """Yield a scope client that calls `action` at a step."""
    with borrowed_client(writes.config.producer) as client:
        scope_client = SteppedClient(client, writes.config, writes.scope)
        scope_client.step, scope_client.action = step, action
        scope_client.admin = _SteppedAdmin(scope_client)
        yield scope_client


def crash(
    writes: Writes, batch: str, step: str, tasks: tuple[TaskTransaction, ...] | None = None
) -> tuple[TaskTransaction, ...]:
    """Run a batch whose driver crashes at a step; return the transactions of its tasks."""
    tasks = transactions_of(writes.tasks(batch)) if tasks is None else tasks
    is_single = writes.scope.kind is not ScopeKind.STREAM
    caller = Caller(query=writes.query, batch=batch, is_single_batch=is_single)
    with pytest.raises(CrashError), crashing_client(writes, step) as scope_client:
        commit_batch(scope_client, caller, tasks)
    return tasks


@contextmanager
def crashing_client(writes: Writes, step: str) -> Iterator[ScopeClient]:
    """Yield a scope client that crashes at a step."""

    def crash() -> None:
        raise CrashError(step)

    with stepped_client(writes, step, crash) as scope_client:
        yield scope_client
