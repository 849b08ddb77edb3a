"""Micro-batches of 1,000 rows: `micro_batch_writer`, the format, and Spark's own sink."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from tools.benchmarks import tables
from tools.benchmarks.kafka import PARTITIONS, Plan, Workbench, new_topics
from tools.benchmarks.payload import events_folder
from tools.benchmarks.spark.contestants import PYTHON_41, WarmSpark

ROWS = 1_000
"""Number of rows of a micro-batch, which one task writes."""
TRIGGER, ADD_BATCH = "triggerExecution", "addBatch"
"""Durations in `StreamingQueryProgress.durationMs`: of a micro-batch, and of its write."""
_WARM_UP_BATCHES = 5
SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}


@dataclass(slots=True)
class Stream:
    """A way to write a stream, whose tasks have `rows` rows in each micro-batch.

    `limit` is the target for its trigger relative to Spark's sink.
    """

    name: str
    sink: str
    exactly_once: bool = False
    limit: float | None = None
    tasks: int = 1
    rows: int = ROWS
    durations: list[dict[str, int]] = field(default_factory=list)
    """Durations in ms of each micro-batch and its phases, as reported by Spark."""

    def median(self, phase: str) -> float:
        """Return the median duration in ms."""
        return median(duration.get(phase, 0) for duration in self.durations)

    def run(self, spark: WarmSpark, servers: str, batches: int) -> None:
        """Run a stream with a file for each task of a micro-batch, and add its durations."""
        files = (batches + _WARM_UP_BATCHES) * self.tasks
        folder = str(events_folder(files * self.rows, files))
        markers = files * PARTITIONS if self.exactly_once else 0
        expected = 0 if self.sink == "discard" else files * self.rows
        with new_topics(servers, expected, markers=markers) as (topic,):
            options = {"kafka.bootstrap.servers": servers, "topic": topic}
            if self.exactly_once:
                guarantee = DeliveryGuarantee.EXACTLY_ONCE.value
                options |= {"deliveryGuarantee": guarantee, "transactionalIdPrefix": topic}
            order = {"options": options, "stream": folder, "tasks": self.tasks, "sink": self.sink}
            self.durations += spark.ask(order)[_WARM_UP_BATCHES:]


def streams() -> list[Stream]:
    """Return all ways, the first of which is Spark's own sink."""
    return [
        Stream("Spark's kafka", "kafka"),
        Stream("mapInArrow that discards the rows", "discard"),
        Stream("micro_batch_writer", "write", limit=1.4),
        Stream("micro_batch_writer, exactly once", "write", exactly_once=True, limit=1.7),
        Stream("kafkaprod", "kafkaprod"),
        Stream("kafkaprod, exactly once", "kafkaprod", exactly_once=True),
    ]


def measure(bench: Workbench, plan: Plan) -> tables.Figures:
    """Run all streams in turn with PySpark 4.1. A round has `plan.records` micro-batches."""
    measured = streams()
    with WarmSpark(python=str(PYTHON_41), conf=SETTINGS) as spark:
        for number in range(plan.rounds):
            for stream in measured[:: -1 if number % 2 else 1]:
                bench.log(f"micro-batches, round {number + 1} of {plan.rounds}: {stream.name}")
                stream.run(spark, bench.bootstrap_servers, plan.records)
    return figures(measured)


def figures(measured: Sequence[Stream]) -> tables.Figures:
    """Return a table, and a target for each stream with a limit."""
    reference = measured[0].median(TRIGGER)
    ratios = {stream.name: stream.median(TRIGGER) / reference for stream in measured}
    targets = [
        tables.at_most(
            f"{stream.name}: a micro-batch of {ROWS:,} rows relative to Spark's own sink",
            stream.limit,
            "x",
            ratios[stream.name],
        )
        for stream in measured
        if stream.limit is not None
    ]
    table = tables.Table(
        f"Micro-batches of {ROWS:,} rows, local[1], median ms",
        ("sink", TRIGGER, ADD_BATCH, "vs. Spark's kafka"),
        [
            [
                stream.name,
                f"{stream.median(TRIGGER):.0f}",
                f"{stream.median(ADD_BATCH):.0f}",
                f"{ratios[stream.name]:.2f}x",
            ]
            for stream in measured
        ],
    )
    samples: Mapping[str, Any] = {stream.name: stream.durations for stream in measured}
    return tables.Figures([table], targets, samples)
