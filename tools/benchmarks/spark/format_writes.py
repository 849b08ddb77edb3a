"""Writes with `value.format`, compared with Spark's own functions."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tools.benchmarks import tables
from tools.benchmarks.core.encoders import measure_formats
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.payload import FLAT, NESTED, orders_file
from tools.benchmarks.results import Series, find
from tools.benchmarks.spark.contestants import SINK, TUNED_JVM, SparkContestant, SparkWrite
from tools.benchmarks.spark.writes import against_jvm, measure_in_turn, spark_table

FORMAT_RATES = {FLAT: 1.5, NESTED: 1.3}
"""Minimum ratio of the rate to the tuned JVM sink's rate."""
FORMAT_CPU_SHARE = 0.55
REGISTRY_SHARE = 1.05
"""Maximum ratio of CPU with a registry to CPU without a registry; 5% is run-to-run noise."""
_FORMATS = ("json", "avro")
_CONFLUENT = "avro-confluent"


def with_format(format_: str, kind: str) -> str:
    """Return the name of the contestant with `value.format`."""
    return f"value.format={format_}, {kind}"


def converted(format_: str, kind: str, sink: SparkContestant = TUNED_JVM) -> str:
    """Return the name of the contestant with Spark's function and a sink."""
    return f"to_{format_}, {kind}, {sink.name}"


def format_contestants() -> list[SparkContestant]:
    """Return `value.format`, and Spark's functions with this sink and with Spark's, for all rows.

    Avro is also measured with a schema registry in memory.
    """
    contestants = []
    for kind in (FLAT, NESTED):
        source = partial(orders_file, kind)
        for format_ in _FORMATS:
            formats = {format_: {"value.format": format_}}
            if (format_, kind) == ("avro", FLAT):
                registry = {"schema.registry.url": "mock://benchmark"}
                formats[_CONFLUENT] = {"value.format": _CONFLUENT, **registry}
            ours = [
                replace(SINK, name=with_format(name, kind), options=options, source=source)
                for name, options in formats.items()
            ]
            contestants += [*ours, *(contestant.not_measured() for contestant in ours[:1])]
            select = (f"to_{format_}(struct(*)) value",)
            contestants += [
                replace(
                    contestant,
                    name=converted(format_, kind, contestant),
                    select=select,
                    source=source,
                )
                for contestant in (SINK, TUNED_JVM)
            ]
    return contestants


def measure_format_writes(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure the encoders alone, and then whole writes."""
    alone = measure_formats(bench, plan)
    writes = [
        SparkWrite(contestant=contestant, records=plan.records)
        for contestant in format_contestants()
    ]
    whole = format_figures(measure_in_turn("formats", bench, plan, writes))
    return tables.Figures(
        [*alone.tables, *whole.tables],
        [*alone.targets, *whole.targets],
        {"encoders": alone.samples, "writes": whole.samples},
    )


def format_figures(series: Sequence[Series]) -> tables.Figures:
    """Return one table, the targets relative to the tuned JVM sink, and the cost of a registry."""

    def reference(result: Series) -> Series:
        format_ = next(name for name in _FORMATS if name in result.contestant)
        return find(series, converted(format_, NESTED if NESTED in result.contestant else FLAT))

    targets: list[tables.Target] = []
    for kind, rate in FORMAT_RATES.items():
        for format_ in _FORMATS:
            pair = find(series, with_format(format_, kind)), find(series, converted(format_, kind))
            both = against_jvm(f"Spark, {format_}, {kind}", pair, rate, FORMAT_CPU_SHARE)
            targets += both if kind == FLAT else both[:1]
    pair = find(series, with_format(_CONFLUENT, FLAT)), find(series, with_format("avro", FLAT))
    what = "Spark, Avro with a registry: CPU relative to Avro without"
    targets.append(tables.cpu_target(what, REGISTRY_SHARE, pair))
    title = "Formats: orders of ten fields from Parquet, local[1], warm session"
    table = spark_table(title, series, reference)
    return tables.Figures([table], targets, [result.to_dict() for result in series])
