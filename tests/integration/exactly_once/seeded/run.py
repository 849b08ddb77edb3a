"""One run: a stream's batches one after the other, until Spark's commit log has them all."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError, TornTransactionError
from spark_kafka_sink.exactly_once import protocol
from spark_kafka_sink.exactly_once.protocol import Caller, Refusal, Verdict
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome
from spark_kafka_sink.exactly_once.transactional_id import new_nonce, nonces_of
from tests.integration.exactly_once.crashing import CrashError, stepped_driver
from tests.integration.exactly_once.seeded.plan import TASKS, Then, draw
from tests.integration.exactly_once.writing import (
    PARTITIONS,
    QUERY,
    ROWS,
    first_of,
    stream,
)

if TYPE_CHECKING:
    from spark_kafka_sink import EmbeddedBroker
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult
    from tests.integration.exactly_once.seeded.plan import Attempt, Plan
    from tests.integration.exactly_once.writing import Writes

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
    """What a run has come to; `problem` is what is wrong, if anything is."""

    problem: str | None
    attempts: int
    """Runs of a batch in the plan; the last of each batch has no trouble."""


def run(broker: EmbeddedBroker, seed: int) -> Result:
    """Run a seed's plan, and read what is there."""
    plan = draw(seed)
    problem = _problem(broker, f"seed-{seed}-{new_nonce()}", plan)
    return Result(problem, sum(len(attempts) for attempts in plan.batches))


def _problem(broker: EmbeddedBroker, topic: str, plan: Plan) -> str | None:
    broker.create_topic(topic, PARTITIONS)
    query = stream(broker.bootstrap_servers, topic, topic, **_OPTIONS)
    late: list[tuple[str, list[TaskResult]]] = []
    expected: Counter[int] = Counter()
    try:
        for number, attempts in enumerate(plan.batches):
            batch = str(number)
            if not _run_batch(broker, query, batch, attempts, late):
                return f"batch {batch} is never committed"
            expected += _rows(batch, attempts[-1].empty)
        for batch, results in late:
            with suppress(KafkaProdError):
                query.committer.commit(batch, results)
    except TornTransactionError as error:
        return f"torn without a timeout: {error}"
    finally:
        broker.faults.clear()
    return _difference(query.visible(), expected)


def _run_batch(
    broker: EmbeddedBroker,
    query: Writes,
    batch: str,
    attempts: tuple[Attempt, ...],
    late: list[tuple[str, list[TaskResult]]],
) -> bool:
    return any(_attempt(broker, query, batch, each, late) for each in attempts)


def _attempt(
    broker: EmbeddedBroker,
    query: Writes,
    batch: str,
    attempt: Attempt,
    late: list[tuple[str, list[TaskResult]]],
) -> bool:
    """Whether the batch got into Spark's commit log."""
    results = _tasks(broker, query, batch, attempt)
    if attempt.comes_late:
        late.append((batch, results))
    try:
        _commit(broker, query, batch, attempt, results)
    except TornTransactionError:
        raise
    except (CrashError, KafkaProdError):
        broker.faults.clear()
        if attempt.then is Then.ABORT:
            query.committer.abort(batch, results, complete=True)
        return False
    broker.faults.clear()
    return True


def _tasks(broker: EmbeddedBroker, query: Writes, batch: str, attempt: Attempt) -> list[TaskResult]:
    """Planning and the tasks, each in a second attempt where the first one is lost."""
    verdict = protocol.judge(query.committer.recover(), Caller(query=QUERY, batch=batch))
    if isinstance(verdict, Refusal):
        raise TypeError(f"batch {batch} is refused: {verdict}")
    if verdict is Verdict.SKIP:
        return [query.result(TaskOutcome.SKIPPED, batch)] * TASKS
    if attempt.task_fault is not None:
        broker.faults.add(attempt.task_fault)
    nonce = new_nonce()
    results = []
    for task in range(TASKS):
        if task in attempt.empty:
            results.append(query.result(TaskOutcome.EMPTY, batch))
            continue
        if task in attempt.lost:
            query.task(batch, task, nonce)
        results.append(query.task(batch, task, nonce))
    broker.faults.clear()
    return results


def _commit(
    broker: EmbeddedBroker,
    query: Writes,
    batch: str,
    attempt: Attempt,
    results: list[TaskResult],
) -> None:
    tasks = tuple(each.transaction for each in results if each.transaction is not None)
    caller = Caller(query=QUERY, batch=batch, nonces=nonces_of(tasks))

    def happens() -> None:
        if attempt.then is Then.RIVAL:
            query.committer.commit(batch, _tasks(broker, query, batch, attempt))
        elif attempt.then is Then.GHOST:
            query.committer.abort(batch, results, complete=True)
        else:
            raise CrashError(attempt.step)

    if attempt.commit_fault is not None:
        broker.faults.add(attempt.commit_fault)
    with stepped_driver(query, attempt.step or "", happens) as driver:
        commit_batch(driver, caller, tasks)
    if attempt.then is Then.GHOST and attempt.step is not None:
        raise CrashError("Spark does not wait for this commit() any more")


def _rows(batch: str, empty: tuple[int, ...]) -> Counter[int]:
    starts = [first_of(batch, task) for task in range(TASKS) if task not in empty]
    return Counter(number for start in starts for number in range(start, start + ROWS))


def _difference(found: Counter[int], expected: Counter[int]) -> str | None:
    lost, doubled = expected - found, found - expected
    if not lost and not doubled:
        return None
    return (
        f"{lost.total()} lost ({sorted(lost)[:3]}), {doubled.total()} more ({sorted(doubled)[:3]})"
    )
