"""Measure unit costs with the product's messages and codecs."""

import json
import pickle
import random
import sys
import tempfile
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import psutil
import pyarrow as pa

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.admin.transaction_admin import DescribeTransactionsHandler
from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
from spark_kafka_sink.diagnostics.examination import Intent
from spark_kafka_sink.diagnostics.finding import Severity
from spark_kafka_sink.diagnostics.preflight import examine
from spark_kafka_sink.exactly_once.decision_record import Record, messages_of
from spark_kafka_sink.exactly_once.protocol import Decided
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskResult, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import Scope, TaskTransactionalId
from spark_kafka_sink.metrics.histogram import Histogram, HistogramBuilder
from spark_kafka_sink.metrics.producer_metrics import BrokerMetrics, TopicMetrics
from spark_kafka_sink.producer.error_tolerance import Rows
from spark_kafka_sink.producer.session import borrow_session, discard_session
from spark_kafka_sink.protocol.codec import decode, encode
from spark_kafka_sink.protocol.messages import Values, build
from spark_kafka_sink.protocol.transactions import OpenTransaction, TransactionVersion
from spark_kafka_sink.protocol.versions import ApiKey, response_type
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.report.builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_report import TaskInfo
from spark_kafka_sink.spark.commit_messages import DeliveryMessage, committed_report
from spark_kafka_sink.spark.exactly_once_task import TransactionMessage, results_of
from tools.benchmarks.results import python, run_json
from tools.benchmarks.spark.child import start_session
from tools.scale.estimate import Costs, Linear

TOPIC = "events"
_NONCE = "0123456789abcdef"
_QUERY = "6b0c1d4e-6d6c-4c57-9a35-5f5f5a1c7d3e"


def transaction_message(task: int, partitions: int, brokers: int) -> TransactionMessage:
    """Return the commit message of a task with exactly-once."""
    result = TaskResult(
        outcome=TaskOutcome.WRITTEN,
        query_id=_QUERY,
        batch="17",
        transaction=TaskTransaction(
            transaction=_transaction(task), started_ms=1_760_000_000_000, timeout_ms=900_000
        ),
        rows=partitions * 10,
    )
    return TransactionMessage(_report(task, partitions, brokers), result, _NONCE)


def _transaction(task: int) -> OpenTransaction:
    transactional_id = TaskTransactionalId(
        scope=Scope.stream("orders"),
        query_id=_QUERY,
        batch="17",
        nonce=_NONCE,
        partition=task,
        task_attempt_id=task,
    )
    return OpenTransaction(
        transactional_id=str(transactional_id),
        producer_id=4_000 + task,
        epoch=0,
        version=TransactionVersion.V2,
    )


def _report(task: int, partitions: int, brokers: int) -> DeliveryReport:
    """Return the report of a task that wrote a batch to each partition."""
    rng = random.Random(task)
    builder = ReportBuilder((("linger.ms", "1000"), ("batch.size", "1048576")))
    for partition in range(partitions):
        builder.set_leader(TOPIC, partition, 1 + partition % brokers)
        records, size = rng.randint(5, 20), rng.randint(1_000, 4_000)
        done = FinishedBatch(
            topic=TOPIC,
            partition=partition,
            records=records,
            raw_bytes=size,
            wire_bytes=size,
            next_sequence=task * 12 + records,
        )
        builder.acknowledged(done, rng.randint(10**6, 10**8))
    for _ in range(brokers):
        builder.request_latency(rng.uniform(0.001, 0.05))
    report = builder.build(
        TaskInfo(partition_id=task, task_attempt_id=task), rng.randint(1_000, 9_000)
    )
    metrics = replace(
        report.metrics,
        brokers=tuple(_broker(rng, 1 + each) for each in range(brokers)),
        topics=(
            TopicMetrics(
                topic=TOPIC,
                partitions=partitions,
                batch_size=_times(rng, partitions),
                batch_records=_times(rng, partitions),
            ),
        ),
    )
    return replace(report, metrics=metrics)


def _broker(rng: random.Random, node_id: int) -> BrokerMetrics:
    return BrokerMetrics(
        node_id=node_id,
        name=f"broker-{node_id}.kafka.example.com:9092",
        tx=2,
        tx_bytes=rng.randint(10_000, 50_000),
        rx=2,
        rx_bytes=700,
        connects=1,
        int_latency=_times(rng, 10),
        outbuf_latency=_times(rng, 1),
        rtt=_times(rng, 1),
        throttle=_times(rng, 1),
    )


def _times(rng: random.Random, count: int) -> Histogram:
    builder = HistogramBuilder()
    for _ in range(count):
        builder.add(rng.randint(200, 200_000))
    return builder.build()


_ROUNDS = 3
_TASKS = 100
_FEW, _MANY = 10, 1_000
_FEW_BROKERS, _MANY_BROKERS = 3, 100


def measure() -> Costs:
    """Measure all unit costs."""
    message_bytes, merge = _messages()
    plain = len(pickle.dumps(DeliveryMessage(_report(1, _MANY, _MANY_BROKERS))))
    transactional = pickle.dumps(transaction_message(1, _MANY, _MANY_BROKERS))
    message = pickle.loads(transactional)
    describe_bytes, describe = _describing()
    decision_bytes, decision = _decision()
    metadata_bytes, metadata = _metadata()
    return Costs(
        message_bytes=message_bytes,
        transaction_bytes=len(transactional) - plain,
        merge_seconds=merge,
        result_seconds=_seconds(lambda: results_of([message] * _MANY)) / _MANY,
        describe_bytes=describe_bytes,
        describe_seconds=describe,
        decision_bytes=decision_bytes,
        decision_seconds=decision,
        metadata_bytes=metadata_bytes,
        metadata_seconds=metadata,
    )


def merged(tasks: int, partitions: int, brokers: int) -> tuple[int, float]:
    """Return the size of `tasks` messages in bytes, and the driver's CPU seconds to merge them.

    There are up to 100 different messages. Each message is unpickled separately, as in the driver.
    """
    pickled = [
        pickle.dumps(DeliveryMessage(_report(task, partitions, brokers)))
        for task in range(min(tasks, _TASKS))
    ]
    started = time.process_time()
    report = committed_report([pickle.loads(pickled[task % _TASKS]) for task in range(tasks)])
    seconds = time.process_time() - started
    assert report.tasks == tasks
    assert len(report.partitions) == partitions
    return sum(len(pickled[task % _TASKS]) for task in range(tasks)), seconds


def _messages() -> tuple[Linear, Linear]:
    def cost(partitions: int, brokers: int) -> tuple[float, float]:
        found = [merged(_TASKS, partitions, brokers) for _ in range(_ROUNDS)]
        return found[0][0] / _TASKS, min(seconds for _, seconds in found) / _TASKS

    return _lines(cost)


def _describing() -> tuple[Linear, Linear]:
    handler = DescribeTransactionsHandler()
    names = [f"orders/stream/6b0c1d4e/17/0123456789abcdef/{task}/1" for task in range(_TASKS)]

    def results(response: Any) -> object:
        return handler.results(names, SimpleNamespace(response=response, node=None))  # type: ignore[arg-type]

    def cost(partitions: int, _: int) -> tuple[float, float]:
        described = {
            "transaction_state": "Ongoing",
            "transaction_timeout": timedelta(minutes=15),
            "transaction_start_time": datetime.now(UTC),
            "producer_id": 4_000,
            "producer_epoch": 0,
            "topics": [{"topic": TOPIC, "partitions": list(range(partitions))}],
        }
        values = {"transaction_states": [{**described, "transactional_id": name} for name in names]}
        size, seconds = _decoding(ApiKey.DESCRIBE_TRANSACTIONS, 0, values, results)
        return size / _TASKS, seconds / _TASKS

    return _lines(cost, by_brokers=False)


def _decision() -> tuple[Linear, Linear]:
    def cost(partitions: int, _: int) -> tuple[float, float]:
        results = results_of([transaction_message(each, partitions, 3) for each in range(_TASKS)])
        transactions = tuple(each.transaction for each in results if each.transaction is not None)
        record = Record.of(Decided("6b0c1d4e", "17", transactions, (), 1_000), 1_760_000_000_000)
        scope = Scope.stream("orders")
        size = sum(len(value or b"") for _, value in messages_of(scope, record))
        return size / _TASKS, _seconds(lambda: messages_of(scope, record)) / _TASKS

    return _lines(cost, by_brokers=False)


def _metadata() -> tuple[Linear, Linear]:
    def leader(partition: int, brokers: int) -> Values:
        replicas = [(partition + replica) % brokers for replica in range(3)]
        epoch = {"partition_index": partition, "leader_id": replicas[0], "leader_epoch": 7}
        return {**epoch, "replica_nodes": replicas, "isr_nodes": replicas}

    def cost(partitions: int, brokers: int) -> tuple[float, float]:
        leaders = [leader(each, brokers) for each in range(partitions)]
        values = {
            "brokers": [
                {"node_id": each, "host": f"broker-{each}.kafka.example.com", "port": 9092}
                for each in range(brokers)
            ],
            "cluster_id": "4L6g3nShT-eMCtK--X86sw",
            "controller_id": 1,
            "topics": [{"name": TOPIC, "partitions": leaders}],
        }
        return _decoding(ApiKey.METADATA, 12, values)

    return _lines(cost)


def _decoding(
    api: ApiKey, version: int, values: Values, use: Callable[[Any], object] = id
) -> tuple[float, float]:
    """Return the size of a response in bytes, and the CPU seconds to decode it."""
    kind = response_type(api, version)
    data = encode(build(kind, values))

    def work() -> None:
        response, _ = decode(kind, data)
        use(response)

    return len(data), _seconds(work)


def _seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest round."""
    return min(timeit.repeat(work, timer=time.process_time, number=1, repeat=_ROUNDS))


def _lines(
    cost: Callable[[int, int], tuple[float, float]], *, by_brokers: bool = True
) -> tuple[Linear, Linear]:
    """Fit lines to the bytes and seconds for few and many partitions and brokers."""
    few, many = cost(_FEW, _FEW_BROKERS), cost(_MANY, _FEW_BROKERS)
    brokers = cost(_MANY, _MANY_BROKERS) if by_brokers else many
    size, seconds = (_line(*points) for points in zip(few, many, brokers, strict=True))
    return size, seconds


def _line(few: float, partitions: float, brokers: float) -> Linear:
    partition = (partitions - few) / (_MANY - _FEW)
    broker = max(0.0, (brokers - partitions) / (_MANY_BROKERS - _FEW_BROKERS))
    fixed = few - partition * _FEW - broker * _FEW_BROKERS
    return Linear(fixed=max(0.0, fixed), partition=max(0.0, partition), broker=broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCost:
    """The results and costs of a task's session."""

    persisted: int
    partitions: int
    connections: int
    """Number of connections opened, including the connection to a bootstrap server."""
    most_connections: int
    """Connections to one broker by its ID, not including the connection to a bootstrap server."""
    requests: int
    cpu_seconds: float
    memory: int
    """Memory growth of the process in bytes while the session is open."""


def write(bootstrap_servers: str, rows: int) -> SessionCost:
    """Write `rows` rows with keys to `TOPIC`."""
    names = [b"%d" % number for number in range(rows)]
    column = pa.array(names, pa.binary())
    process, started = psutil.Process(), time.process_time()
    before = process.memory_info().rss
    config = ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers})
    session = borrow_session(config)
    try:
        session.append(Rows(columns=Columns(value=column, key=column), topics=(TOPIC,)))
        session.flush()
        report, memory = session.report(TaskInfo()), process.memory_info().rss - before
    finally:
        discard_session(session)
    brokers = report.metrics.brokers
    connects = Counter({each.node_id: each.connects for each in brokers})
    return SessionCost(
        persisted=report.persisted,
        partitions=len(report.partitions),
        connections=connects.total(),
        most_connections=max(connects.values()),
        requests=sum(each.tx for each in brokers),
        cpu_seconds=time.process_time() - started,
        memory=memory,
    )


BROKERS = 50
PARTITIONS = 1_000


@contextmanager
def many_brokers() -> Iterator[EmbeddedBroker]:
    """Start a cluster with a topic whose leaders are distributed over all brokers."""
    with EmbeddedBroker(nodes=BROKERS, topics={TOPIC: PARTITIONS}, replication_factor=1) as cluster:
        yield cluster


def session_in_a_process(bootstrap_servers: str, rows: int) -> SessionCost:
    """Run `write` in a separate process, so that only its memory is measured."""
    return SessionCost(**run_json(python("tools.scale.measure", bootstrap_servers, str(rows))))


def preflight_seconds(bootstrap_servers: str) -> float:
    """Return the seconds of the driver's checks before a write."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": TOPIC}
    started = time.perf_counter()
    found = examine(Intent(config=SinkConfig.parse(options)))
    seconds = time.perf_counter() - started
    assert not any(each.severity is Severity.ERROR for each in found)
    return seconds


def spark_job(bootstrap_servers: str, rows: int, tasks: int, workers: int) -> DeliveryReport:
    """Run a job with `tasks` tasks, at most `workers` of them concurrently; return its report."""
    spark = start_session(workers)
    frame = spark.range(0, rows, 1, tasks).selectExpr(
        "concat('s', id) key", "concat('s', id) value"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/report.json"
        write = frame.write.format("kafkaprod").option("kafka.bootstrap.servers", bootstrap_servers)
        write.option("topic", TOPIC).mode("append").save(reportPath=path)
        spark.stop()
        return DeliveryReport.read(path)


if __name__ == "__main__":
    print(json.dumps(asdict(write(sys.argv[1], int(sys.argv[2])))))
