"""Measure costs, check the estimates, and write docs/scale.md: `python -m tools.scale`.

The costs are those of the messages and codecs of real writes to many embedded brokers.
"""

import pickle
import random
import tempfile
import time
import timeit
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.exactly_once.decision_record import Record, messages_of
from spark_kafka_sink.exactly_once.decision_rules import Decided
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskResult, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import Scope, TaskTransactionalId
from spark_kafka_sink.kafka.admin.transaction_admin import DescribeTransactionsHandler
from spark_kafka_sink.kafka.protocol.codec import decode, encode
from spark_kafka_sink.kafka.protocol.messages import build
from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.error_tolerance import Rows
from spark_kafka_sink.producer.session import borrow_session, discard_session
from spark_kafka_sink.report.task_report import TaskInfo
from spark_kafka_sink.spark.commit_messages import DeliveryMessage, committed_report
from spark_kafka_sink.spark.exactly_once_task import TransactionMessage, results_of
from tools.benchmarks.results import describe
from tools.benchmarks.spark.contestants import WarmSpark
from tools.docs.pages import table, write_block
from tools.scale.estimate import LIMITS, WORKLOADS, Costs, Limit, Workload, estimate, tightest

TOPIC = "events"
TASKS = 100
"""Number of tasks whose messages are measured."""
_MOST_ROWS = 100_000
_ROUNDS = 3
_NONCE = "0123456789abcdef"
_QUERY = "6b0c1d4e-6d6c-4c57-9a35-5f5f5a1c7d3e"
_SCOPE = Scope.stream("orders")
_STARTED_MS = 1_760_000_000_000


@contextmanager
def many_brokers(size: Workload) -> Iterator[EmbeddedBroker]:
    """Start the brokers of a workload, and create its topic with leaders on all of them."""
    topics = {TOPIC: size.partitions}
    with EmbeddedBroker(nodes=size.brokers, topics=topics, replication_factor=1) as cluster:
        yield cluster


def write(bootstrap_servers: str, rows: int) -> list[DeliveryReport]:
    """Write rows with keys to `TOPIC` in a session; return its report, as of `TASKS` tasks."""
    column = pa.array([b"%d" % number for number in range(rows)], pa.binary())
    config = ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers})
    session = borrow_session(config)
    try:
        session.append(Rows(columns=Columns(value=column, key=column), topics=(TOPIC,)))
        session.flush()
        tasks = [TaskInfo(partition_id=task, task_attempt_id=task) for task in range(TASKS)]
        return [_with_large_offsets(session.report(task)) for task in tasks]
    finally:
        discard_session(session)


def _with_large_offsets(report: DeliveryReport) -> DeliveryReport:
    """Return the report with the offsets of a topic that is not new, which need more bytes."""
    partitions = []
    for part in report.partitions:
        first, shift = part.first_offset or 0, random.randrange(10**6, 10**8)
        last = first + part.persisted - 1
        partitions.append(replace(part, first_offset=first + shift, last_offset=last + shift))
    return replace(report, partitions=tuple(partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The costs of a task of a workload, and the reports of its tasks."""

    size: Workload
    costs: Costs
    reports: list[DeliveryReport]


def measure(size: Workload) -> Measured:
    """Write the rows of a task, and measure the costs of its messages and its transaction."""
    with many_brokers(size) as cluster:
        reports = write(cluster.bootstrap_servers, min(size.rows, _MOST_ROWS))
    partitions = len(reports[0].partitions)
    messages = [_transactional(task, report) for task, report in enumerate(reports)]
    plain = len(pickle.dumps(DeliveryMessage(reports[0])))
    message_bytes, merge_seconds = min(merged(reports, TASKS) for _ in range(_ROUNDS))
    describe_bytes, describe_seconds = _describing(partitions)
    costs = Costs(
        message_bytes=message_bytes / TASKS,
        transaction_bytes=len(pickle.dumps(messages[0])) - plain,
        merge_seconds=merge_seconds / TASKS,
        describe_bytes=describe_bytes / TASKS,
        describe_seconds=describe_seconds / TASKS,
        decision_bytes=_decision_bytes(size, messages) / TASKS,
    )
    return Measured(size=size, costs=costs, reports=reports)


def merged(reports: Sequence[DeliveryReport], tasks: int) -> tuple[int, float]:
    """Return the size of `tasks` messages in bytes, and the driver's CPU seconds to merge them.

    Reports are repeated if necessary. Each message is unpickled separately, as in the driver.
    """
    pickled = [pickle.dumps(DeliveryMessage(each)) for each in reports]
    numbers = [task % len(pickled) for task in range(tasks)]

    started = time.process_time()
    report = committed_report([pickle.loads(pickled[number]) for number in numbers])
    seconds = time.process_time() - started
    assert report.tasks == tasks
    return sum(len(pickled[number]) for number in numbers), seconds


def _transactional(task: int, report: DeliveryReport) -> TransactionMessage:
    """Return the commit message of a task with exactly-once."""
    transactional_id = TaskTransactionalId(
        scope=_SCOPE,
        query_id=_QUERY,
        batch="17",
        nonce=_NONCE,
        partition=task,
        task_attempt_id=task,
    )
    transaction = OpenTransaction(
        transactional_id=str(transactional_id),
        producer_id=4_000 + task,
        epoch=0,
        version=TransactionVersion.V2,
    )
    result = TaskResult(
        outcome=TaskOutcome.WRITTEN,
        query_id=_QUERY,
        batch="17",
        transaction=TaskTransaction(
            transaction=transaction, started_ms=_STARTED_MS, timeout_ms=900_000
        ),
        rows=report.records,
    )
    return TransactionMessage(report, result, _NONCE)


def _describing(partitions: int) -> tuple[int, float]:
    """Return the size of a description of `TASKS` transactions, and the seconds to decode it."""
    handler = DescribeTransactionsHandler()
    names = [f"orders/stream/6b0c1d4e/17/{_NONCE}/{task}/1" for task in range(TASKS)]
    described = {
        "transaction_state": "Ongoing",
        "transaction_timeout": timedelta(minutes=15),
        "transaction_start_time": datetime.now(UTC),
        "producer_id": 4_000,
        "producer_epoch": 0,
        "topics": [{"topic": TOPIC, "partitions": list(range(partitions))}],
    }
    kind = response_type(ApiKey.DESCRIBE_TRANSACTIONS, 0)
    states = [{**described, "transactional_id": name} for name in names]
    data = encode(build(kind, {"transaction_states": states}))

    def work() -> None:
        response: Any = SimpleNamespace(response=decode(kind, data)[0], node=None)
        handler.results(names, response)

    spent = timeit.repeat(work, timer=time.process_time, number=1, repeat=_ROUNDS)
    return len(data), min(spent)


def _decision_bytes(size: Workload, messages: Sequence[TransactionMessage]) -> int:
    """Return the size of the decision for the messages; it lists fewer partitions of more tasks."""
    repeats = max(1, size.tasks // TASKS)
    results = results_of([*messages] * repeats)[: len(messages)]
    transactions = tuple(each.transaction for each in results if each.transaction is not None)
    record = Record.of(Decided("6b0c1d4e", "17", transactions, (), 1_000), _STARTED_MS)
    return sum(len(value or b"") for _, value in messages_of(_SCOPE, record))


def spark_job(bootstrap_servers: str, rows: int, tasks: int, workers: int) -> DeliveryReport:
    """Run a job with `tasks` tasks, at most `workers` of them concurrently; return its report."""
    columns = ("string(id) key", "string(id) value")
    with tempfile.TemporaryDirectory() as folder, WarmSpark(cores=workers) as spark:
        path = f"{folder}/report.json"
        options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": TOPIC, "reportPath": path}
        spark.write("kafkaprod", options, rows, select=columns, tasks=tasks)
        return DeliveryReport.read(path)


_MERGES = (100, 1_000, 10_000)
_CLUSTER = replace(WORKLOADS[2], brokers=50)
"""The cluster on which a Spark job is run."""
_ROWS, _TASKS, _WORKERS = 100_000, 6, 2


def render_estimates(found: Sequence[Measured], *, exactly_once: bool) -> str:
    """Return a table with a column for each workload."""
    sizes = [replace(each.size, exactly_once=exactly_once) for each in found]
    estimates = [estimate(size, each.costs) for size, each in zip(sizes, found, strict=True)]
    limits = [tightest(each) for each in estimates]
    shares = zip(limits, estimates, strict=True)
    rows = [
        ["rows of a task", *(f"{each.rows:,}" for each in sizes)],
        ["tasks at once, seconds each", *(f"{w.slots:,}, {w.task_seconds:g}" for w in sizes)],
        *([name, *(shown(each[name]) for each in estimates)] for name in estimates[0]),
        ["tightest limit", *(f"{limit.figure}: {_share(limit, each)}" for limit, each in shares)],
    ]
    heading = ["tasks x partitions x brokers", *map(_described, sizes)]
    return f"`deliveryGuarantee={sizes[0].guarantee}`:\n\n{table(heading, rows)}"


def render_limits(found: Sequence[Measured]) -> str:
    """Return a table of the limits, the used shares for the largest workloads, and the settings."""
    largest = max(each.size.tasks for each in found)
    writes = [each for each in found if each.size.tasks == largest]

    def used(limit: Limit, *, exactly_once: bool) -> str:
        estimates = (
            estimate(replace(each.size, exactly_once=exactly_once), each.costs) for each in writes
        )
        return _share(limit, max(estimates, key=limit.share))

    rows = (
        (
            limit.figure,
            limit.source,
            *(used(limit, exactly_once=once) for once in (False, True)),
            limit.setting,
        )
        for limit in LIMITS
    )
    return table(("what", "limit", "at-least-once", "exactly-once", "relevant settings"), rows)


def render_costs(found: Sequence[Measured]) -> str:
    """Return a table of the costs of a task, with a column for each workload."""
    rows = (
        (
            field.name.replace("_", " "),
            *(shown(getattr(each.costs, field.name)) for each in found),
        )
        for field in fields(Costs)
    )
    return table(("of a task", *(_described(each.size) for each in found)), rows)


def render_merges(measured: Measured) -> str:
    """Return a table of measured merges of commit messages, with their estimates."""
    rows = []
    for tasks in _MERGES:
        size, seconds = merged(measured.reports, tasks)
        estimated = shown(tasks * measured.costs.message_bytes)
        estimated_s = f"{tasks * measured.costs.merge_seconds:.2f}"
        rows.append((f"{tasks:,}", shown(size), estimated, f"{seconds:.2f}", estimated_s))
    return table(("tasks", "bytes", "estimate", "CPU seconds", "estimate"), rows)


def render_connections(found: Sequence[Measured], job: DeliveryReport) -> str:
    """Return a table of the connections that the brokers should have and have counted."""
    single = [(f"a task, {_described(each.size)}", each.size, 1, each.reports[0]) for each in found]
    spark = (f"a Spark job of {job.tasks} tasks, {_described(_CLUSTER)}", _CLUSTER, _WORKERS, job)
    rows = (
        (
            name,
            f"{workers}",
            f"{workers * size.worker_connections:.0f}",
            f"{sum(each.connects for each in report.metrics.brokers)}",
            f"{report.persisted:,}",
        )
        for name, size, workers, report in (*single, spark)
    )
    return table(("writer", "workers", "connections expected", "counted", "records"), rows)


def shown(value: float) -> str:
    """Format a number with two or three digits and a unit prefix."""
    for unit, size in (
        (" G", 1e9),
        (" M", 1e6),
        (" k", 1e3),
        ("", 1.0),
        (" m", 1e-3),
        (" µ", 1e-6),
    ):
        if value >= size:
            return f"{value / size:.{0 if value >= 9.95 * size else 1}f}{unit}"
    return f"{value:g}"


def _described(size: Workload) -> str:
    return f"{size.tasks:,} x {size.partitions:,} x {size.brokers}"


def _share(limit: Limit, estimated: dict[str, float]) -> str:
    share = limit.share(estimated)
    return f"{share:.0%}" if share >= 0.01 else "below 1%"


def main() -> None:
    """Measure, check, and update docs/scale.md."""
    machine, found = describe(), [measure(size) for size in WORKLOADS]
    blocks = {
        "scale-costs": f"{machine}.\n\n{render_costs(found)}",
        "scale-estimates": "\n".join(
            render_estimates(found, exactly_once=once) for once in (False, True)
        ),
        "scale-limits": render_limits(found),
        "scale-merges": render_merges(found[2]),
        "scale-cluster": render_connections(found, _spark_job()),
    }
    for name, text in blocks.items():
        print(f"{name}\n\n{text}")
        write_block(name, text)


def _spark_job() -> DeliveryReport:
    """Run a Spark job; check that every record was written exactly once."""
    with many_brokers(_CLUSTER) as cluster:
        job = spark_job(cluster.bootstrap_servers, _ROWS, _TASKS, _WORKERS)
        found = Counter(record.value for record in cluster.records(TOPIC))
    if found != Counter(b"%d" % number for number in range(_ROWS)):
        raise SystemExit(f"found {found.total():,} records, expected {_ROWS:,}")
    return job


if __name__ == "__main__":
    main()
