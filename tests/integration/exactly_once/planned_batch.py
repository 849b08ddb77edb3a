"""A planned micro-batch, whose tasks and commit a test runs step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.exactly_once.commit_outcome import CommitResult
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.shared_transaction import claim
from spark_kafka_sink.exactly_once.steps.shared_commit import commit_shared
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskResult, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import TaskTransactionalId, new_nonce
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import (
    borrow_session,
    discard_session,
    give_back_session,
)
from spark_kafka_sink.producer.transactions.transaction_settings import (
    SharedTransaction,
    TransactionSettings,
)
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.integration.exactly_once.simulated_writes import ROWS, Writes, first_of, ranges_of
from tests.integration.exactly_once.stepped_client import stepped_client
from tests.support.producer_writes import rows

TASKS = 3
TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class PlannedBatch:
    """A planned batch, with the state that its tasks receive with their writer."""

    writes: Writes
    number: str
    shared: TransactionalProducer
    nonce: str

    def session(self, task: int) -> ProducerSession:
        """Return the session of a task attempt."""
        shared = SharedTransaction(producer=self.shared, claim_id=self.claim_id(task))
        settings = TransactionSettings(
            transactional_id=self.shared.transactional_id, timeout_ms=TIMEOUT_MS, shared=shared
        )
        return borrow_session(self.writes.config.producer, transaction=settings)

    def claim_id(self, task: int) -> str:
        """Return the claim id of a task attempt."""
        name = TaskTransactionalId(
            scope=self.writes.scope,
            query_id=self.writes.query,
            batch=self.number,
            nonce=self.nonce,
            partition=task,
            task_attempt_id=0,
        )
        return name.claim_id

    def task(self, task: int, chunk: Rows | None = None) -> TaskResult:
        """Run one attempt of a task with its own partition of the topic."""
        session = self.session(task)
        try:
            session.append(chunk or self.rows(task))
            session.flush()
            transaction = session.flush_transaction()
        except KafkaProdError:
            session.abort_transaction(10.0)
            discard_session(session)
            raise
        assert transaction == self.shared
        ranges = ranges_of(session.report(TaskAttempt()))
        give_back_session(session)
        return self.result(
            TaskTransaction(
                transaction=transaction, started_ms=0, timeout_ms=TIMEOUT_MS, partitions=ranges
            )
        )

    def rows(self, task: int) -> Rows:
        """Return the rows of a task, all in the partition with its number."""
        first = first_of(self.number, task)
        values: list[bytes | None] = [b"%d" % number for number in range(first, first + ROWS)]
        return rows(self.writes.topic, values, partitions=[task] * ROWS)

    def empty(self, task: int) -> TaskResult:
        """Run a task without rows."""
        claim(self.writes.config.producer, self.claim_id(task), TIMEOUT_MS, "p")
        return self.result(None)

    def result(self, transaction: TaskTransaction | None) -> TaskResult:
        return TaskResult(
            outcome=TaskOutcome.WRITTEN if transaction else TaskOutcome.EMPTY,
            query_id=self.writes.query,
            batch=self.number,
            transaction=transaction,
            rows=ROWS if transaction else 0,
            shared=self.shared,
        )

    def tasks(self) -> list[TaskResult]:
        """Run all tasks."""
        return [self.task(number) for number in range(TASKS)]

    def commit(self, results: list[TaskResult]) -> CommitResult:
        return self.writes.committer.commit(self.number, results)

    def commit_with(
        self, step: str, happens: Callable[[], None], results: list[TaskResult]
    ) -> None:
        """Commit and call `action` at a step of the driver."""
        batch_write = BatchWrite(query_id=self.writes.query, batch=self.number)
        with stepped_client(self.writes, step, happens) as scope_client:
            commit_shared(scope_client, batch_write, self.shared, results)


def plan(writes: Writes, number: str) -> PlannedBatch:
    """Plan a batch with a new driver."""
    _, shared = writes.committer.begin(TIMEOUT_MS)
    assert shared is not None
    return PlannedBatch(writes, number, shared, new_nonce())
