"""Commit messages as tasks of a size make them, from the product's own classes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.task_transaction import (
    TaskOutcome,
    TaskResult,
    TaskTransaction,
)
from spark_kafka_sink.exactly_once.transactional_id import Scope, TaskTransactionalId
from spark_kafka_sink.metrics.histogram import Histogram, HistogramBuilder
from spark_kafka_sink.metrics.producer_metrics import BrokerMetrics, TopicMetrics
from spark_kafka_sink.protocol.transactions import OpenTransaction, TransactionVersion
from spark_kafka_sink.report.builder import BatchDone, ReportBuilder
from spark_kafka_sink.report.task_report import TaskInfo
from spark_kafka_sink.spark.commit_messages import DeliveryMessage
from spark_kafka_sink.spark.exactly_once_task import TransactionMessage

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_report import DeliveryReport

TOPIC = "events"
_NONCE = "0123456789abcdef"
_QUERY = "6b0c1d4e-6d6c-4c57-9a35-5f5f5a1c7d3e"


def delivery_message(task: int, partitions: int, brokers: int) -> DeliveryMessage:
    """Of a task with a batch in each partition, and a request to each broker."""
    return DeliveryMessage(_report(task, partitions, brokers))


def transaction_message(task: int, partitions: int, brokers: int) -> TransactionMessage:
    """The same with exactly-once."""
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
    rng = random.Random(task)
    builder = ReportBuilder((("linger.ms", "1000"), ("batch.size", "1048576")))
    for partition in range(partitions):
        builder.led_by(TOPIC, partition, 1 + partition % brokers)
        records, size = rng.randint(5, 20), rng.randint(1_000, 4_000)
        done = BatchDone(
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
