"""Execute one run: all batches of a query, until Spark's commit log contains them.

The query writes a stream, or a foreachBatch function writes each batch to two topics.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import KafkaProdError, ProtocolError, TornTransactionError
from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.decision_rules import BatchVerdict
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskResult
from spark_kafka_sink.exactly_once.transactional_id import Scope, WriteDestination, new_nonce
from tests.integration.exactly_once.seeded.plan import TASKS, Attempt, FollowUp, Plan, draw
from tests.integration.exactly_once.simulated_writes import (
    PARTITIONS,
    ROWS,
    Writes,
    first_of,
    stream,
)
from tests.integration.exactly_once.stepped_client import CrashError, stepped_client

_OPTIONS = {
    "kafka.request.timeout.ms": "300",
    "kafka.delivery.timeout.ms": "20000",
    "kafka.retry.backoff.ms": "5",
    "kafka.reconnect.backoff.ms": "5",
    "kafka.reconnect.backoff.max.ms": "20",
    "kafka.linger.ms": "0",
}


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run; `problem` describes a detected error."""

    problem: str | None
    attempts: int
    """Executions of batches in the plan; the last one of each batch has no faults."""


def run(broker: EmbeddedBroker, seed: int) -> Result:
    """Execute the plan of a seed and check the records."""
    plan = draw(seed)
    problem = _problem(broker, f"seed-{seed}-{new_nonce()}", plan)
    return Result(problem, sum(len(attempts) for attempts in plan.batches))


@dataclass(frozen=True, slots=True)
class _Late:
    """Messages of an attempt that are committed again later."""

    write: Writes
    batch: str
    results: list[TaskResult]


def _problem(broker: EmbeddedBroker, topic: str, plan: Plan) -> str | None:
    topics = (topic, f"{topic}-other")
    for written_topic in topics:
        broker.create_topic(written_topic, PARTITIONS)
    query = stream(broker.bootstrap_servers, topic, topic, **_OPTIONS)
    late: list[_Late] = []
    expected: Counter[int] = Counter()
    try:
        for number, attempts in enumerate(plan.batches):
            writes = _writes(query, topics, str(number)) if plan.function else (query,)
            if not any(
                _attempt(broker, writes, str(number), attempt, late) for attempt in attempts
            ):
                return f"batch {number} is never committed"
            expected += _rows(str(number), attempts[-1].empty)
        for again in late:
            with suppress(KafkaProdError):
                again.write.committer.commit(again.batch, again.results)
    except TornTransactionError as error:
        return f"torn without a timeout: {error}"
    finally:
        broker.faults.clear()
    visible_rows = [replace(query, topic=topic).visible() for topic in topics[: 1 + plan.function]]
    return next(filter(None, (_difference(visible, expected) for visible in visible_rows)), None)


def _writes(query: Writes, topics: tuple[str, ...], batch: str) -> tuple[Writes, ...]:
    """Return the writes of a function that is called with a batch."""
    return tuple(
        replace(
            query,
            topic=topic,
            scope=Scope.batch(query.scope.prefix, batch, WriteDestination(topic=topic)),
        )
        for topic in topics
    )


def _attempt(
    broker: EmbeddedBroker,
    writes: tuple[Writes, ...],
    batch: str,
    attempt: Attempt,
    late: list[_Late],
) -> bool:
    """Return True if all writes of the batch completed, so that it is in Spark's commit log."""
    run_id = new_nonce() if len(writes) > 1 else None
    return all(
        _write(
            broker,
            replace(write, run_id=run_id),
            batch,
            attempt if attempt.write % len(writes) == number else Attempt(empty=attempt.empty),
            late,
        )
        for number, write in enumerate(writes)
    )


def _write(
    broker: EmbeddedBroker, query: Writes, batch: str, attempt: Attempt, late: list[_Late]
) -> bool:
    nonce = new_nonce()
    results = _tasks(broker, query, batch, attempt, nonce)
    if attempt.comes_late:
        late.append(_Late(query, batch, results))
    try:
        _commit(broker, query, batch, attempt, results, nonce)
    except TornTransactionError:
        raise
    except (CrashError, KafkaProdError):
        broker.faults.clear()
        if attempt.then is FollowUp.ABORT:
            query.committer.abort(batch, results, complete=True, nonce=nonce)
        return False
    broker.faults.clear()
    return True


def _tasks(
    broker: EmbeddedBroker, query: Writes, batch: str, attempt: Attempt, nonce: str
) -> list[TaskResult]:
    """Plan the batch and run its tasks, with a second attempt if the first one is lost."""
    verdict = decision_rules.batch_verdict(
        query.committer.recover(), query.batch_write(batch, nonce)
    )
    if isinstance(verdict, BatchRejection):
        raise TypeError(f"batch {batch} is rejected: {verdict}")
    if verdict is BatchVerdict.SKIP:
        return [query.result(TaskOutcome.SKIPPED, batch)] * TASKS
    if attempt.task_fault is not None:
        broker.faults.add(attempt.task_fault)
    results = []
    for task in range(TASKS):
        if task in attempt.empty:
            results.append(query.result(TaskOutcome.EMPTY, batch))
            continue
        if task in attempt.lost:
            query.task(batch, task, nonce)
        try:
            results.append(query.task(batch, task, nonce))
        except ProtocolError:  # The broker has closed the connection twice: Spark retries the task.
            broker.faults.clear()
            results.append(query.task(batch, task, nonce))
    broker.faults.clear()
    return results


def _commit(
    broker: EmbeddedBroker,
    query: Writes,
    batch: str,
    attempt: Attempt,
    results: list[TaskResult],
    nonce: str,
) -> None:
    tasks = tuple(result.transaction for result in results if result.transaction is not None)

    def happens() -> None:
        if attempt.then is FollowUp.SECOND_DRIVER:
            other = new_nonce()
            second = replace(query, run_id=query.run_id and other)
            tasks = _tasks(broker, second, batch, attempt, other)
            second.committer.commit(batch, tasks, other)
        elif attempt.then is FollowUp.INTERRUPT:
            query.committer.abort(batch, results, complete=True, nonce=nonce)
        else:
            raise CrashError(attempt.step)

    if attempt.commit_fault is not None:
        broker.faults.add(attempt.commit_fault)
    with stepped_client(query, attempt.step or "", happens) as scope_client:
        commit_batch(scope_client, query.batch_write(batch, nonce), tasks)
    if attempt.then is FollowUp.INTERRUPT and attempt.step is not None:
        raise CrashError("Spark does not wait for this commit() any more")


def _rows(batch: str, empty: tuple[int, ...]) -> Counter[int]:
    starts = [first_of(batch, task) for task in range(TASKS) if task not in empty]
    return Counter(number for start in starts for number in range(start, start + ROWS))


def _difference(visible: Counter[int], expected: Counter[int]) -> str | None:
    lost, doubled = expected - visible, visible - expected
    if not lost and not doubled:
        return None
    return (
        f"{lost.total()} lost ({sorted(lost)[:3]}), {doubled.total()} more ({sorted(doubled)[:3]})"
    )
