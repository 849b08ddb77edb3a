"""Simulated exactly-once writes of Spark's tasks and driver, and reads by another client."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.steps.scope_client import connected_scope_client
from spark_kafka_sink.exactly_once.task_transaction import (
    PartitionRange,
    TaskOutcome,
    TaskResult,
    TaskTransaction,
)
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    ScopeKind,
    TaskTransactionalId,
    new_nonce,
    prefix_pattern,
)
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.producer.session_pool import borrow_session, give_back_session
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import numbered
from tools.support.admin import Admin
from tools.support.readers import numbers_in

QUERY = "6b0c7a3e-58e5-4b1f-9a55-0a7f4d3c2b1e"
PARTITIONS = 4
ROWS = 20
"""Rows per task; in batch 17, the numbers of task 3 start at 170,300."""
SETTLE_S = 60.0
ENDING = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_attempts = count(1_000)


class BrokerAddress(Protocol):
    """A real Kafka or an embedded broker."""

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of the brokers."""
        ...


@dataclass(frozen=True, kw_only=True)
class Writes:
    """A query or batch job that writes to one topic."""

    bootstrap_servers: str
    topic: str
    scope: Scope
    query: str | None = QUERY
    timeout_ms: int = 60_000
    rows: int | None = None
    """Rows that each task reports as received from Spark."""
    topics: frozenset[str] | None = None
    """Topics that each task reports for its rows."""
    run_id: str | None = None
    """Run ID of the query, for writes of a foreachBatch function."""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> SinkConfig:
        """Return the configuration of the driver and its tasks."""
        return SinkConfig.parse(
            {
                "kafka.bootstrap.servers": self.bootstrap_servers,
                "kafka.max.block.ms": "20000",
                "topic": self.topic,
                "deliveryGuarantee": "exactly-once",
                "transactionalIdPrefix": self.scope.prefix,
                **self.options,
            }
        )

    @property
    def committer(self) -> BatchCommitter:
        """Return a new committer, like those of the planning and commit processes."""
        return BatchCommitter(self.config, self.scope)

    def batch_write(self, batch: str, nonce: str) -> BatchWrite:
        """Return the write of a batch and its planning."""
        return BatchWrite(
            query_id=self.query,
            batch=batch,
            is_single_batch=self.scope.kind is not ScopeKind.STREAM,
            nonces=frozenset({nonce}),
            run_id=self.run_id,
        )

    def tasks(self, batch: str, tasks: int = 3, nonce: str | None = None) -> list[TaskResult]:
        """Run one attempt of `tasks` tasks; each leaves its transaction open."""
        nonce = nonce or new_nonce()
        return [self.task(batch, number, nonce) for number in range(tasks)]

    def task(self, batch: str, number: int, nonce: str) -> TaskResult:
        """Run one attempt of one task."""
        name = TaskTransactionalId(
            scope=self.scope,
            query_id=self.query,
            batch=batch,
            nonce=nonce,
            partition=number,
            task_attempt_id=next(_attempts),
        )
        settings = TransactionSettings(transactional_id=str(name), timeout_ms=self.timeout_ms)
        session = borrow_session(self.config.producer, transaction=settings)
        session.append(numbered(self.topic, first_of(batch, number), ROWS, PARTITIONS))
        transaction, started_ms = session.flush_transaction(), session.transaction_started_ms
        assert transaction is not None
        assert started_ms is not None
        ranges = ranges_of(session.report(TaskAttempt()))
        give_back_session(session)
        task = TaskTransaction(
            transaction=transaction,
            started_ms=started_ms,
            timeout_ms=self.timeout_ms,
            partitions=ranges,
        )
        return self.result(TaskOutcome.WRITTEN, batch, task)

    def result(
        self, outcome: TaskOutcome, batch: str, task: TaskTransaction | None = None
    ) -> TaskResult:
        """Return the result that a task sends to the driver."""
        return TaskResult(
            outcome=outcome,
            query_id=self.query,
            batch=batch,
            transaction=task,
            rows=self.rows,
            topics=self.topics,
            run_id=self.run_id,
        )

    def settle(self) -> None:
        """Wait until the log contains the markers of all ended transactions."""
        with borrowed_client(self.config.producer) as client:
            admin, pattern = TransactionAdmin(client), prefix_pattern(self.scope.prefix)
            deadline = client.deadline(SETTLE_S)
            while admin.list(pattern, deadline, ENDING):
                pass

    def visible(self) -> Counter[int]:
        """Return the numbers that another read_committed client reads, with their counts."""
        self.settle()
        return self._read()

    def await_visible(self, expected: Counter[int]) -> bool:
        """Wait for these numbers; return True if a read_committed client reads exactly them."""
        deadline = time.monotonic() + SETTLE_S
        while (visible_rows := self._read()) != expected and time.monotonic() < deadline:
            pass
        return visible_rows == expected

    def _read(self) -> Counter[int]:
        return Counter(numbers_in(self.bootstrap_servers, self.topic))


def transactions_of(results: Sequence[TaskResult]) -> tuple[TaskTransaction, ...]:
    """Return the transactions that tasks left open."""
    return tuple(result.transaction for result in results if result.transaction is not None)


def first_of(batch: str, number: int) -> int:
    """Return the first number of a task; it depends on the batch for streams."""
    return 1_000 * (10 * int(batch) if batch.isdigit() else 0) + 100 * number


def rows_of(*batches: str, tasks: int = 3) -> Counter[int]:
    """Return all numbers of these batches, each with count one."""
    starts = [first_of(batch, number) for batch in batches for number in range(tasks)]
    return Counter(number for start in starts for number in range(start, start + ROWS))


NOTHING = rows_of()


def stream(bootstrap_servers: str, topic: str, prefix: str, **options: str) -> Writes:
    """Return a streaming query whose planning has created the decision log."""
    return _planned(
        Writes(
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            scope=Scope.stream(prefix),
            options=options,
        )
    )


def stream_to(kafka: BrokerAddress, topic: str, **options: str) -> Writes:
    """Create a topic, and return a stream to it with its own prefix."""
    Admin(kafka.bootstrap_servers).create_topic(topic, PARTITIONS)
    return stream(kafka.bootstrap_servers, topic, f"p-{topic}", **options)


def batch_job(bootstrap_servers: str, topic: str, scope: Scope) -> Writes:
    """Return one run of a batch job whose planning has created the decision log."""
    assert scope.kind is not ScopeKind.STREAM
    return _planned(
        Writes(bootstrap_servers=bootstrap_servers, topic=topic, scope=scope, query=None)
    )


def _planned(writes: Writes) -> Writes:
    with connected_scope_client(writes.config, writes.scope) as scope_client:
        scope_client.log.read(create=True)
    return writes


def ranges_of(report: DeliveryReport) -> tuple[PartitionRange, ...]:
    return tuple(
        PartitionRange(
            topic=partition.topic,
            partition=partition.partition,
            records=partition.persisted,
            first_offset=partition.first_offset,
            last_offset=partition.last_offset,
        )
        for partition in report.partitions
    )
