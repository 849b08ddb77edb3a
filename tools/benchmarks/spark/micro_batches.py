"""Micro-batches of 1,000 rows: `micro_batch_writer`, the format, and Spark's own sink."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from tools.benchmarks import tables
from tools.benchmarks.kafka import PARTITIONS, Plan, Workbench, new_topics
from tools.benchmarks.payload import events_folder
from tools.benchmarks.results import attempt
from tools.benchmarks.spark.contestants import PYTHON_41, WarmSpark

ROWS = 1_000
"""Number of rows of a micro-batch, which one task writes."""
TRIGGER, ADD_BATCH = "triggerExecution", "addBatch"
"""Durations in `StreamingQueryProgress.durationMs`: of a micro-batch, and of its write."""
_WARM_UP_BATCHES = 5
_SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}


@dataclass(slots=True)
class Stream:
    """A way to write a stream. `limit` is the target for its trigger relative to Spark's sink."""

    name: str
    sink: str
    exactly_once: bool = False
    limit: float | None = None
    durations: list[dict[str, int]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def median(self, phase: str) -> float | None:
        """Return the median duration in ms, or None if nothing was measured."""
        return median(duration[phase] for duration in self.durations) if self.durations else None

    def run(self, spark: WarmSpark, servers: str, batches: int) -> list[dict[str, int]]:
        """Run a stream with a file for each micro-batch, and return the durations."""
        files = batches + _WARM_UP_BATCHES
        folder = str(events_folder(files * ROWS, files))
        markers = files * PARTITIONS if self.exactly_once else 0
        expected = 0 if self.sink == "discard" else files * ROWS
        with new_topics(servers, expected, markers=markers) as (topic,):
            options = {"kafka.bootstrap.servers": servers, "topic": topic}
            if self.exactly_once:
                guarantee = DeliveryGuarantee.EXACTLY_ONCE.value
                options |= {"deliveryGuarantee": guarantee, "transactionalIdPrefix": topic}
            order = {"options": options, "stream": folder, "tasks": 1, "sink": self.sink}
            durations: list[dict[str, int]] = spark.ask(order)
            return durations[_WARM_UP_BATCHES:]


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
    """Run all streams in turn, with PySpark 4.1 if it is installed.

    A round has `plan.records` micro-batches.
    """
    measured = streams()
    python = {"python": str(PYTHON_41)} if PYTHON_41.exists() else {}
    with WarmSpark(conf=_SETTINGS, **python) as spark:
        for number in range(plan.rounds):
            for stream in measured[:: -1 if number % 2 else 1]:
                bench.log(f"micro-batches, round {number + 1} of {plan.rounds}: {stream.name}")
                run = partial(stream.run, spark, bench.bootstrap_servers, plan.records)
                stream.durations += attempt(run, stream.failures, bench.log) or []
    return figures(measured)


def figures(measured: Sequence[Stream]) -> tables.Figures:
    """Return a table, and a target for each stream with a limit."""
    reference = measured[0].median(TRIGGER)

    def ratio(stream: Stream) -> float | None:
        own = stream.median(TRIGGER)
        return None if own is None or reference is None else own / reference

    def row(stream: Stream) -> list[str]:
        own = stream.median(TRIGGER), stream.median(ADD_BATCH)
        return [stream.name, *(_ms(median_s) for median_s in own), tables.times(ratio(stream))]

    targets = [
        tables.at_most(
            f"{stream.name}: a micro-batch of {ROWS:,} rows relative to Spark's own sink",
            stream.limit,
            "x",
            ratio(stream),
        )
        for stream in measured
        if stream.limit is not None
    ]
    table = tables.Table(
        f"Micro-batches of {ROWS:,} rows, local[1], median ms",
        ("sink", TRIGGER, ADD_BATCH, "vs. Spark's kafka"),
        [row(stream) for stream in measured],
        " ".join(tables.failure_notes([(stream.name, stream.failures) for stream in measured])),
    )
    samples: Mapping[str, Any] = {stream.name: stream.durations for stream in measured}
    return tables.Figures([table], targets, samples)


def _ms(duration: float | None) -> str:
    return "-" if duration is None else f"{duration:.0f}"
