"""The cost of exactly-once delivery: the same jobs and streams with and without it in turn."""

from collections.abc import Sequence
from functools import partial
from statistics import quantiles

from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from tools.benchmarks import tables
from tools.benchmarks.kafka import PARTITIONS, Plan, Workbench, new_topics
from tools.benchmarks.payload import events_folder
from tools.benchmarks.results import Sample, Series, find, ratio, take_turns
from tools.benchmarks.spark.contestants import ARROW_BYTES, FIRST_WARM_UP, UNLIMITED, WarmSpark
from tools.benchmarks.spark.micro_batches import ADD_BATCH, SETTINGS, TRIGGER, Stream

AT_LEAST_ONCE, EXACTLY_ONCE = DeliveryGuarantee
TASKS = 8
"""Number of tasks of a job and of a micro-batch."""
_CORES = 2
_SETTINGS = {**SETTINGS, ARROW_BYTES: UNLIMITED, "spark.sql.files.minPartitionNum": str(TASKS)}
PHASES = ("queryPlanning", ADD_BATCH, "walCommit", "commitOffsets")
"""Phases of a micro-batch. The tasks and the sink's commit are part of addBatch."""
WANTED_RATIO = 0.90
WANTED_ADDED_MS = 150.0
_WARM_UP_JOBS = 2
"""Warm-up jobs per guarantee."""
_MICRO_BATCHES = 10
"""Number of measured micro-batches per stream."""
_ROWS = 100
"""Number of rows of a task in a micro-batch."""


def measure_exactly_once(bench: Workbench, plan: Plan) -> tables.Figures:
    """Run all measurements of this part."""
    servers, log = bench.bootstrap_servers, bench.log
    streams = [
        Stream(name, "kafkaprod", name is EXACTLY_ONCE, tasks=TASKS, rows=_ROWS)
        for name in DeliveryGuarantee
    ]
    with WarmSpark(cores=_CORES, conf=_SETTINGS) as spark:
        runs = []
        for guarantee in DeliveryGuarantee:
            series = Series(guarantee)
            for _ in range(_WARM_UP_JOBS):
                log(f"exactly-once: warming up, {guarantee}")
                _job(spark, servers, guarantee, FIRST_WARM_UP)
            runs.append((series, partial(_job, spark, servers, guarantee, plan.records)))
        jobs = take_turns("exactly-once", plan.rounds, runs, log)
        for _ in range(max(1, plan.rounds // 2)):
            for stream in streams:
                log(f"exactly-once, stream: {stream.name}")
                stream.run(spark, servers, _MICRO_BATCHES)
    return exactly_once_figures(jobs, streams)


def _job(
    spark: WarmSpark, bootstrap_servers: str, guarantee: DeliveryGuarantee, records: int
) -> Sample:
    folder = str(events_folder(records, TASKS))
    markers = TASKS * PARTITIONS if guarantee is EXACTLY_ONCE else 0
    with new_topics(bootstrap_servers, records, markers=markers) as (topic,):
        options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
        if guarantee is EXACTLY_ONCE:
            options |= {"deliveryGuarantee": guarantee.value, "transactionalIdPrefix": topic}
        conf = {ARROW_BYTES: UNLIMITED}
        return spark.write("kafkaprod", options, records, events=folder, tasks=TASKS, conf=conf)


def exactly_once_figures(jobs: Sequence[Series], streams: Sequence[Stream]) -> tables.Figures:
    """Return a table for batch jobs and a table for streams, and the limits for the cost."""
    without, with_it = (find(jobs, guarantee) for guarantee in DeliveryGuarantee)
    at_least_once, exactly_once = map(_durations, streams)
    added = [more - less for more, less in zip(exactly_once, at_least_once, strict=True)]
    targets = [
        tables.at_least(
            "exactly once, a batch job of 8 tasks: rate relative to at-least-once",
            WANTED_RATIO,
            "x",
            ratio(with_it, without),
        ),
        tables.at_most(
            "exactly once, added to a micro-batch of 8 tasks", WANTED_ADDED_MS, " ms", added[0]
        ),
    ]
    samples = {
        "jobs": [job.to_dict() for job in jobs],
        "streams": {stream.name: stream.durations for stream in streams},
    }
    rows = [
        (AT_LEAST_ONCE, *(f"{figure:.0f}" for figure in at_least_once)),
        (EXACTLY_ONCE, *(f"{figure:.0f}" for figure in exactly_once)),
        ("added by exactly-once", *(f"{figure:+.0f}" for figure in added)),
    ]
    table = tables.Table(
        "Exactly once: micro-batches of 8 small tasks, ms, local[2]",
        ("deliveryGuarantee", "median", "p95", *PHASES),
        rows,
    )
    return tables.Figures([_jobs(jobs), table], targets, samples)


def _durations(stream: Stream) -> list[float]:
    """Return median and p95 of the micro-batches, and the medians of the phases, in ms."""
    whole = [duration[TRIGGER] for duration in stream.durations]
    p95 = quantiles(whole, n=20, method="inclusive")[-1]
    return [stream.median(TRIGGER), p95, *map(stream.median, PHASES)]


def _jobs(jobs: Sequence[Series]) -> tables.Table:
    other = find(jobs, AT_LEAST_ONCE)
    return tables.series_table(
        "Exactly once: a batch job of 8 tasks, 131-byte JSON events from Parquet, local[2]",
        (tables.contestant("deliveryGuarantee"),),
        tables.compared(f"to {AT_LEAST_ONCE}", lambda _: other),
        jobs,
        "CPU is the total of the driver, the JVM and the Python workers.",
    )
